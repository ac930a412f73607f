"""ACER on Atari SpaceInvaders. Values of DI-engine, not trained here."""

import copy

from dizoo.atari.config.serial.atari_acer_config import atari_acer_config, atari_acer_create_config

main_config = spaceinvaders_acer_config = copy.deepcopy(atari_acer_config)
main_config.exp_name = "spaceinvaders_acer_seed0"
main_config.env.env_id = "SpaceInvadersNoFrameskip-v4"
main_config.policy.learn.learning_rate_actor = 0.00005
main_config.policy.learn.learning_rate_critic = 0.0001
main_config.policy.learn.entropy_weight = 0.03
create_config = spaceinvaders_acer_create_config = copy.deepcopy(atari_acer_create_config)

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0, max_env_step=int(1e7))
