"""Conservative Q-learning from recorded data of Atari Qbert. Values of DI-engine, not trained here."""

import copy

from dizoo.atari.config.serial.atari_discrete_cql_config import (
    atari_discrete_cql_config,
    atari_discrete_cql_create_config,
)

main_config = qbert_cql_config = copy.deepcopy(atari_discrete_cql_config)
main_config.exp_name = "qbert_cql_seed0"
main_config.env.env_id = "QbertNoFrameskip-v4"
main_config.env.stop_value = 30000
main_config.policy.collect.data_path = "./qbert_dqn_seed0/expert_demos.hdf5"
create_config = qbert_cql_create_config = copy.deepcopy(atari_discrete_cql_create_config)

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_offline

    serial_pipeline_offline((main_config, create_config), seed=0)
