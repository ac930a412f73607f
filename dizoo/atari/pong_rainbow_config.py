"""Rainbow on Atari Pong, for one process, with the values of the main job, `pong_dqn_ddp_config.py`.

Noisy layers replace epsilon; docs/pong.md has its run.
Result: 10.6 at best within 213,000 env steps, one seed, interrupted.
"""

import copy

from dizoo.atari.pong_dqn_ddp_config import pong_dqn_config, pong_dqn_create_config

main_config = pong_rainbow_config = copy.deepcopy(pong_dqn_config)
main_config.exp_name = "pong_rainbow_seed0"
main_config.env.collector_env_num = 8  # what two ranks of the main job have together, here and below
for key in ("multi_gpu", "double", "discount_factor", "priority", "priority_IS_weight"):  # Rainbow's defaults serve
    main_config.policy.pop(key)
main_config.policy.other.pop("eps")
main_config.policy.model = dict(
    encoder=dict(type="conv", layer_norm=True),
    encoder_hidden_size_list=[16, 32, 32, 256],
    v_min=-1.0,  # the return of a point, which is learned by itself
    v_max=1.0,
)
main_config.policy.learn.batch_size = 32
main_config.policy.collect.n_sample = 32
main_config.policy.random_collect_size = 5000
create_config = pong_rainbow_create_config = copy.deepcopy(pong_dqn_create_config)
create_config.policy.type = "rainbow"

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
