"""The density pi(a | s) of a policy, for reward models that weigh steps by it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ding_lite.policy import Policy
from ding_lite.policy.continuous.sac import SACPolicy
from ding_lite.rl_utils.distribution import log_prob
from ding_lite.rl_utils.q_continuous import squashed_sample
from ding_lite.run.setup import RunSetup
from ding_lite.utils.registry import ConfigError

LARGEST_ACTION = 1.0 - 1e-6  # of a tanh: what an expert has played at a bound has no finite inverse
LEAST_LOG_DENSITY = -16.0  # about the 1e-7 that DI-engine adds to a density


def check_density(setup: RunSetup, policy: Policy) -> None:
    """Raise `ConfigError` if the run's policy has no density, or does not play by it."""
    cls, cfg, name = setup.policy_cls, setup.cfg.policy, f"reward_model.type '{setup.cfg.reward_model.type}'"
    plays_by_logit = cls.actor_mode is not None and "logit" in cls.stored_outputs
    if policy.remembers or not (issubclass(cls, SACPolicy) or plays_by_logit):
        raise ConfigError(
            f"{name} needs the probability of each action, which policy '{cfg.type}' does not have: choose one such as "
            "'ppo' or 'sac', without a memory."
        )
    if cfg.get("random_collect_size") or cfg.collect.get("actors"):
        key = "random_collect_size" if cfg.get("random_collect_size") else "collect.actors"
        raise ConfigError(f"{name} needs steps that the policy of now has played: set policy.{key}=0.")


@torch.no_grad()
def log_density(policy: Policy, obs: Any, action_M: Tensor) -> Tensor:
    """Return log pi(a | s) `[M]`, at least `LEAST_LOG_DENSITY`.

    `obs` are normalised as the policy's are, and `action_M`, `[M, ...]`, in its units. The actions of SAC are the tanh
    of a normal variable.
    """
    logit = policy._run(policy.model, obs, mode=policy.actor_mode)["logit"]
    if isinstance(policy, SACPolicy):
        u_MD = action_M.flatten(1).clamp(-LARGEST_ACTION, LARGEST_ACTION).atanh()
        logp_M = squashed_sample(logit, (u_MD - logit["mu"]) / logit["sigma"])[1]
    else:
        logp_M = log_prob(logit, action_M)
    return logp_M.clamp(min=LEAST_LOG_DENSITY)
