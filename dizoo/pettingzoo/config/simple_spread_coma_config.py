"""COMA on mpe2/simple_spread_v3, three agents that cover three landmarks; the return is the sum over them.

Result: -64, -73 and -67 over 960 new games with three seeds, after 200,000 env steps; random play gives -81. The agents
of the second seed stand still.
"""

from easydict import EasyDict

simple_spread_coma_config = EasyDict(
    exp_name="simple_spread_coma_seed0",
    env=dict(
        env_id="mpe2/simple_spread_v3",
        n_evaluator_episode=64,
    ),
    policy=dict(
        num_threads=1,
        model=dict(
            encoder_hidden_size_list=[64, 64],
            critic_hidden_size_list=[64, 64],
            lstm_type=None,
        ),
        discount_factor=0.9,
        learn=dict(
            epoch_per_collect=4,
            batch_size=100,
            learning_rate=7e-4,
        ),
        collect=dict(n_sample=400),
        eval=dict(evaluator=dict(eval_freq=800)),
    ),
)
main_config = simple_spread_coma_config

simple_spread_coma_create_config = EasyDict(
    env=dict(
        type="pettingzoo",
        import_names=["dizoo.pettingzoo.envs.pettingzoo_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="coma"),
)
create_config = simple_spread_coma_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
