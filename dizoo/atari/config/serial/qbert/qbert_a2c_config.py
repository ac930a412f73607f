"""A2C on Atari Qbert. Values of DI-engine, not trained here."""

import copy

from dizoo.atari.config.serial.atari_a2c_config import atari_a2c_config, atari_a2c_create_config

main_config = qbert_a2c_config = copy.deepcopy(atari_a2c_config)
main_config.exp_name = "qbert_a2c_seed0"
main_config.env.env_id = "QbertNoFrameskip-v4"
create_config = qbert_a2c_create_config = copy.deepcopy(atari_a2c_create_config)

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0, max_env_step=int(1e7))
