"""FQF on Atari Qbert. Values of DI-engine, not trained here."""

import copy

from dizoo.atari.config.serial.atari_fqf_config import atari_fqf_config, atari_fqf_create_config

main_config = qbert_fqf_config = copy.deepcopy(atari_fqf_config)
main_config.exp_name = "qbert_fqf_seed0"
main_config.env.env_id = "QbertNoFrameskip-v4"
main_config.policy.other.replay_buffer.replay_buffer_size = 1000000  # env steps
create_config = qbert_fqf_create_config = copy.deepcopy(atari_fqf_create_config)

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0, max_env_step=int(1e7))
