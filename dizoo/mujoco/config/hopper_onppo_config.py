"""PPO with continuous actions on Hopper-v5, up to a mean return of 4000. No result is recorded."""

import copy

from dizoo.mujoco.config.walker2d_onppo_config import walker2d_onppo_config, walker2d_onppo_create_config

main_config = hopper_onppo_config = copy.deepcopy(walker2d_onppo_config)
main_config.exp_name = "hopper_onppo_seed0"
main_config.env.env_id = "Hopper-v5"
main_config.env.evaluator_env_num = 10
main_config.env.n_evaluator_episode = 10
main_config.env.stop_value = 4000
main_config.policy.learn.lr_scheduler = dict(epoch_num=1500, min_lr_lambda=0)
create_config = hopper_onppo_create_config = copy.deepcopy(walker2d_onppo_create_config)

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
