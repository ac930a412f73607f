"""A2C on Atari Breakout, with the values of `atari_a2c_config.py`; DI-engine has no such file."""

import copy

from dizoo.atari.config.serial.atari_a2c_config import atari_a2c_config, atari_a2c_create_config

breakout_a2c_config = copy.deepcopy(atari_a2c_config)
breakout_a2c_config.exp_name = "breakout_a2c_seed0"
breakout_a2c_config.env.env_id = "BreakoutNoFrameskip-v4"
main_config = breakout_a2c_config

breakout_a2c_create_config = copy.deepcopy(atari_a2c_create_config)
create_config = breakout_a2c_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0, max_env_step=int(1e7))
