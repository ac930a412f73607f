"""QMIX on mpe2/simple_spread_v3, three agents that cover three landmarks; the return is the sum over them.

Result: -60 after 48,000 env steps with one seed, at best -57; random play gives -81.
"""

from easydict import EasyDict

simple_spread_qmix_config = EasyDict(
    exp_name="simple_spread_qmix_seed0",
    env=dict(
        env_id="mpe2/simple_spread_v3",
        n_evaluator_episode=64,
    ),
    policy=dict(
        cuda=False,
        num_threads=1,
        model=dict(
            encoder_hidden_size_list=[64, 64],
            lstm_type=None,
        ),
        discount_factor=0.9,
        unroll_len=1,
        learn=dict(
            update_per_collect=2,
            batch_size=256,
            double_q=True,
        ),
        collect=dict(n_sample=32),
        eval=dict(evaluator=dict(eval_freq=2000)),
        other=dict(
            eps=dict(decay=20000),
            replay_buffer=dict(replay_buffer_size=100_000),
        ),
    ),
)
main_config = simple_spread_qmix_config

simple_spread_qmix_create_config = EasyDict(
    env=dict(
        type="pettingzoo",
        import_names=["dizoo.pettingzoo.envs.pettingzoo_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="qmix"),
)
create_config = simple_spread_qmix_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
