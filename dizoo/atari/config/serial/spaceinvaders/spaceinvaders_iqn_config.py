"""IQN on Atari SpaceInvaders. Values of DI-engine, not trained here."""

import copy

from dizoo.atari.config.serial.atari_iqn_config import atari_iqn_config, atari_iqn_create_config

main_config = spaceinvaders_iqn_config = copy.deepcopy(atari_iqn_config)
main_config.exp_name = "spaceinvaders_iqn_seed0"
main_config.env.env_id = "SpaceInvadersNoFrameskip-v4"
create_config = spaceinvaders_iqn_create_config = copy.deepcopy(atari_iqn_create_config)

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0, max_env_step=int(1e7))
