"""C51 on Atari Breakout, with the values of `atari_c51_config.py`; DI-engine has no such file."""

import copy

from dizoo.atari.config.serial.atari_c51_config import atari_c51_config, atari_c51_create_config

breakout_c51_config = copy.deepcopy(atari_c51_config)
breakout_c51_config.exp_name = "breakout_c51_seed0"
breakout_c51_config.env.env_id = "BreakoutNoFrameskip-v4"
breakout_c51_config.policy.eval.eps = 0.01  # else a policy that never serves waits for the time limit
main_config = breakout_c51_config

breakout_c51_create_config = copy.deepcopy(atari_c51_create_config)
create_config = breakout_c51_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0, max_env_step=int(1e7))
