"""P-DQN's losses by hand, its cycle of updates, exploration, priorities and state."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ding_lite.config import compile_config
from ding_lite.policy import PDQNPolicy
from tests.policy.helpers import parameter_hash

OBS, K, D = 4, 3, 2


class LineArguments(nn.Module):
    """x(s) = s / 2."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(0.5))

    def forward(self, obs: Tensor) -> Tensor:
        return self.slope * obs


class LineValues(nn.Module):
    """Q(s, k, x) = (k + 1) x + s for two types."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.tensor([1.0, 2.0]))

    def forward(self, obs: Tensor, action_args: Tensor) -> Tensor:
        return self.slope * action_args + obs


class Line(nn.Module):
    """One dimension of state and argument."""

    def __init__(self) -> None:
        super().__init__()
        self.cont, self.dis = LineArguments(), LineValues()

    def forward(self, inputs: Any, mode: str) -> dict[str, Tensor]:
        if mode == "compute_continuous":
            return {"action_args": self.cont(inputs)}
        return {"logit": self.dis(inputs["state"], inputs["action_args"])}


def make_pdqn(*overrides: str, model: nn.Module | None = None) -> Any:
    shape = {"action_type_shape": K, "action_args_shape": D}
    network = {} if model else dict(obs_shape=OBS, action_shape=shape, encoder_hidden_size_list=[16, 8])
    keys = [f"policy.{item}" for item in overrides]
    pair = (dict(policy=dict(model=network)), dict(env=dict(env_id="any"), policy=dict(type="pdqn")))
    return PDQNPolicy(compile_config(pair, None, model is not None, keys).policy, model)


def hand_batch(**more: Tensor) -> dict[str, Any]:
    """Type 1 with x = 0.1 in s = 0.5 leads to s' = 0.4; type 0 with x = 5, recorded beyond the bounds, ends in -0.8."""
    return {
        "obs": torch.tensor([[0.5], [0.2]]),
        "next_obs": torch.tensor([[0.4], [-0.8]]),
        "action": {"action_type": torch.tensor([1, 0]), "action_args": torch.tensor([[0.1], [5.0]])},
        "reward": torch.tensor([1.0, -1.0]),
        "done": torch.tensor([False, True]),
        "value_gamma": torch.tensor([0.5, 0.5]),
        **more,
    }


def hand(*overrides: str) -> Any:
    policy = make_pdqn(*overrides, model=Line())
    policy._target_dis.slope.copy_(torch.tensor([10.0, 3.0]))
    return policy


# Q(s, a) is 2 * 0.1 + 0.5 = 0.7, and 1 + 0.2 = 1.2 for x clipped to 1. x(s') = 0.2: type 1 is the better one of the
# online network, and the target's value of it is 3 * 0.2 + 0.4 = 1: y = 1 + 0.5 and -1.
ERRORS = (1.5 - 0.7, -1.0 - 1.2)


def test_the_values_loss_by_hand() -> None:
    policy = hand()
    loss, figures = policy._dis_loss(policy._prepare(hand_batch()))
    assert loss.item() == pytest.approx((ERRORS[0] ** 2 + ERRORS[1] ** 2) / 2, rel=1e-5)
    assert figures["priority"].tolist() == pytest.approx([abs(error) for error in ERRORS], rel=1e-5)
    loss.backward()
    assert policy.model.cont.slope.grad is None or not policy.model.cont.slope.grad.any()
    # d/dslope_k of (Q - y)^2 / 2: -(y - Q) x
    torch.testing.assert_close(policy.model.dis.slope.grad, torch.tensor([-ERRORS[1] * 1.0, -ERRORS[0] * 0.1]))


def test_an_ignored_end_bootstraps() -> None:
    policy = hand("learn.ignore_done=True")
    _, figures = policy._dis_loss(policy._prepare(hand_batch()))
    # x(s') = -0.4: type 0 is the better one, its target value is 10 * -0.4 - 0.8
    assert figures["td_error"][1].item() == pytest.approx(abs(-1 + 0.5 * (-4.8) - 1.2), rel=1e-5)


