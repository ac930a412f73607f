"""QR-DQN on Atari Pong. Values of DI-engine, not trained here."""

import copy

from dizoo.atari.config.serial.pong.pong_c51_config import pong_c51_config, pong_c51_create_config

main_config = pong_qrdqn_config = copy.deepcopy(pong_c51_config)
main_config.exp_name = "pong_qrdqn_seed0"
main_config.policy.model.num_quantiles = 64
create_config = pong_qrdqn_create_config = copy.deepcopy(pong_c51_create_config)
create_config.policy.type = "qrdqn"

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
