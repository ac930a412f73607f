"""DQN's loss and step, with numbers by hand, and its exploration."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ding_lite.model import DQN, NoisyLinear
from ding_lite.policy import DQNPolicy
from ding_lite.utils.registry import MODEL_REGISTRY, POLICY_REGISTRY, ConfigError
from tests.policy.helpers import ACTIONS, OBS, last_gradient, make_batch, make_policy, target_of


class Table(nn.Module):
    """Q-values written down: `[S, A]`, for one-hot observations."""

    def __init__(self, values: list[list[float]]) -> None:
        super().__init__()
        self.q = nn.Parameter(torch.tensor(values))

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        return {"logit": obs @ self.q}


ONLINE = [[1.0, 2.0, 3.0], [4.0, 0.0, 2.0]]
TARGET = [[0.0, 5.0, 1.0], [1.0, 2.0, 8.0]]


def table_policy(*overrides: str) -> DQNPolicy:
    policy = make_policy(*overrides, model=Table(ONLINE))
    target_of(policy)["q"].copy_(torch.tensor(TARGET))
    return policy


def table_batch(**more: Tensor) -> dict[str, Tensor]:
    """One step from state 0 by action 1 to state 1, and one from state 1 by action 2 to a terminal state."""
    return {
        "obs": torch.eye(2),
        "next_obs": torch.eye(2).flip(0),
        "action": torch.tensor([1, 2]),
        "reward": torch.tensor([1.0, -1.0]),
        "done": torch.tensor([False, True]),
        "value_gamma": torch.tensor([0.9, 0.9]),
        **more,
    }


# Double: the online argmax in state 1 is action 0, worth 1 to the target: 1 + 0.9 * 1 = 1.9 against Q = 2.
# Not double: the target's own maximum is 8: 1 + 0.9 * 8 = 8.2 against 2. The terminal step: -1 against Q = 2.
TD = {True: (-0.1, -3.0), False: (6.2, -3.0)}


@pytest.mark.parametrize("double", [True, False])
def test_loss_by_hand(double: bool) -> None:
    policy = table_policy(f"double={double}")
    loss, output = policy.loss(table_batch())
    first, second = TD[double]
    assert loss.item() == pytest.approx((first**2 + second**2) / 2, rel=1e-5)
    assert output["priority"].tolist() == pytest.approx([abs(first), abs(second)], rel=1e-5)
    assert output["q_value"].mean().item() == pytest.approx(2.0)  # 12 / 6


def test_a_truncated_step_bootstraps_by_the_discount_of_the_steps_taken() -> None:
    batch = table_batch(value_gamma=torch.tensor([0.5, 0.9]))
    _, output = table_policy().loss(batch)
    assert output["priority"][0].item() == pytest.approx(2 - (1 + 0.5 * 1), rel=1e-5)


def test_the_gradient_is_that_of_the_chosen_actions_alone() -> None:
    policy = table_policy()
    output = policy.learn(table_batch())
    # d/dq of the mean of (q - target)^2: 2 * 0.1 / 2 in state 0, action 1, and 2 * 3 / 2 in state 1, action 2
    torch.testing.assert_close(policy.model.q.grad, torch.tensor([[0, 0.1, 0], [0, 0, 3.0]]))
    assert output["grad_norm"].item() == pytest.approx(math.hypot(0.1, 3.0), rel=1e-5)
    assert output["total_loss"].item() == pytest.approx((0.01 + 9) / 2, rel=1e-5)
    # Adam's first step is the learning rate against the gradient's sign
    expected = torch.tensor(ONLINE) - 0.001 * torch.tensor([[0.0, 1, 0], [0, 0, 1]])
    torch.testing.assert_close(policy.model.q.data, expected, atol=1e-6, rtol=0)
    assert not any(value.requires_grad for value in output.values())
    assert set(policy.monitor_vars()) - {"epsilon"} <= set(output)


# -- target network ---------------------------------------------------------------------------------------------------


def test_the_target_network_gets_no_gradient_and_no_new_tensors() -> None:
    policy = make_policy("learn.target_update_freq=1")
    addresses = [p.data_ptr() for p in policy._target_model.parameters()]
    policy.learn(make_batch(8))
    assert all(p.grad is None or not p.grad.any() for p in policy._target_model.parameters())
    assert not any(p.requires_grad for p in policy._target_model.parameters())
    assert addresses == [p.data_ptr() for p in policy._target_model.parameters()]


# -- exploration ------------------------------------------------------------------------------------------------------


def test_epsilon_is_drawn_for_each_environment() -> None:
    policy = make_policy()
    obs = torch.randn(OBS).repeat(6000, 1).numpy()
    torch.manual_seed(0)
    counts = Counter(policy.act(obs, eps=0.5)["action"].tolist())
    greedy = policy.act(obs[:1], explore=False)["action"].item()
    # greedy: 0.5 + 0.5 / 3 of 6,000 is 4,000 (standard deviation 37); each other action 1,000 (29)
    assert counts.pop(greedy) == pytest.approx(4000, abs=180)
    assert [count == pytest.approx(1000, abs=150) for count in counts.values()] == [True] * (ACTIONS - 1)


@pytest.mark.parametrize("kind", ["dqn", "c51", "bdq", "r2d2"])
def test_epsilon_may_be_spread_over_the_environments(kind: str) -> None:
    policy = make_policy("other.eps.spread=2", kind=kind)
    obs = torch.randn(OBS).repeat(3, 1).numpy()
    torch.manual_seed(0)
    policy.reset(explore=False)
    greedy = policy.act(obs, explore=False)["action"]
    random_N = torch.zeros(3)
    for _ in range(3000):
        policy.reset()
        random_N += policy.act(obs, eps=0.8)["action"] != greedy
    # 0.8, 0.8^2 and 0.8^3, of which one in ACTIONS is greedy; standard deviation at most 0.01
    expected = torch.tensor([0.8, 0.64, 0.512]) * (1 - 1 / ACTIONS)
    torch.testing.assert_close(random_N / 3000, expected, atol=0.04, rtol=0)


class Plain(nn.Module):
    """A model of the user's, without noisy layers."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(OBS, ACTIONS)

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        return {"logit": self.linear(obs)}


