"""Pure functions of tensors: losses, returns, distributions of actions, exploration."""

from ding_lite.rl_utils.a2c import a2c_data, a2c_error, a2c_loss
from ding_lite.rl_utils.acer import acer_policy_error, acer_trust_region_update, acer_value_error
from ding_lite.rl_utils.compat import (
    ArgmaxSampler,
    HybridDeterminsticSampler,
    HybridStochasticSampler,
    MultinomialSampler,
    MuSampler,
    ReparameterizationSampler,
    a2c_error_continuous,
    compute_importance_weights,
    pg_error_continuous,
    ppo_data_continuous,
    ppo_error_continuous,
    ppo_policy_data_continuous,
    ppo_policy_error_continuous,
    vtrace_error_continuous_action,
    vtrace_error_discrete_action,
)
from ding_lite.rl_utils.distribution import entropy, kl_divergence, log_prob, log_prob_entropy, mode, sample
from ding_lite.rl_utils.episodes import first_episodes
from ding_lite.rl_utils.exploration import epsilon_greedy, get_epsilon_greedy_fn
from ding_lite.rl_utils.gae import gae, gae_data
from ding_lite.rl_utils.pg import pg_data, pg_error, pg_loss
from ding_lite.rl_utils.ppo import (
    ppo_data,
    ppo_error,
    ppo_info,
    ppo_loss,
    ppo_policy_data,
    ppo_policy_error,
    ppo_policy_loss,
    ppo_value_data,
    ppo_value_error,
)
from ding_lite.rl_utils.q_continuous import (
    advantage_weight,
    conservative_gap,
    expectile_error,
    q_td_error,
    td3_bc_actor_error,
    temperature_error,
)
from ding_lite.rl_utils.quantile import qrdqn_nstep_td_data, qrdqn_nstep_td_error
from ding_lite.rl_utils.retrace import compute_q_retraces
from ding_lite.rl_utils.soft_value import soft_value
from ding_lite.rl_utils.squashed import squashed_sample
from ding_lite.rl_utils.td import discounts, nstep_return, nstep_sums, q_nstep_td_data, q_nstep_td_error
from ding_lite.rl_utils.vtrace import vtrace_advantage, vtrace_data, vtrace_loss, vtrace_nstep_return

__all__ = [
    "ArgmaxSampler",
    "HybridDeterminsticSampler",
    "HybridStochasticSampler",
    "MuSampler",
    "MultinomialSampler",
    "ReparameterizationSampler",
    "a2c_data",
    "a2c_error",
    "a2c_error_continuous",
    "a2c_loss",
    "acer_policy_error",
    "acer_trust_region_update",
    "acer_value_error",
    "advantage_weight",
    "compute_importance_weights",
    "compute_q_retraces",
    "conservative_gap",
    "discounts",
    "entropy",
    "epsilon_greedy",
    "expectile_error",
    "first_episodes",
    "gae",
    "gae_data",
    "get_epsilon_greedy_fn",
    "kl_divergence",
    "log_prob",
    "log_prob_entropy",
    "mode",
    "nstep_return",
    "nstep_sums",
    "pg_data",
    "pg_error",
    "pg_error_continuous",
    "pg_loss",
    "ppo_data",
    "ppo_data_continuous",
    "ppo_error",
    "ppo_error_continuous",
    "ppo_info",
    "ppo_loss",
    "ppo_policy_data",
    "ppo_policy_data_continuous",
    "ppo_policy_error",
    "ppo_policy_error_continuous",
    "ppo_policy_loss",
    "ppo_value_data",
    "ppo_value_error",
    "q_nstep_td_data",
    "q_nstep_td_error",
    "q_td_error",
    "qrdqn_nstep_td_data",
    "qrdqn_nstep_td_error",
    "sample",
    "soft_value",
    "squashed_sample",
    "td3_bc_actor_error",
    "temperature_error",
    "vtrace_advantage",
    "vtrace_data",
    "vtrace_error_continuous_action",
    "vtrace_error_discrete_action",
    "vtrace_loss",
    "vtrace_nstep_return",
]
