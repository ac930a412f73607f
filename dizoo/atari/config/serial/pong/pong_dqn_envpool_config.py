"""DQN on Atari Pong with one engine for all games.

DI-engine uses EnvPool; here it is the engine of ale-py.
Values of DI-engine, not trained here.
"""

import copy

from dizoo.atari.config.serial.pong.pong_dqn_config import pong_dqn_config, pong_dqn_create_config

main_config = pong_dqn_envpool_config = copy.deepcopy(pong_dqn_config)
main_config.exp_name = "pong_dqn_envpool_seed0"
create_config = pong_dqn_envpool_create_config = copy.deepcopy(pong_dqn_create_config)
create_config.env_manager.type = "native"

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