def test_noisy_net_is_refused_with_a_model_that_has_no_noisy_layers() -> None:
    with pytest.raises(ConfigError, match=r"policy\.noisy_net=True .* the model Plain has none"):
        make_policy("noisy_net=True", model=Plain())
    make_policy("noisy_net=True", model=DQN(OBS, ACTIONS, [16, 8], noise=True))


@MODEL_REGISTRY.register("q_without_noise")
class RegisteredPlain(Plain):
    """A registered model of the user's whose arguments do not include `noise`."""

    def __init__(self, obs_shape: int, action_shape: int, encoder_hidden_size_list: Sequence[int]) -> None:
        super().__init__()


@MODEL_REGISTRY.register("q_always_noisy")
class RegisteredNoisy(RegisteredPlain):
    """The same with a noisy layer."""

    def __init__(self, obs_shape: int, action_shape: int, encoder_hidden_size_list: Sequence[int]) -> None:
        super().__init__(obs_shape, action_shape, encoder_hidden_size_list)
        self.linear = NoisyLinear(obs_shape, action_shape)  # type: ignore[assignment]


def test_noisy_net_needs_a_registered_model_with_noisy_layers_but_no_argument_noise() -> None:
    with pytest.raises(ConfigError, match=r"the model RegisteredPlain has none: use them .*noisy_net=False\.$"):
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


def test_clipping_by_norm_keeps_the_direction() -> None:
    free, _ = gradient_of()
    clipped, output = gradient_of("learn.grad_clip_type=clip_norm", "learn.grad_clip_value=0.25")
    assert free.norm() > 1
    assert clipped.norm().item() == pytest.approx(0.25, rel=1e-4)
    torch.testing.assert_close(clipped / clipped.norm(), free / free.norm())
    assert output["grad_norm"].item() == pytest.approx(free.norm().item(), rel=1e-5)  # as it was before
    small, _ = gradient_of("learn.grad_clip_type=clip_norm", "learn.grad_clip_value=1e6")
    assert torch.equal(small, free)


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


class AbsoluteDQN(DQNPolicy):
    """Minimises the absolute error; nothing else is overridden."""

    def _loss(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        _, output = super()._loss(batch)
        q_B = self._model(batch["obs"])["logit"].gather(1, batch["action"][:, None]).squeeze(1)
        target_B = (q_B - output["priority"] * 0 - 1).detach()
        return (q_B - target_B).abs().mean(), output


def test_a_subclass_that_overrides_the_loss_alone_is_trained_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(POLICY_REGISTRY, "absolute_dqn", AbsoluteDQN)
    policy = make_policy(model=Table(ONLINE), kind="absolute_dqn")
    output = policy.learn(table_batch())
    torch.testing.assert_close(policy.model.q.grad, torch.tensor([[0, 0.5, 0], [0, 0, 0.5]]))  # sign / B
    assert output["total_loss"].item() == pytest.approx(1.0)
