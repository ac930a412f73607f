"""Off-policy PPO on Atari Breakout, with the values of `atari_ppo_offpolicy_config.py`; DI-engine has no such file."""

import copy

from dizoo.atari.config.serial.atari_ppo_offpolicy_config import (
    atari_ppo_offpolicy_config,
    atari_ppo_offpolicy_create_config,
)

breakout_offppo_config = copy.deepcopy(atari_ppo_offpolicy_config)
breakout_offppo_config.exp_name = "breakout_offppo_seed0"
breakout_offppo_config.env.env_id = "BreakoutNoFrameskip-v4"
main_config = breakout_offppo_config

breakout_offppo_create_config = copy.deepcopy(atari_ppo_offpolicy_create_config)
create_config = breakout_offppo_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0, max_env_step=int(1e7))
