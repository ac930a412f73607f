"""Pure tensor functions: losses, returns, exploration."""

from ding_lite.rl_utils.exploration import epsilon_greedy, get_epsilon_greedy_fn
from ding_lite.rl_utils.td import nstep_return, q_nstep_td_data, q_nstep_td_error

__all__ = ["epsilon_greedy", "get_epsilon_greedy_fn", "nstep_return", "q_nstep_td_data", "q_nstep_td_error"]
