"""SAC on LunarLanderContinuous-v3, solved at a mean return of 200; training stops at 240.

The values are those of DI-engine, except for when it is evaluated and stops: a policy that returns 200 over 24 episodes
may still crash so often that its mean over a hundred is below.
Result: 219 and 229 over 100 new episodes with two seeds, after 52,000 and 141,000 env steps.
"""

from easydict import EasyDict

lunarlander_cont_sac_config = EasyDict(
    exp_name="lunarlander_cont_sac_seed0",
    env=dict(
        env_id="LunarLanderContinuous-v3",
        collector_env_num=4,
        n_evaluator_episode=24,
        stop_value=240,
    ),
    policy=dict(
        num_threads=1,
        model=dict(
            actor_head_hidden_size=256,
            critic_head_hidden_size=256,
        ),
        learn=dict(
            update_per_collect=256,
            batch_size=128,
            learning_rate_q=0.001,
        ),
        collect=dict(
            n_sample=256,
        ),
        eval=dict(
            evaluator=dict(
                eval_freq=4000,
            ),
        ),
        other=dict(
            replay_buffer=dict(
                replay_buffer_size=100000,
            ),
        ),
    ),
)
main_config = lunarlander_cont_sac_config

lunarlander_cont_sac_create_config = EasyDict(
    env=dict(
        type="lunarlander",
        import_names=["dizoo.box2d.lunarlander.envs.lunarlander_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="sac"),
)
create_config = lunarlander_cont_sac_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
