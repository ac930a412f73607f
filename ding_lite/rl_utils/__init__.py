"""Pure functions of tensors: losses, returns, distributions of actions, exploration.

Where a docstring does not explain a name, it means the following.

* Shapes: T steps, B samples, N environments, A discrete actions, K quantiles or atoms, D branches or dimensions of an
  action, M agents, `...` any leading dimensions. The suffix of a name gives its dimensions. Losses are scalars.
* `data`: a named tuple, whose fields the function explains.
* `gamma`: discount per env step. `nstep`: n, used if `value_gamma` is None. `value_gamma`: `[B]`, the discount of the
  bootstrap, gamma^m for m rewards in the sum; None: gamma^n.
* `cum_reward`: `reward` has the discounted sums of n steps, `[B]`; False: the rewards of all steps, `[T, B]`.
* `criterion`: a function with the signature of `torch.nn.functional.mse_loss`, or, as in DI-engine, a module such as
  `torch.nn.MSELoss(reduction="none")`.
* `weight`: importance weights w; None: all are 1. `logit` and `action` are described in `distribution.py`.
* All functions raise ValueError if the shapes of their arguments do not fit together.
"""

from typing import TYPE_CHECKING

from ding_lite.lazy import lazy_names

if TYPE_CHECKING:
    from ding_lite.di_engine.losses.distributional import categorical_projection as categorical_projection
    from ding_lite.di_engine.losses.distributional import dist_1step_td_data as dist_1step_td_data
    from ding_lite.di_engine.losses.distributional import dist_1step_td_error as dist_1step_td_error
    from ding_lite.di_engine.losses.distributional import dist_nstep_td_data as dist_nstep_td_data
    from ding_lite.di_engine.losses.distributional import dist_nstep_td_error as dist_nstep_td_error
    from ding_lite.di_engine.losses.distributional import fqf_nstep_td_data as fqf_nstep_td_data
    from ding_lite.di_engine.losses.distributional import fqf_nstep_td_error as fqf_nstep_td_error
    from ding_lite.di_engine.losses.distributional import iqn_nstep_td_data as iqn_nstep_td_data
    from ding_lite.di_engine.losses.distributional import iqn_nstep_td_error as iqn_nstep_td_error
    from ding_lite.di_engine.losses.distributional import qrdqn_nstep_td_data as qrdqn_nstep_td_data
    from ding_lite.di_engine.losses.distributional import qrdqn_nstep_td_error as qrdqn_nstep_td_error
    from ding_lite.di_engine.losses.policy_gradient import ArgmaxSampler as ArgmaxSampler
    from ding_lite.di_engine.losses.policy_gradient import HybridDeterminsticSampler as HybridDeterminsticSampler
    from ding_lite.di_engine.losses.policy_gradient import HybridStochasticSampler as HybridStochasticSampler
    from ding_lite.di_engine.losses.policy_gradient import MultinomialSampler as MultinomialSampler
    from ding_lite.di_engine.losses.policy_gradient import MuSampler as MuSampler
    from ding_lite.di_engine.losses.policy_gradient import ReparameterizationSampler as ReparameterizationSampler
    from ding_lite.di_engine.losses.policy_gradient import a2c_data as a2c_data
    from ding_lite.di_engine.losses.policy_gradient import a2c_error as a2c_error
    from ding_lite.di_engine.losses.policy_gradient import a2c_error_continuous as a2c_error_continuous
    from ding_lite.di_engine.losses.policy_gradient import a2c_loss as a2c_loss
    from ding_lite.di_engine.losses.policy_gradient import acer_policy_error as acer_policy_error
    from ding_lite.di_engine.losses.policy_gradient import acer_value_error as acer_value_error
    from ding_lite.di_engine.losses.policy_gradient import compute_importance_weights as compute_importance_weights
    from ding_lite.di_engine.losses.policy_gradient import get_epsilon_greedy_fn as get_epsilon_greedy_fn
    from ding_lite.di_engine.losses.policy_gradient import pg_data as pg_data
    from ding_lite.di_engine.losses.policy_gradient import pg_error as pg_error
    from ding_lite.di_engine.losses.policy_gradient import pg_error_continuous as pg_error_continuous
    from ding_lite.di_engine.losses.policy_gradient import pg_loss as pg_loss
    from ding_lite.di_engine.losses.policy_gradient import ppo_data as ppo_data
    from ding_lite.di_engine.losses.policy_gradient import ppo_data_continuous as ppo_data_continuous
    from ding_lite.di_engine.losses.policy_gradient import ppo_error as ppo_error
    from ding_lite.di_engine.losses.policy_gradient import ppo_error_continuous as ppo_error_continuous
    from ding_lite.di_engine.losses.policy_gradient import ppo_info as ppo_info
    from ding_lite.di_engine.losses.policy_gradient import ppo_loss as ppo_loss
    from ding_lite.di_engine.losses.policy_gradient import ppo_policy_data as ppo_policy_data
    from ding_lite.di_engine.losses.policy_gradient import ppo_policy_data_continuous as ppo_policy_data_continuous
    from ding_lite.di_engine.losses.policy_gradient import ppo_policy_error as ppo_policy_error
    from ding_lite.di_engine.losses.policy_gradient import ppo_policy_error_continuous as ppo_policy_error_continuous
    from ding_lite.di_engine.losses.policy_gradient import ppo_policy_loss as ppo_policy_loss
    from ding_lite.di_engine.losses.policy_gradient import ppo_value_data as ppo_value_data
    from ding_lite.di_engine.losses.policy_gradient import ppo_value_error as ppo_value_error
    from ding_lite.di_engine.losses.policy_gradient import vtrace_data as vtrace_data
    from ding_lite.di_engine.losses.policy_gradient import (
        vtrace_error_continuous_action as vtrace_error_continuous_action,
    )
    from ding_lite.di_engine.losses.policy_gradient import vtrace_error_discrete_action as vtrace_error_discrete_action
    from ding_lite.di_engine.losses.policy_gradient import vtrace_loss as vtrace_loss
    from ding_lite.di_engine.losses.td import bdq_nstep_td_error as bdq_nstep_td_error
    from ding_lite.di_engine.losses.td import inv_symlog as inv_symlog
    from ding_lite.di_engine.losses.td import m_q_1step_td_data as m_q_1step_td_data
    from ding_lite.di_engine.losses.td import m_q_1step_td_error as m_q_1step_td_error
    from ding_lite.di_engine.losses.td import nstep_return as nstep_return
    from ding_lite.di_engine.losses.td import nstep_return_data as nstep_return_data
    from ding_lite.di_engine.losses.td import q_1step_td_data as q_1step_td_data
    from ding_lite.di_engine.losses.td import q_1step_td_error as q_1step_td_error
    from ding_lite.di_engine.losses.td import q_nstep_sql_td_error as q_nstep_sql_td_error
    from ding_lite.di_engine.losses.td import q_nstep_td_data as q_nstep_td_data
    from ding_lite.di_engine.losses.td import q_nstep_td_error as q_nstep_td_error
    from ding_lite.di_engine.losses.td import q_nstep_td_error_with_rescale as q_nstep_td_error_with_rescale
    from ding_lite.di_engine.losses.td import q_v_1step_td_data as q_v_1step_td_data
    from ding_lite.di_engine.losses.td import q_v_1step_td_error as q_v_1step_td_error
    from ding_lite.di_engine.losses.td import symlog as symlog
    from ding_lite.di_engine.losses.td import td_lambda_data as td_lambda_data
    from ding_lite.di_engine.losses.td import td_lambda_error as td_lambda_error
    from ding_lite.di_engine.losses.td import upgo_loss as upgo_loss
    from ding_lite.di_engine.losses.td import upgo_returns as upgo_returns
    from ding_lite.di_engine.losses.td import v_1step_td_data as v_1step_td_data
    from ding_lite.di_engine.losses.td import v_1step_td_error as v_1step_td_error
    from ding_lite.di_engine.losses.td import v_nstep_td_data as v_nstep_td_data
    from ding_lite.di_engine.losses.td import v_nstep_td_error as v_nstep_td_error
    from ding_lite.rl_utils.categorical import project_distribution as project_distribution
    from ding_lite.rl_utils.common import bootstrapped as bootstrapped
    from ding_lite.rl_utils.common import discounts as discounts
    from ding_lite.rl_utils.common import nstep_sums as nstep_sums
    from ding_lite.rl_utils.common import pick as pick
    from ding_lite.rl_utils.common import sum_of_means as sum_of_means
    from ding_lite.rl_utils.common import value_inv_transform as value_inv_transform
    from ding_lite.rl_utils.common import value_transform as value_transform
    from ding_lite.rl_utils.common import weighted_mean as weighted_mean
    from ding_lite.rl_utils.contrastive import info_nce as info_nce
    from ding_lite.rl_utils.distribution import entropy as entropy
    from ding_lite.rl_utils.distribution import kl_divergence as kl_divergence
    from ding_lite.rl_utils.distribution import log_prob as log_prob
    from ding_lite.rl_utils.distribution import log_prob_entropy as log_prob_entropy
    from ding_lite.rl_utils.distribution import mode as mode
    from ding_lite.rl_utils.distribution import sample as sample
    from ding_lite.rl_utils.exploration import epsilon_at as epsilon_at
    from ding_lite.rl_utils.exploration import epsilon_greedy as epsilon_greedy
    from ding_lite.rl_utils.exploration import family_discounts as family_discounts
    from ding_lite.rl_utils.exploration import family_weights as family_weights
    from ding_lite.rl_utils.exploration import ornstein_uhlenbeck as ornstein_uhlenbeck
    from ding_lite.rl_utils.exploration import spread_epsilon as spread_epsilon
    from ding_lite.rl_utils.policy_gradient import calculate_kl_div as calculate_kl_div
    from ding_lite.rl_utils.policy_gradient import first_episodes as first_episodes
    from ding_lite.rl_utils.policy_gradient import gae as gae
    from ding_lite.rl_utils.policy_gradient import gae_data as gae_data
    from ding_lite.rl_utils.policy_gradient import generalized_lambda_returns as generalized_lambda_returns
    from ding_lite.rl_utils.policy_gradient import multistep_forward_view as multistep_forward_view
    from ding_lite.rl_utils.q_continuous import advantage_weight as advantage_weight
    from ding_lite.rl_utils.q_continuous import conservative_gap as conservative_gap
    from ding_lite.rl_utils.q_continuous import expectile_error as expectile_error
    from ding_lite.rl_utils.q_continuous import squashed_sample as squashed_sample
    from ding_lite.rl_utils.q_continuous import td3_bc_actor_error as td3_bc_actor_error
    from ding_lite.rl_utils.q_continuous import temperature_error as temperature_error
    from ding_lite.rl_utils.quantile import fqf_calculate_fraction_loss as fqf_calculate_fraction_loss
    from ding_lite.rl_utils.soft_q import epsilon_softmax as epsilon_softmax
    from ding_lite.rl_utils.soft_q import soft_policy_value as soft_policy_value
    from ding_lite.rl_utils.soft_q import soft_value as soft_value
    from ding_lite.rl_utils.vtrace import acer_trust_region_update as acer_trust_region_update
    from ding_lite.rl_utils.vtrace import compute_q_retraces as compute_q_retraces
    from ding_lite.rl_utils.vtrace import vtrace_advantage as vtrace_advantage
    from ding_lite.rl_utils.vtrace import vtrace_nstep_return as vtrace_nstep_return
else:
    __all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
