"""IMPALA on CartPole-v0 on several processes, which share the batch and the sequences of a collect.

Start it with `python -m torch.distributed.launch --nproc_per_node=2 THIS_FILE`.
Result: on one process that of `cartpole_impala_config.py`.
"""

import copy

from dizoo.classic_control.cartpole.config.cartpole_impala_config import (
    cartpole_impala_config,
    cartpole_impala_create_config,
)

cartpole_impala_ddp_config = copy.deepcopy(cartpole_impala_config)
cartpole_impala_ddp_config.exp_name = "cartpole_impala_ddp_seed0"
cartpole_impala_ddp_config.policy.multi_gpu = True
main_config = cartpole_impala_ddp_config
create_config = cartpole_impala_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline
    from ding_lite.utils import DDPContext, to_ddp_config

    with DDPContext():
        serial_pipeline((to_ddp_config(main_config), create_config), seed=0)
