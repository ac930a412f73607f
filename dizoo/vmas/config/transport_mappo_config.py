"""MAPPO on VMAS's transport, four agents that push a heavy package to a goal; extra `vmas`.

Not solved: random agents hardly ever move the package, so there is nothing to learn from at first. Result: 0.02 over 64
episodes after 1,011,200 env steps with seed 0; random play has 0.00, VMAS's heuristic 5.0.
"""

from easydict import EasyDict

transport_mappo_config = EasyDict(
    exp_name="transport_mappo_seed0",
    env=dict(
        env_id="transport",
        kwargs=dict(n_agents=4),
        collector_env_num=128,
        evaluator_env_num=64,
        n_evaluator_episode=64,
    ),
    policy=dict(
        num_threads=1,
        model=dict(
            encoder_hidden_size_list=[64, 64],
            actor_head_hidden_size=64,
            actor_head_layer_num=0,
            critic_head_hidden_size=64,
            critic_head_layer_num=0,
            activation="tanh",
        ),
        learn=dict(
            epoch_per_collect=5,
            batch_size=6400,
            entropy_weight=0.01,
            learning_rate=1e-3,
        ),
        collect=dict(
            n_sample=12800,
            gae_lambda=0.9,
        ),
        eval=dict(evaluator=dict(eval_freq=320)),
    ),
)
main_config = transport_mappo_config

transport_mappo_create_config = EasyDict(
    env=dict(
        type="vmas",
        import_names=["dizoo.vmas.envs.vmas_env"],
    ),
    env_manager=dict(type="batched"),
    policy=dict(type="mappo"),
)
create_config = transport_mappo_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
