"""PPO on MiniGrid-Empty-8x8-v0, solved at a mean return of 0.95; the shortest path earns 0.96.

No result is recorded.
"""

from easydict import EasyDict

minigrid_onppo_config = EasyDict(
    exp_name="minigrid_onppo_seed0",
    env=dict(
        env_id="MiniGrid-Empty-8x8-v0",
        onehot_obs=True,
        stop_value=0.95,
    ),
    policy=dict(
        num_threads=1,
        model=dict(
            encoder_hidden_size_list=[128, 64],
            actor_head_layer_num=0,
            critic_head_layer_num=0,
        ),
        learn=dict(
            batch_size=256,
            entropy_weight=0.01,
        ),
        collect=dict(
            n_sample=2048,
        ),
        eval=dict(evaluator=dict(eval_freq=400)),
    ),
)
main_config = minigrid_onppo_config

minigrid_onppo_create_config = EasyDict(
    env=dict(
        type="minigrid",
        import_names=["dizoo.minigrid.envs.minigrid_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="ppo"),
)
create_config = minigrid_onppo_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
