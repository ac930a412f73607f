"""A2C on Atari SpaceInvaders. Values of DI-engine, not trained here."""

import copy

from dizoo.atari.config.serial.atari_a2c_config import atari_a2c_config, atari_a2c_create_config

main_config = spaceinvaders_a2c_config = copy.deepcopy(atari_a2c_config)
main_config.exp_name = "spaceinvaders_a2c_seed0"
main_config.env.env_id = "SpaceInvadersNoFrameskip-v4"
main_config.policy.model.encoder_hidden_size_list = [32, 64, 64, 128]
main_config.policy.model.actor_head_hidden_size = 128
main_config.policy.model.critic_head_hidden_size = 128
main_config.policy.learn.batch_size = 80
main_config.policy.learn.learning_rate = 0.0001
main_config.policy.learn.betas = [0.3, 0.99]
main_config.policy.collect.n_sample = 80  # env steps
create_config = spaceinvaders_a2c_create_config = copy.deepcopy(atari_a2c_create_config)

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0, max_env_step=int(1e7))
