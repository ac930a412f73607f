"""C51 on LunarLander. Values of DI-engine, except for longer evaluations, not trained here."""

from easydict import EasyDict

lunarlander_c51_config = EasyDict(
    exp_name="lunarlander_c51_seed0",
    env=dict(
        env_id="LunarLander-v3",
        n_evaluator_episode=24,
        stop_value=200,
    ),
    policy=dict(
        num_threads=1,
        model=dict(
            encoder_hidden_size_list=[512, 64],
            v_min=-30.0,
            v_max=30.0,
        ),
        nstep=3,
        discount_factor=0.99,
        learn=dict(update_per_collect=10),
        collect=dict(n_sample=64),
        other=dict(
            eps=dict(decay=50000),
            replay_buffer=dict(replay_buffer_size=100000),
        ),
    ),
)
main_config = lunarlander_c51_config

lunarlander_c51_create_config = EasyDict(
    env=dict(
        type="lunarlander",
        import_names=["dizoo.box2d.lunarlander.envs.lunarlander_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="c51"),
)
create_config = lunarlander_c51_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
