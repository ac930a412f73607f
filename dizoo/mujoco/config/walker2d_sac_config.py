"""SAC on Walker2d-v5, up to a mean return of 6000. Values of DI-engine, not trained here."""

import copy

from dizoo.mujoco.config.hopper_sac_config import hopper_sac_config, hopper_sac_create_config

main_config = walker2d_sac_config = copy.deepcopy(hopper_sac_config)
main_config.exp_name = "walker2d_sac_seed0"
main_config.env.env_id = "Walker2d-v5"
create_config = walker2d_sac_create_config = copy.deepcopy(hopper_sac_create_config)

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
