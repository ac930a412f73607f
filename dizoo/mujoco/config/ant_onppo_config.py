"""PPO with continuous actions on Ant-v5, up to a mean return of 6000. Values of DI-engine, not trained here."""

import copy

from dizoo.mujoco.config.walker2d_onppo_config import walker2d_onppo_config, walker2d_onppo_create_config

main_config = ant_onppo_config = copy.deepcopy(walker2d_onppo_config)
main_config.exp_name = "ant_onppo_seed0"
main_config.env.env_id = "Ant-v5"
main_config.env.collector_env_num = 10
main_config.env.evaluator_env_num = 10
main_config.env.n_evaluator_episode = 10
main_config.policy.collect.n_sample = 2050  # env steps
create_config = ant_onppo_create_config = copy.deepcopy(walker2d_onppo_create_config)

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
