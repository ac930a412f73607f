"""PPO on MuJoCo Playground's CartpoleBalance, 256 environments that step as one tensor; extra `playground`.

All episodes start with the pole upright, and last 1,000 steps. `random_elapsed_steps` and 240 steps of each environment
let a collect see different phases of them: without the first, one of three seeds ended at 156, and with 30 steps, PPO
kept below 760.
Result: 987 to 999 over 20 episodes with three of three seeds, after 614,000 to 2,150,000 env steps.
"""

from easydict import EasyDict

cartpole_balance_ppo_config = EasyDict(
    exp_name="cartpole_balance_ppo_seed0",
    env=dict(
        env_id="CartpoleBalance",
        collector_env_num=256,
        evaluator_env_num=20,
        n_evaluator_episode=20,
        stop_value=980,
        norm_obs=True,
    ),
    policy=dict(
        num_threads=1,
        model=dict(share_encoder=False),
        learn=dict(
            batch_size=2048,
            learning_rate=0.001,
            epoch_per_collect=4,
            entropy_weight=0.005,
        ),
        collect=dict(
            n_sample=61440,
        ),
        eval=dict(evaluator=dict(eval_freq=600)),
    ),
)
main_config = cartpole_balance_ppo_config

cartpole_balance_ppo_create_config = EasyDict(
    env=dict(
        type="playground",
        import_names=["dizoo.playground.envs.playground_env"],
    ),
    env_manager=dict(type="batched", random_elapsed_steps=True),
    policy=dict(type="ppo"),
)
create_config = cartpole_balance_ppo_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
