"""A2C on Atari Pong. Values of DI-engine, not trained here."""

import copy

from dizoo.atari.config.serial.atari_a2c_config import atari_a2c_config, atari_a2c_create_config

main_config = pong_a2c_config = copy.deepcopy(atari_a2c_config)
main_config.exp_name = "pong_a2c_seed0"
main_config.env.collector_env_num = 8
main_config.env.stop_value = 20
main_config.policy.model = dict(
    encoder_hidden_size_list=[64, 64, 128],
    actor_head_hidden_size=128,
    critic_head_hidden_size=128,
)
create_config = pong_a2c_create_config = copy.deepcopy(atari_a2c_create_config)

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
