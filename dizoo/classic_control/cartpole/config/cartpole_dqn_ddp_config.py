"""DQN on CartPole-v0 on several processes, which share the batch and the samples of a collect.

Start it with `python -m torch.distributed.launch --nproc_per_node=2 THIS_FILE`.
Result: 195 with five of five seeds, after 1,184 to 7,104 env steps, on two processes with earlier values.
"""

import copy

from dizoo.classic_control.cartpole.config.cartpole_dqn_config import cartpole_dqn_config, cartpole_dqn_create_config

main_config = cartpole_dqn_ddp_config = copy.deepcopy(cartpole_dqn_config)
main_config.exp_name = "cartpole_dqn_ddp_seed0"
main_config.policy.multi_gpu = True
main_config.policy.learn.update_per_collect = 10
main_config.policy.collect.n_sample = 16
create_config = cartpole_dqn_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline
    from ding_lite.utils import DDPContext, to_ddp_config

    with DDPContext():
        serial_pipeline((to_ddp_config(main_config), create_config), seed=0)
