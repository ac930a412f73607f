"""TD3 on Pendulum-v1 on several processes, which share the batch and the samples of a collect.

Start it with `python -m torch.distributed.launch --nproc_per_node=2 THIS_FILE`.
Result: on one process that of `pendulum_td3_config.py`.
"""

import copy

from dizoo.classic_control.pendulum.config.pendulum_td3_config import (
    pendulum_td3_config,
    pendulum_td3_create_config,
)

pendulum_td3_ddp_config = copy.deepcopy(pendulum_td3_config)
pendulum_td3_ddp_config.exp_name = "pendulum_td3_ddp_seed0"
pendulum_td3_ddp_config.policy.multi_gpu = True
pendulum_td3_ddp_config.policy.random_collect_size = 500  # of each process
pendulum_td3_ddp_config.policy.learn.update_per_collect = 16
pendulum_td3_ddp_config.policy.collect.n_sample = 16
main_config = pendulum_td3_ddp_config
create_config = pendulum_td3_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline
    from ding_lite.utils import DDPContext, to_ddp_config

    with DDPContext():
        serial_pipeline((to_ddp_config(main_config), create_config), seed=0)
