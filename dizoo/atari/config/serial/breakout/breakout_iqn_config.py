"""IQN on Atari Breakout, with the values of `atari_iqn_config.py`; DI-engine has no such file."""

import copy

from dizoo.atari.config.serial.atari_iqn_config import atari_iqn_config, atari_iqn_create_config

breakout_iqn_config = copy.deepcopy(atari_iqn_config)
breakout_iqn_config.exp_name = "breakout_iqn_seed0"
breakout_iqn_config.env.env_id = "BreakoutNoFrameskip-v4"
breakout_iqn_config.policy.eval.eps = 0.01  # else a policy that never serves waits for the time limit
main_config = breakout_iqn_config

breakout_iqn_create_config = copy.deepcopy(atari_iqn_create_config)
create_config = breakout_iqn_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0, max_env_step=int(1e7))
