"""PPO on Atari Breakout, with the values of `atari_ppo_config.py`; DI-engine has no such file."""

import copy

from dizoo.atari.config.serial.atari_ppo_config import atari_ppo_config, atari_ppo_create_config

breakout_onppo_config = copy.deepcopy(atari_ppo_config)
breakout_onppo_config.exp_name = "breakout_onppo_seed0"
breakout_onppo_config.env.env_id = "BreakoutNoFrameskip-v4"
main_config = breakout_onppo_config

breakout_onppo_create_config = copy.deepcopy(atari_ppo_create_config)
create_config = breakout_onppo_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0, max_env_step=int(1e7))
