"""D4PG on HalfCheetah-v5, up to a mean return of 20000. Values of DI-engine, not trained here."""

import copy

from dizoo.mujoco.config.hopper_d4pg_config import hopper_d4pg_config, hopper_d4pg_create_config

main_config = halfcheetah_d4pg_config = copy.deepcopy(hopper_d4pg_config)
main_config.exp_name = "halfcheetah_d4pg_seed0"
main_config.env.env_id = "HalfCheetah-v5"
main_config.env.stop_value = 20000
main_config.policy.model.v_max = 5000
main_config.policy.learn.update_per_collect = 4  # learner iterations
main_config.policy.learn.ignore_done = True
create_config = halfcheetah_d4pg_create_config = copy.deepcopy(hopper_d4pg_create_config)

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
