"""Policies that learn continuous actions, a model to work by hand, and batches, for their tests."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ding_lite.policy import Policy
from tests.policy import helpers
from tests.policy.helpers import Formula, build_policy

OBS, D = 3, 2


def make_qac(kind: str, *overrides: str, model: nn.Module | None = None) -> Any:
    """Build a small policy; overrides without their `policy.`."""
    network = dict(obs_shape=OBS, action_shape=D, actor_head_hidden_size=16, critic_head_hidden_size=16)
    return build_policy(kind, network, *overrides, model=model)


def make_batch(size: int, seed: int = 0, obs: int = OBS, dim: int = D) -> dict[str, Tensor]:
    """Return what a replay buffer would, with continuous actions."""
    action = torch.rand(size, dim, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    return helpers.make_batch(size, seed, obs=obs) | {"action": action}


def line_actor(normal: bool) -> Formula:
    """Return mu(s) = s / 2, alone or with a sigma of 2."""
    return Formula(
        lambda net, obs: dict(mu=net.slope * obs, sigma=0 * obs + 2) if normal else net.slope * obs, slope=0.5
    )


def line_critic() -> Formula:
    """Return Q_c(s, a) = c a + s for c of 1 and 2; without an action it is the value 0.4 s."""

    def value(net: Any, obs: Tensor, action: Tensor | None = None, num: int | None = None) -> Tensor:
        if action is None:
            return 0.4 * net.slope[:1, None] * obs[..., 0]
        return torch.stack([slope * action[..., 0] + obs[..., 0] for slope in net.slope[:num]])

    return Formula(value, slope=[1.0, 2.0])


class Line(nn.Module):
    """Networks of one state's and one action's dimension, linear in both."""

    def __init__(self, normal: bool) -> None:
        super().__init__()
        self.actor, self.critic, self.value = line_actor(normal), line_critic(), line_critic()


def line_batch(done: bool = False) -> dict[str, Any]:
    """Return one sample: a = 0.1 in s = 0.5, which leads to s' = 0.4 with a reward of 1 and a discount of 1/2."""
    names = {"obs": [[0.5]], "next_obs": [[0.4]], "action": [[0.1]], "reward": [1.0], "value_gamma": [0.5]}
    return {name: torch.tensor(value) for name, value in names.items()} | {"done": torch.tensor([done])}


def with_noise(policy: Policy, batch: dict[str, Any]) -> dict[str, Any]:
    """Return a batch as the losses get it: prepared, with all that is random in them."""
    return policy._prepare(batch | {"noise": policy._draw_noise(batch)})


def losses(policy: Policy, batch: dict[str, Any]) -> dict[str, tuple[Tensor, dict[str, Tensor]]]:
    """Return each network's loss and figures, without a step; what one needs of another is in the batch."""
    return {name: getattr(policy, f"_{name}_loss")(batch) for name in policy._optimizers}
