"""R2D2 with a residual link on Atari SpaceInvaders.

Values of DI-engine, except for a smaller buffer, not trained here.
"""

import copy

from dizoo.atari.config.serial.atari_r2d2_config import atari_r2d2_config, atari_r2d2_create_config

spaceinvaders_r2d2_residual_config = copy.deepcopy(atari_r2d2_config)
spaceinvaders_r2d2_residual_config.exp_name = "spaceinvaders_r2d2_residual_seed0"
spaceinvaders_r2d2_residual_config.env.env_id = "SpaceInvadersNoFrameskip-v4"
spaceinvaders_r2d2_residual_config.env.evaluator_env_num = 5
spaceinvaders_r2d2_residual_config.env.n_evaluator_episode = 5
spaceinvaders_r2d2_residual_config.policy.priority = False
spaceinvaders_r2d2_residual_config.policy.priority_IS_weight = False
spaceinvaders_r2d2_residual_config.policy.model.res_link = True
spaceinvaders_r2d2_residual_config.policy.burnin_step = 2  # env steps
spaceinvaders_r2d2_residual_config.policy.unroll_len = 40  # env steps
main_config = spaceinvaders_r2d2_residual_config

spaceinvaders_r2d2_residual_create_config = copy.deepcopy(atari_r2d2_create_config)
create_config = spaceinvaders_r2d2_residual_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0, max_env_step=int(1e7))
