"""DDPG on Ant-v5, up to a mean return of 6000. Values of DI-engine, not trained here."""

import copy

from dizoo.mujoco.config.hopper_ddpg_config import hopper_ddpg_config, hopper_ddpg_create_config

main_config = ant_ddpg_config = copy.deepcopy(hopper_ddpg_config)
main_config.exp_name = "ant_ddpg_seed0"
main_config.env.env_id = "Ant-v5"
create_config = ant_ddpg_create_config = copy.deepcopy(hopper_ddpg_create_config)

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
