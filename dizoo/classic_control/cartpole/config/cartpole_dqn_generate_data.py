"""Record data on CartPole-v0 with the best policy that `cartpole_dqn_config.py` trained in this directory.

`cartpole_bc_config.py` and `cartpole_discrete_cql_config.py` learn from the recorded data set.
"""

from dizoo.classic_control.cartpole.config.cartpole_dqn_config import create_config, main_config

if __name__ == "__main__":
    from ding_lite.entry import collect_demo_data

    path = f"./{main_config.exp_name}/expert_demos.hdf5"
    collect_demo_data((main_config, create_config), seed=1, collect_count=10000, expert_data_path=path)
