"""PPO on Atari Pong, for one process, with the small network and the short training games of the main job.

It returns 20 after some 1.1 million env steps; docs/pong.md has its run.
Result: 20.5 over 100 new games after 1,126,000 env steps, one seed.
"""

import copy

from dizoo.atari.config.serial.pong.pong_ppo_config import pong_ppo_config, pong_ppo_create_config

main_config = pong_ppo_config = copy.deepcopy(pong_ppo_config)
main_config.env.episodic_reward = True  # each point is learned separately: what follows does not depend on it
main_config.env.max_episode_steps = 6000  # some rallies of a half-trained policy never end
main_config.env.collector_max_episode_steps = 500  # more beginnings: a trained policy loses most points there
main_config.policy.model.encoder = dict(type="conv", layer_norm=True)
main_config.policy.model.encoder_hidden_size_list = [16, 32, 32, 256]
main_config.policy.learn.learning_rate = dict(
    type="piecewise",
    points=[[0, 5e-4], [600_000, 5e-4], [1_500_000, 5e-5]],
    by="env_step",
)
create_config = pong_ppo_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
