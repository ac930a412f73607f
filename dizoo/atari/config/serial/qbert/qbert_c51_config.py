"""C51 on Atari Qbert. Values of DI-engine, not trained here."""

import copy

from dizoo.atari.config.serial.atari_c51_config import atari_c51_config, atari_c51_create_config

main_config = qbert_c51_config = copy.deepcopy(atari_c51_config)
main_config.exp_name = "qbert_c51_seed0"
main_config.env.env_id = "QbertNoFrameskip-v4"
main_config.env.stop_value = 30000
main_config.policy.priority = True
create_config = qbert_c51_create_config = copy.deepcopy(atari_c51_create_config)

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
