"""IMPALA on Atari Breakout, with the values of `atari_impala_config.py`; DI-engine has no such file."""

import copy

from dizoo.atari.config.serial.atari_impala_config import atari_impala_config, atari_impala_create_config

breakout_impala_config = copy.deepcopy(atari_impala_config)
breakout_impala_config.exp_name = "breakout_impala_seed0"
breakout_impala_config.env.env_id = "BreakoutNoFrameskip-v4"
main_config = breakout_impala_config

breakout_impala_create_config = copy.deepcopy(atari_impala_create_config)
create_config = breakout_impala_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0, max_env_step=int(1e7))