def test_the_arguments_loss_by_hand() -> None:
    policy = hand()
    loss, _ = policy._cont_loss(hand_batch())
    # sum over types: 3 x + 2 s with x = s / 2, so 3.5 s
    assert loss.item() == pytest.approx(-3.5 * (0.5 + 0.2) / 2, rel=1e-5)
    loss.backward()
    assert policy.model.cont.slope.grad.item() == pytest.approx(-3 * 0.35, rel=1e-5)
    assert policy.model.dis.slope.grad is None or not policy.model.dis.slope.grad.any()
    assert policy.model.dis.slope.requires_grad


def make_batch(size: int, seed: int) -> dict[str, Any]:
    gen = torch.Generator().manual_seed(seed)
    args = torch.rand(size, D, generator=gen) * 2 - 1
    return {
        "obs": torch.randn(size, OBS, generator=gen),
        "next_obs": torch.randn(size, OBS, generator=gen),
        "action": {"action_type": torch.randint(K, (size,), generator=gen), "action_args": args},
        "reward": torch.randn(size, generator=gen),
        "done": torch.rand(size, generator=gen) < 0.3,
        "value_gamma": torch.full((size,), 0.97),
    }


@pytest.mark.parametrize(("circle", "order"), [(2, "dcdc"), (4, "ddccdd"), (5, "dddccddd")])
def test_a_cycle_trains_the_values_and_then_the_arguments(circle: int, order: str) -> None:
    policy = make_pdqn(f"learn.update_circle={circle}", "learn.target_theta=0.5")
    for iteration, expected in enumerate(order):
        before = {name: parameter_hash(getattr(policy.model, name)) for name in ("dis", "cont")}
        target = parameter_hash(policy._target_dis)
        output = policy.learn(make_batch(8, iteration))
        changed = "".join(name[0] for name, old in before.items() if parameter_hash(getattr(policy.model, name)) != old)
        assert changed == expected
        assert ("priority" in output) == ("dis_loss" in output) == (expected == "d")
        assert (parameter_hash(policy._target_dis) != target) == (expected == "d")


def test_it_explores_types_and_arguments_and_evaluates_the_best_ones() -> None:
    policy = make_pdqn("collect.noise_sigma=0.1")
    obs = torch.randn(OBS).repeat(6000, 1).numpy()
    best = policy.act(obs, explore=False)["action"]
    kind, args = best["action_type"][0].item(), best["action_args"][0]
    assert kind == policy.act(obs, explore=False)["logit"][0].argmax().item()
    torch.manual_seed(0)
    noisy = policy.act(obs, eps=0.0)["action"]
    assert (noisy["action_type"] == kind).all()
    assert (noisy["action_args"] - args).std().item() == pytest.approx(0.1, abs=0.005)
    random = policy.act(obs, eps=1.0)["action"]
    share = torch.bincount(random["action_type"], minlength=K) / 6000
    torch.testing.assert_close(share, torch.full((K,), 1 / 3), atol=0.03, rtol=0)
    assert random["action_args"].std().item() == pytest.approx(3**-0.5, abs=0.02)  # of a uniform one in -1..1
    half = policy.act(obs, eps=0.5)["action"]
    assert (half["action_type"] == kind).float().mean().item() == pytest.approx(0.5 + 0.5 / 3, abs=0.03)
    far = (half["action_args"] - args).abs().amax(-1) > 0.5
    assert (half["action_type"][~far] == kind).float().mean() > (half["action_type"][far] == kind).float().mean() + 0.4


def test_noise_stays_within_the_bounds() -> None:
    policy = make_pdqn("collect.noise_sigma=3.0")
    args = policy.act(torch.randn(100, OBS).numpy(), eps=0.5)["action"]["action_args"]
    assert args.abs().max().item() == 1.0
