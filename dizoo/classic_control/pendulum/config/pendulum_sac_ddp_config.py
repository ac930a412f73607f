"""SAC on Pendulum-v1 on several processes, which share the batch and the samples of a collect.

Start it with `python -m torch.distributed.launch --nproc_per_node=2 THIS_FILE`.
Result: on one process that of `pendulum_sac_config.py`.
"""

import copy

from dizoo.classic_control.pendulum.config.pendulum_sac_config import (
    pendulum_sac_config,
    pendulum_sac_create_config,
)

pendulum_sac_ddp_config = copy.deepcopy(pendulum_sac_config)
pendulum_sac_ddp_config.exp_name = "pendulum_sac_ddp_seed0"
pendulum_sac_ddp_config.policy.multi_gpu = True
pendulum_sac_ddp_config.policy.random_collect_size = 500  # of each process
pendulum_sac_ddp_config.policy.learn.update_per_collect = 2
pendulum_sac_ddp_config.policy.collect.n_sample = 20
main_config = pendulum_sac_ddp_config
create_config = pendulum_sac_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline
    from ding_lite.utils import DDPContext, to_ddp_config

    with DDPContext():
        serial_pipeline((to_ddp_config(main_config), create_config), seed=0)
