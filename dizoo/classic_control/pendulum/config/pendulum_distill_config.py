"""Distillation on Pendulum-v1: the student, a GRU, does not see the velocity that its teacher saw.

Train the teacher with `ding_lite train -c dizoo/classic_control/pendulum/config/pendulum_sac_config.py
exp_name=pendulum_teacher env.wrappers="['dizoo.classic_control.pendulum.envs.pendulum_env:Parts']"`.
Result: -170 with three of three seeds, after 77,000 env steps; -177 to -172 over 100 new episodes, the teacher -164.
"""

from easydict import EasyDict

pendulum_distill_config = EasyDict(
    exp_name="pendulum_distill_seed0",
    env=dict(
        env_id="Pendulum-v1",
        wrappers=["dizoo.classic_control.pendulum.envs.pendulum_env:Parts"],
        collector_env_num=16,
        evaluator_env_num=20,
        n_evaluator_episode=100,
        stop_value=-170,
    ),
    policy=dict(
        num_threads=1,
        model=dict(
            teacher_obs=["velocity"],
            lstm_type="gru",
            encoder_hidden_size_list=[64, 64],
        ),
        learn=dict(
            teacher_path="pendulum_teacher",
            epoch_per_collect=16,
            batch_size=800,
            learning_rate=0.002,
        ),
        collect=dict(
            n_sample=3200,
        ),
        eval=dict(evaluator=dict(eval_freq=160)),
    ),
)
main_config = pendulum_distill_config

pendulum_distill_create_config = EasyDict(
    env=dict(
        type="pendulum",
        import_names=["dizoo.classic_control.pendulum.envs.pendulum_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="distill"),
)
create_config = pendulum_distill_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
