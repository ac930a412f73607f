"""DQN on Atari SpaceInvaders. Values of DI-engine, not trained here."""

import copy

from dizoo.atari.config.serial.atari_dqn_config import atari_dqn_config, atari_dqn_create_config

main_config = spaceinvaders_dqn_config = copy.deepcopy(atari_dqn_config)
main_config.exp_name = "spaceinvaders_dqn_seed0"
main_config.env.env_id = "SpaceInvadersNoFrameskip-v4"
main_config.policy.random_collect_size = 5000  # env steps
create_config = spaceinvaders_dqn_create_config = copy.deepcopy(atari_dqn_create_config)

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0, max_env_step=int(1e7))
