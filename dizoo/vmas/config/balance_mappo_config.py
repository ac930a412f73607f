"""MAPPO on VMAS's balance, four agents that carry a ball on a line to a goal; extra `vmas`.

Result: 56.5, 60.1 and 63.2 over 64 episodes after 403,200 env steps with seeds 0, 1 and 2; random play has -5.7.
"""

from easydict import EasyDict

balance_mappo_config = EasyDict(
    exp_name="balance_mappo_seed0",
    env=dict(
        env_id="balance",
        kwargs=dict(n_agents=4),
        collector_env_num=128,
        evaluator_env_num=64,
        n_evaluator_episode=64,
    ),
    policy=dict(
        num_threads=1,
        discount_factor=0.95,
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
            batch_size=3200,
            learning_rate=1e-3,
        ),
        collect=dict(
            n_sample=6400,
            gae_lambda=0.9,
        ),
        eval=dict(evaluator=dict(eval_freq=320)),
    ),
)
main_config = balance_mappo_config

balance_mappo_create_config = EasyDict(
    env=dict(
        type="vmas",
        import_names=["dizoo.vmas.envs.vmas_env"],
    ),
    env_manager=dict(type="batched"),
    policy=dict(type="mappo"),
)
create_config = balance_mappo_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
