"""Conservative Q-learning from recorded data of Atari Pong. Values of DI-engine, not trained here."""

import copy

from dizoo.atari.config.serial.atari_discrete_cql_config import (
    atari_discrete_cql_config,
    atari_discrete_cql_create_config,
)

main_config = pong_cql_config = copy.deepcopy(atari_discrete_cql_config)
main_config.exp_name = "pong_cql_seed0"
main_config.env.stop_value = 20
main_config.policy.collect.data_path = "./pong_dqn_seed0/expert_demos.hdf5"
main_config.policy.learn.learning_rate = 0.00005
create_config = pong_cql_create_config = copy.deepcopy(atari_discrete_cql_create_config)

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_offline

    serial_pipeline_offline((main_config, create_config), seed=0)
