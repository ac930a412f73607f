"""Policy gradient (REINFORCE) on CartPole-v0 with one agent and two observers, which share the episodes of a collect.

Start it with `python -m torch.distributed.launch --nproc_per_node=3 THIS_FILE`.
No result is recorded.
"""

import copy

from dizoo.classic_control.cartpole.config.cartpole_pg_config import cartpole_pg_config, cartpole_pg_create_config

main_config = cartpole_pg_rpc_config = copy.deepcopy(cartpole_pg_config)
main_config.exp_name = "cartpole_pg_rpc_seed0"
main_config.policy.discount_factor = 0.97  # with 0.9 some seeds never learn to stay on the track
main_config.policy.collect.n_episode = 40  # per observer
create_config = cartpole_pg_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_rpc
    from ding_lite.utils import DDPContext

    with DDPContext():
        serial_pipeline_rpc((main_config, create_config), seed=0)
