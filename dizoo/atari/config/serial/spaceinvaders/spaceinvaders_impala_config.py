"""IMPALA on Atari SpaceInvaders. Values of DI-engine, except for a smaller buffer, not trained here."""

import copy

from dizoo.atari.config.serial.atari_impala_config import atari_impala_config, atari_impala_create_config

main_config = spaceinvaders_impala_config = copy.deepcopy(atari_impala_config)
main_config.exp_name = "spaceinvaders_impala_seed0"
main_config.env.env_id = "SpaceInvadersNoFrameskip-v4"
main_config.policy.model.encoder_hidden_size_list = [128, 128, 256, 256]
main_config.policy.model.actor_head_hidden_size = 256
main_config.policy.model.critic_head_hidden_size = 256
main_config.policy.learn.update_per_collect = 2  # learner iterations
main_config.policy.learn.learning_rate = 0.0006
main_config.policy.eval.evaluator.eval_freq = 500  # learner iterations
create_config = spaceinvaders_impala_create_config = copy.deepcopy(atari_impala_create_config)

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0, max_env_step=int(1e7))
