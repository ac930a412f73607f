"""PPO with continuous actions on HalfCheetah-v5, up to a mean return of 12000.

Values of DI-engine, not trained here.
"""

import copy

from dizoo.mujoco.config.walker2d_onppo_config import walker2d_onppo_config, walker2d_onppo_create_config

main_config = halfcheetah_onppo_config = copy.deepcopy(walker2d_onppo_config)
main_config.exp_name = "halfcheetah_onppo_seed0"
main_config.env.env_id = "HalfCheetah-v5"
main_config.env.stop_value = 12000
main_config.policy.learn.ignore_done = True
create_config = halfcheetah_onppo_create_config = copy.deepcopy(walker2d_onppo_create_config)

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
