"""Rainbow on Atari Enduro. Values of DI-engine, not trained here."""

import copy

from dizoo.atari.config.serial.atari_rainbow_config import atari_rainbow_config, atari_rainbow_create_config

main_config = enduro_rainbow_config = copy.deepcopy(atari_rainbow_config)
main_config.exp_name = "enduro_rainbow_seed0"
main_config.env.env_id = "EnduroNoFrameskip-v4"
create_config = enduro_rainbow_create_config = copy.deepcopy(atari_rainbow_create_config)

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0, max_env_step=int(1e7))
