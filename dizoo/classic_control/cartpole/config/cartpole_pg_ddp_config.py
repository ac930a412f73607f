"""Policy gradient (REINFORCE) on CartPole-v0 on several processes, which share the batch and the episodes of a collect.

Start it with `python -m torch.distributed.launch --nproc_per_node=2 THIS_FILE`.
Result: on one process that of `cartpole_pg_config.py`.
"""

import copy

from dizoo.classic_control.cartpole.config.cartpole_pg_config import cartpole_pg_config, cartpole_pg_create_config

cartpole_pg_ddp_config = copy.deepcopy(cartpole_pg_config)
cartpole_pg_ddp_config.exp_name = "cartpole_pg_ddp_seed0"
cartpole_pg_ddp_config.policy.multi_gpu = True
main_config = cartpole_pg_ddp_config
create_config = cartpole_pg_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy
    from ding_lite.utils import DDPContext, to_ddp_config

    with DDPContext():
        serial_pipeline_onpolicy((to_ddp_config(main_config), create_config), seed=0)
