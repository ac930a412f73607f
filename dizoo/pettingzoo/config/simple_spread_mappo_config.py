"""MAPPO on mpe2/simple_spread_v3, three agents that cover three landmarks; the return is the sum over them.

It also plays simple_speaker_listener_v4, where one agent sees the target and tells the other:
`env.env_id=mpe2/simple_speaker_listener_v4 env.n_evaluator_episode=96`. These two observe and can do different things:
the shorter observation is padded, actions that one lacks are masked.

Result: -51 after 192,000 env steps with one seed; random play gives -81. On simple_speaker_listener_v4 -23.7, -13.7 and
-13.6 with three seeds after 400,000 env steps, over 100 new episodes; random play has -82.
"""

from easydict import EasyDict

simple_spread_mappo_config = EasyDict(
    exp_name="simple_spread_mappo_seed0",
    env=dict(
        env_id="mpe2/simple_spread_v3",
        n_evaluator_episode=64,
    ),
    policy=dict(
        num_threads=1,
        model=dict(
            encoder_hidden_size_list=[64, 64],
            actor_head_hidden_size=64,
            actor_head_layer_num=1,
            critic_head_hidden_size=64,
        ),
        discount_factor=0.9,
        learn=dict(
            batch_size=3200,
            learning_rate=7e-4,
            entropy_weight=0.01,
        ),
        collect=dict(n_sample=3200),
        eval=dict(evaluator=dict(eval_freq=300)),
    ),
)
main_config = simple_spread_mappo_config

simple_spread_mappo_create_config = EasyDict(
    env=dict(
        type="pettingzoo",
        import_names=["dizoo.pettingzoo.envs.pettingzoo_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="mappo"),
)
create_config = simple_spread_mappo_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
