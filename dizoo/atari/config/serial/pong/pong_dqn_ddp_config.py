"""DQN on Atari Pong on several processes.

Batch size and n_sample are per process.

Start it with `python -m torch.distributed.launch --nproc_per_node=2 --master_port=29501 THIS_FILE`.
Values of DI-engine, not trained here.
"""

import copy

from dizoo.atari.config.serial.pong.pong_dqn_config import pong_dqn_config, pong_dqn_create_config

main_config = pong_dqn_ddp_config = copy.deepcopy(pong_dqn_config)
main_config.exp_name = "data_pong/pong_dqn_ddp_seed0"
main_config.env.collector_env_num = 4
main_config.env.evaluator_env_num = 4
main_config.policy.multi_gpu = True
create_config = pong_dqn_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline
    from ding_lite.utils import DDPContext

    with DDPContext():
        serial_pipeline((main_config, create_config), seed=0, max_env_step=int(3e6))
