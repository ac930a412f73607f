"""IPPO on VMAS's navigation, three agents that each go to a goal of their own without collisions; extra `vmas`.

Result: 0.97, 0.94 and 1.00 over 64 episodes after 403,200 env steps with seeds 0, 1 and 2; random play has -0.7.
"""

from easydict import EasyDict

navigation_ippo_config = EasyDict(
    exp_name="navigation_ippo_seed0",
    env=dict(
        env_id="navigation",
        kwargs=dict(n_agents=3, shared_rew=False),
        collector_env_num=128,
        evaluator_env_num=64,
        n_evaluator_episode=64,
    ),
    policy=dict(
        num_threads=1,
        discount_factor=0.9,
        model=dict(
            centralized_critic=False,
            encoder_hidden_size_list=[64, 64],
            actor_head_hidden_size=64,
            actor_head_layer_num=0,
            critic_head_hidden_size=64,
            critic_head_layer_num=0,
            activation="tanh",
        ),
        learn=dict(
            epoch_per_collect=5,
            batch_size=2400,
            learning_rate=1e-3,
        ),
        collect=dict(
            n_sample=6400,
            gae_lambda=0.9,
        ),
        eval=dict(evaluator=dict(eval_freq=320)),
    ),
)
main_config = navigation_ippo_config

navigation_ippo_create_config = EasyDict(
    env=dict(
        type="vmas",
        import_names=["dizoo.vmas.envs.vmas_env"],
    ),
    env_manager=dict(type="batched"),
    policy=dict(type="mappo"),
)
create_config = navigation_ippo_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
