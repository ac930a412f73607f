"""R2D2 on Atari Breakout, with the values of `atari_r2d2_config.py`; DI-engine has no such file."""

import copy

from dizoo.atari.config.serial.atari_r2d2_config import atari_r2d2_config, atari_r2d2_create_config

breakout_r2d2_config = copy.deepcopy(atari_r2d2_config)
breakout_r2d2_config.exp_name = "breakout_r2d2_seed0"
breakout_r2d2_config.env.env_id = "BreakoutNoFrameskip-v4"
breakout_r2d2_config.policy.eval = dict(eps=0.01)  # else a policy that never serves waits for the time limit
main_config = breakout_r2d2_config

breakout_r2d2_create_config = copy.deepcopy(atari_r2d2_create_config)
create_config = breakout_r2d2_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0, max_env_step=int(1e7))
