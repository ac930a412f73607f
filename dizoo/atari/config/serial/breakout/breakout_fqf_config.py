"""FQF on Atari Breakout, with the values of `atari_fqf_config.py`; DI-engine has no such file."""

import copy

from dizoo.atari.config.serial.atari_fqf_config import atari_fqf_config, atari_fqf_create_config

breakout_fqf_config = copy.deepcopy(atari_fqf_config)
breakout_fqf_config.exp_name = "breakout_fqf_seed0"
breakout_fqf_config.env.env_id = "BreakoutNoFrameskip-v4"
breakout_fqf_config.policy.eval.eps = 0.01  # else a policy that never serves waits for the time limit
main_config = breakout_fqf_config

breakout_fqf_create_config = copy.deepcopy(atari_fqf_create_config)
create_config = breakout_fqf_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0, max_env_step=int(1e7))
