"""DQN explores by epsilon and by noise, and clips its gradients. test_losses.py has its loss."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ding_lite.model import DQN
from ding_lite.model.noisy import NoisyLinear
from ding_lite.utils.registry import MODEL_REGISTRY, ConfigError
from tests.policy.helpers import ACTIONS, OBS, last_gradient, make_batch, make_policy

# -- exploration ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dqn", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("bdq", "r2d2"))])
def test_epsilon_may_be_spread_over_the_environments(kind: str) -> None:
    policy = make_policy("other.eps.spread=2", kind=kind)
    obs = torch.randn(OBS).repeat(3, 1).numpy()
    torch.manual_seed(0)
    policy.reset(explore=False)
    greedy = policy.act(obs, explore=False)["action"]
    random_N = torch.zeros(3)
    for _ in range(500):
        policy.reset()
        random_N += policy.act(obs, eps=0.8)["action"] != greedy
    # 0.8, 0.8^2 and 0.8^3, of which one in ACTIONS is greedy; standard deviation at most 0.023
    expected = torch.tensor([0.8, 0.64, 0.512]) * (1 - 1 / ACTIONS)
    torch.testing.assert_close(random_N / 500, expected, atol=0.07, rtol=0)


@MODEL_REGISTRY.register("q_without_noise")
class Plain(nn.Module):
    """A model of the user's without noisy layers, whose arguments do not include `noise`."""

    def __init__(
        self, obs_shape: int = OBS, action_shape: int = ACTIONS, encoder_hidden_size_list: Sequence[int] = ()
    ) -> None:
        super().__init__()
        self.linear: nn.Module = nn.Linear(obs_shape, action_shape)

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        return {"logit": self.linear(obs)}


@MODEL_REGISTRY.register("q_always_noisy")
class AlwaysNoisy(Plain):
    """The same with a noisy layer."""

    def __init__(self, obs_shape: int, action_shape: int, encoder_hidden_size_list: Sequence[int]) -> None:
        super().__init__()
        self.linear = NoisyLinear(obs_shape, action_shape)


def test_noisy_net_needs_a_model_with_noisy_layers_but_no_argument_noise() -> None:
    with pytest.raises(ConfigError, match=r"policy\.noisy_net=True .* the model Plain has none"):
        make_policy("noisy_net=True", model=Plain())
    make_policy("noisy_net=True", model=DQN(OBS, ACTIONS, [16, 8], noise=True))
    with pytest.raises(ConfigError, match=r"the model Plain has none: use them .*noisy_net=False\.$"):
        make_policy("noisy_net=True", "model.type=q_without_noise")
    policy = make_policy("noisy_net=True", "model.type=q_always_noisy")
    obs = torch.randn(4, OBS).numpy()
    logits = [policy.act(obs)["logit"] for _ in range(2)]
    assert not torch.equal(*logits)


# -- the step ---------------------------------------------------------------------------------------------------------


def gradient_of(*overrides: str) -> tuple[Tensor, dict[str, Tensor]]:
    torch.manual_seed(0)
    policy = make_policy(*overrides)
    output = policy.learn(make_batch(32))
    return last_gradient(policy), output


def test_clipping_by_value_bounds_each_entry() -> None:
    free, _ = gradient_of()
    clipped, _ = gradient_of("learn.grad_clip_type=clip_value", "learn.grad_clip_value=0.1")
    assert free.abs().max() > 0.1
    torch.testing.assert_close(clipped, free.clamp(-0.1, 0.1))


def test_evaluations_may_act_by_a_small_epsilon_that_changes_no_other_random_number() -> None:
    obs, state = torch.randn(1000, OBS, generator=torch.Generator().manual_seed(0)), torch.get_rng_state()
    greedy, half = make_policy(), make_policy("eval.eps=0.5")
    half.model.load_state_dict(greedy.model.state_dict())
    torch.set_rng_state(state)
    best_N = greedy.act(obs, explore=False)["action"]
    runs: list[Tensor] = []
    for _ in range(2):
        half.reset(explore=False)  # a new evaluation: the same numbers again
        runs.append(torch.stack([half.act(obs, explore=False)["action"] for _ in range(2)]))
        half.reset(np.array([0]), explore=False)  # an episode has ended
    assert torch.equal(*runs)
    assert not torch.equal(*runs[0])
    # half of the actions are random, and a third of those happen to be the best: 2/3 agree, +- 0.015
    assert float((runs[0][0] == best_N).float().mean()) == pytest.approx(2 / 3, abs=0.05)
    assert torch.equal(torch.get_rng_state(), state)
