"""PPO on Atari Pong on several processes, which share the batch and the samples of a collect.

Start it with `python -m torch.distributed.launch --nproc_per_node=2 THIS_FILE`.
No result is recorded.
"""

import copy

from dizoo.atari.config.serial.pong.pong_ppo_config import pong_ppo_config, pong_ppo_create_config

main_config = pong_ppo_ddp_config = copy.deepcopy(pong_ppo_config)
main_config.exp_name = "pong_ppo_ddp_seed0"
main_config.policy.multi_gpu = True
create_config = pong_ppo_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy
    from ding_lite.utils import DDPContext, to_ddp_config

    with DDPContext():
        serial_pipeline_onpolicy((to_ddp_config(main_config), create_config), seed=0)
