"""C51 on Atari Qbert. Values of DI-engine, not trained here."""

import copy

from dizoo.atari.config.serial.atari_c51_config import atari_c51_config, atari_c51_create_config

qbert_c51_config = copy.deepcopy(atari_c51_config)
qbert_c51_config.exp_name = "qbert_c51_seed0"
qbert_c51_config.env.env_id = "QbertNoFrameskip-v4"
qbert_c51_config.env.stop_value = 30000
qbert_c51_config.policy.priority = True
main_config = qbert_c51_config

qbert_c51_create_config = copy.deepcopy(atari_c51_create_config)
create_config = qbert_c51_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
