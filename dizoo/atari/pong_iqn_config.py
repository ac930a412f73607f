"""IQN on Atari Pong, for one process, with the values of the main job, `pong_dqn_ddp_config.py`.

It returns 20 after some 165,000 env steps; docs/pong.md has its run.
Result: 20.9 over 100 new games after 165,000 env steps, one seed.
"""

import copy

from dizoo.atari.pong_dqn_ddp_config import pong_dqn_config, pong_dqn_create_config

main_config = pong_iqn_config = copy.deepcopy(pong_dqn_config)
main_config.exp_name = "pong_iqn_seed0"
main_config.env.collector_env_num = 8  # what two ranks of the main job have together, here and below
for key in ("multi_gpu", "double"):  # IQN's defaults serve
    main_config.policy.pop(key)
main_config.policy.model.pop("dueling")
main_config.policy.learn.batch_size = 32
main_config.policy.collect.n_sample = 32
main_config.policy.random_collect_size = 5000
create_config = pong_iqn_create_config = copy.deepcopy(pong_dqn_create_config)
create_config.policy.type = "iqn"

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
