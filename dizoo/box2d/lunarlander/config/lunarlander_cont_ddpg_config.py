"""DDPG on LunarLanderContinuous-v3, solved at a mean return of 200.

Values of DI-engine, except for the number of episodes of an evaluation, not trained here.
"""

from easydict import EasyDict

lunarlander_cont_ddpg_config = EasyDict(
    exp_name="lunarlander_cont_ddpg_seed0",
    env=dict(
        env_id="LunarLanderContinuous-v3",
        evaluator_env_num=5,
        n_evaluator_episode=20,
        stop_value=200,
    ),
    policy=dict(
        num_threads=1,
        random_collect_size=0,
        model=dict(
            twin_critic=True,
            actor_head_hidden_size=256,
            critic_head_hidden_size=256,
        ),
        learn=dict(
            update_per_collect=2,
            batch_size=128,
        ),
        collect=dict(
            n_sample=48,
        ),
        eval=dict(
            evaluator=dict(
                eval_freq=100,
            ),
        ),
        other=dict(
            replay_buffer=dict(
                replay_buffer_size=20000,
            ),
        ),
    ),
)
main_config = lunarlander_cont_ddpg_config

lunarlander_cont_ddpg_create_config = EasyDict(
    env=dict(
        type="lunarlander",
        import_names=["dizoo.box2d.lunarlander.envs.lunarlander_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="ddpg"),
)
create_config = lunarlander_cont_ddpg_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
