"""D4PG on Walker2d-v5, up to a mean return of 7000. Values of DI-engine, not trained here."""

import copy

from dizoo.mujoco.config.hopper_d4pg_config import hopper_d4pg_config, hopper_d4pg_create_config

main_config = walker2d_d4pg_config = copy.deepcopy(hopper_d4pg_config)
main_config.exp_name = "walker2d_d4pg_seed0"
main_config.env.env_id = "Walker2d-v5"
main_config.env.stop_value = 7000
main_config.policy.model.v_max = 2000
main_config.policy.learn.update_per_collect = 3  # learner iterations
create_config = walker2d_d4pg_create_config = copy.deepcopy(hopper_d4pg_create_config)

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
