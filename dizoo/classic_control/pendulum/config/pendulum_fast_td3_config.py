"""TD3 on Pendulum-v1 with the values of FastTD3 (Seo et al. 2025, arXiv:2505.22642): 1,024 environments, large batches.

The values are those that its authors publish for Go1JoystickFlatTerrain: N = 1,024, discount 0.97, target_theta (their
tau) 0.1, AdamW with a decay of 0.1, learning rates of 3e-4, target noise of 0.2 within 0.5, normalised observations,
uniform replay of single steps, and 8 updates of the critics and 4 of the actor for each step of all environments.

Smaller here, for one CPU thread: batches of 2,048 (theirs: 32,768), 200 steps of each environment in replay (10,240),
and networks of two layers of 128 units (actor 512, 256, 128; critics 1,024, 512, 256).

What FastTD3 does and this policy does not:
* Its critics are categorical, with 101 atoms, and learn from the target distribution with the smaller mean. `d4pg` has
  such a critic, but a single one.
* The scale of the noise differs between environments: it is drawn from 0.2..0.8 for each episode. Here it is 0.5.
* The target action is that of the current actor, and target critics follow after each update. Here both targets follow
  after each update of the actor, as in TD3.
* The actor maximises the smaller value of two critics. Here it maximises the first one's.
* The last layer of the actor begins with small weights, learning rates follow a cosine, and a GPU computes in bfloat16.

Result: -150 to -148 over 20 episodes with two of two seeds, after 317,000 to 358,000 env steps.
"""

from easydict import EasyDict

pendulum_fast_td3_config = EasyDict(
    exp_name="pendulum_fast_td3_seed0",
    env=dict(
        env_id="Pendulum-v1",
        collector_env_num=1024,
        evaluator_env_num=20,
        n_evaluator_episode=20,
        stop_value=-200,
        norm_obs=True,
    ),
    policy=dict(
        num_threads=1,
        discount_factor=0.97,
        random_collect_size=10240,
        model=dict(
            actor_head_hidden_size=128,
            critic_head_hidden_size=128,
        ),
        learn=dict(
            update_per_collect=8,
            batch_size=2048,
            learning_rate_actor=0.0003,
            learning_rate_critic=0.0003,
            optimizer="adamw",
            weight_decay=0.1,
            target_theta=0.1,
        ),
        collect=dict(
            n_sample=1024,
            noise_sigma=0.5,
        ),
        eval=dict(evaluator=dict(eval_freq=160)),
        other=dict(
            replay_buffer=dict(replay_buffer_size=204800),
        ),
    ),
)
main_config = pendulum_fast_td3_config

pendulum_fast_td3_create_config = EasyDict(
    env=dict(
        type="pendulum",
        import_names=["dizoo.classic_control.pendulum.envs.pendulum_env"],
    ),
    env_manager=dict(type="batched"),
    policy=dict(type="td3"),
)
create_config = pendulum_fast_td3_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
