"""IMPALA on Atari Pong. Values of DI-engine, except for a smaller buffer, not trained here."""

import copy

from dizoo.atari.config.serial.atari_impala_config import atari_impala_config, atari_impala_create_config

main_config = pong_impala_config = copy.deepcopy(atari_impala_config)
main_config.exp_name = "pong_impala_seed0"
main_config.env.collector_env_num = 12
main_config.env.stop_value = 21
main_config.policy.unroll_len = 64  # env steps
main_config.policy.model = dict(
    encoder_hidden_size_list=[64, 128, 256],
    actor_head_hidden_size=256,
    actor_head_layer_num=2,
    critic_head_hidden_size=256,
    critic_head_layer_num=2,
)
main_config.policy.learn.update_per_collect = 2  # learner iterations
main_config.policy.learn.learning_rate = 0.0006
main_config.policy.learn.grad_clip_value = 0.5
main_config.policy.collect.n_sample = 18  # sequences of 64 env steps
main_config.policy.eval.evaluator.eval_freq = 2000  # learner iterations
main_config.policy.other.replay_buffer.replay_buffer_size = 5000  # sequences of 64 env steps
create_config = pong_impala_create_config = copy.deepcopy(atari_impala_create_config)

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
