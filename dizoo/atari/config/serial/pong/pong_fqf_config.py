"""FQF on Atari Pong. Values of DI-engine, not trained here."""

import copy

from dizoo.atari.config.serial.pong.pong_c51_config import pong_c51_config, pong_c51_create_config

main_config = pong_fqf_config = copy.deepcopy(pong_c51_config)
main_config.exp_name = "pong_fqf_seed0"
main_config.policy.learn.learning_rate_fraction = pong_fqf_config.policy.learn.pop("learning_rate")
main_config.policy.learn.learning_rate_quantile = 0.0001
create_config = pong_fqf_create_config = copy.deepcopy(pong_c51_create_config)
create_config.policy.type = "fqf"

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
