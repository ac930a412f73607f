"""IMPALA on Atari Enduro. Values of DI-engine, except for a smaller buffer, not trained here."""

import copy

from dizoo.atari.config.serial.atari_impala_config import atari_impala_config, atari_impala_create_config

main_config = enduro_impala_config = copy.deepcopy(atari_impala_config)
main_config.exp_name = "enduro_impala_seed0"
main_config.env.env_id = "EnduroNoFrameskip-v4"
main_config.env.collector_env_num = 16
main_config.policy.unroll_len = 64  # env steps
main_config.policy.model.encoder_hidden_size_list = [128, 128, 512]
main_config.policy.model.actor_head_layer_num = 2
main_config.policy.model.critic_head_layer_num = 2
main_config.policy.learn.learning_rate = 0.0001
main_config.policy.learn.grad_clip_value = 10.0
main_config.policy.learn.value_weight = 1.0
main_config.policy.learn.entropy_weight = 1e-7
main_config.policy.learn.lambda_ = 1.0
main_config.policy.other.replay_buffer.replay_buffer_size = 5000  # sequences of 64 env steps
create_config = enduro_impala_create_config = copy.deepcopy(atari_impala_create_config)

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0, max_env_step=int(1e7))
