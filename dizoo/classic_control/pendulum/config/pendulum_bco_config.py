"""Cloning of an expert on Pendulum-v1 of which only the observations are known; it takes a minute on one core.

The expert is the run of `pendulum_sac_config.py`: ten episodes that a run with GAIL's config has recorded.
Result: -170 with three of three seeds, after 4,608 to 13,056 env steps; -237 to -229 over 100
new episodes, where the expert returns -228.
"""

from easydict import EasyDict

pendulum_bco_config = EasyDict(
    exp_name="pendulum_bco_seed0",
    env=dict(
        env_id="Pendulum-v1",
        evaluator_env_num=10,
        n_evaluator_episode=20,
        stop_value=-170,
    ),
    policy=dict(
        num_threads=1,
        model=dict(
            encoder_hidden_size_list=[128, 128, 64],
            idm_hidden_size_list=[128, 128],
        ),
        learn=dict(
            update_per_collect=64,
            batch_size=128,
        ),
        collect=dict(n_sample=64),
        eval=dict(evaluator=dict(eval_freq=256)),
        other=dict(
            replay_buffer=dict(
                type="observations",
                data_path="./pendulum_sac_seed0/ckpt_best_10_episodes.npz",
            ),
        ),
    ),
)
main_config = pendulum_bco_config

pendulum_bco_create_config = EasyDict(
    env=dict(
        type="pendulum",
        import_names=["dizoo.classic_control.pendulum.envs.pendulum_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="bco"),
)
create_config = pendulum_bco_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
