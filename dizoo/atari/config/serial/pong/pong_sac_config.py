"""Discrete SAC on Atari Pong, solved at a mean return of 20; needs a GPU. No result is recorded."""

from easydict import EasyDict

pong_sac_config = EasyDict(
    exp_name="pong_sac_seed0",
    env=dict(
        env_id="PongNoFrameskip-v4",
        collector_env_num=16,
        evaluator_env_num=4,
        stop_value=20,
    ),
    policy=dict(
        cuda=True,
        random_collect_size=0,
        model=dict(
            encoder_hidden_size_list=[64, 64, 128, 256],
            actor_head_hidden_size=256,
            critic_head_hidden_size=256,
        ),
        learn=dict(
            update_per_collect=50,
            batch_size=320,
            learning_rate_q=5e-4,
            learning_rate_policy=5e-4,
        ),
        collect=dict(n_sample=3200),
        eval=dict(evaluator=dict(eval_freq=50)),
        other=dict(
            eps=dict(
                type="linear",
                start=1.0,
                end=0.05,
                decay=100000,
            ),
            replay_buffer=dict(replay_buffer_size=200000),
        ),
    ),
)
main_config = pong_sac_config

pong_sac_create_config = EasyDict(
    env=dict(
        type="atari",
        import_names=["dizoo.atari.envs.atari_env"],
    ),
    env_manager=dict(type="native"),
    policy=dict(type="discrete_sac"),
)
create_config = pong_sac_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
