"""Conservative Q-learning on CartPole-v0 on several processes, which share the data set and the batch.

Start it with `python -m torch.distributed.launch --nproc_per_node=2 THIS_FILE`.
Result: on one process that of `cartpole_discrete_cql_config.py`.
"""

import copy

from dizoo.classic_control.cartpole.config.cartpole_discrete_cql_config import (
    cartpole_discrete_cql_config,
    cartpole_discrete_cql_create_config,
)

cartpole_discrete_cql_ddp_config = copy.deepcopy(cartpole_discrete_cql_config)
cartpole_discrete_cql_ddp_config.exp_name = "cartpole_discrete_cql_ddp_seed0"
cartpole_discrete_cql_ddp_config.policy.multi_gpu = True
main_config = cartpole_discrete_cql_ddp_config
create_config = cartpole_discrete_cql_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_offline
    from ding_lite.utils import DDPContext, to_ddp_config

    with DDPContext():
        serial_pipeline_offline((to_ddp_config(main_config), create_config), seed=0)
