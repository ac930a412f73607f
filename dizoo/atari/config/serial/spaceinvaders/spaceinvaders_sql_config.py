"""Soft Q-learning on Atari SpaceInvaders. Values of DI-engine, not trained here."""

import copy

from dizoo.atari.config.serial.atari_sql_config import atari_sql_config, atari_sql_create_config

main_config = spaceinvaders_sql_config = copy.deepcopy(atari_sql_config)
main_config.exp_name = "spaceinvaders_sql_seed0"
main_config.env.env_id = "SpaceInvadersNoFrameskip-v4"
main_config.policy.eval.evaluator.eval_freq = 1000  # learner iterations
create_config = spaceinvaders_sql_create_config = copy.deepcopy(atari_sql_create_config)

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0, max_env_step=int(1e7))
