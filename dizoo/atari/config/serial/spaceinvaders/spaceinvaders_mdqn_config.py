"""Munchausen DQN on Atari SpaceInvaders. Values of DI-engine, not trained here."""

import copy

from dizoo.atari.config.serial.atari_mdqn_config import atari_mdqn_config, atari_mdqn_create_config

main_config = spaceinvaders_mdqn_config = copy.deepcopy(atari_mdqn_config)
main_config.exp_name = "spaceinvaders_mdqn_seed0"
main_config.env.env_id = "SpaceInvadersNoFrameskip-v0"  # with sticky actions
main_config.env.stop_value = 10000
create_config = spaceinvaders_mdqn_create_config = copy.deepcopy(atari_mdqn_create_config)

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0, max_env_step=int(3e7))
