"""PQN on Atari Pong, with the network and the games of the main job, `pong_dqn_ddp_config.py`.

Result: 19.9 over 100 new games after 819,000 env steps, one seed.
"""

from easydict import EasyDict

pong_pqn_config = EasyDict(
    exp_name="pong_pqn_seed0",
    env=dict(
        env_id="PongNoFrameskip-v4",
        episodic_reward=True,
        max_episode_steps=6000,
        collector_max_episode_steps=[500, 500, 500, 6000],
        stop_value=20.5,
    ),
    policy=dict(
        cuda=True,
        model=dict(
            encoder=dict(type="conv", layer_norm=True),
            encoder_hidden_size_list=[16, 32, 32, 256],
            dueling=False,
            head_layer_num=0,
        ),
        learn=dict(
            learning_rate=dict(
                type="piecewise",
                points=[[0, 5e-4], [600_000, 5e-4], [1_500_000, 5e-5]],
                by="env_step",
            ),
        ),
        collect=dict(n_sample=1024, q_lambda=0.8),
        eval=dict(
            average=1 / 1500,
            eps=0.001,
            evaluator=dict(eval_freq=3200),  # about 100,000 env steps
        ),
        other=dict(
            eps=dict(type="linear", end=0.02),
        ),
    ),
)
main_config = pong_pqn_config

pong_pqn_create_config = EasyDict(
    env=dict(
        type="atari",
        import_names=["dizoo.atari.envs.atari_env"],
    ),
    env_manager=dict(type="native"),
    policy=dict(type="pqn"),
)
create_config = pong_pqn_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
