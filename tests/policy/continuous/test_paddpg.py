"""DDPG with hybrid actions: its losses by hand, exploration, state, and the ways to choose it in a config."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ding_lite.config import compile_config
from tests.policy.continuous import helpers
from tests.policy.continuous.helpers import losses
from tests.policy.helpers import Formula, build_policy

OBS, K, D = 4, 3, 2
SHAPE = {"action_type_shape": K, "action_args_shape": D}


def line_actor(net: Any, obs: Tensor) -> dict[str, Tensor]:
    """x(s) = s / 2; the logits of two types are 0 and -bias."""
    logit = torch.cat([torch.zeros_like(obs), -net.bias.expand_as(obs)], dim=-1)
    return {"action_type": logit, "action_args": net.slope * obs}


def line_critic(net: Any, obs: Tensor, action: dict[str, Tensor]) -> Tensor:
    """Q(s, p, x) = p_0 (x + 1) + p_1 (2 x - 1) + s."""
    kind, args = action["action_type"], action["action_args"]
    if not kind.is_floating_point():
        kind = nn.functional.one_hot(kind, 2).to(args.dtype)
    return ((kind * (net.slope * args + torch.tensor([1.0, -1.0]))).sum(-1) + obs[:, 0])[None]


def line() -> nn.Module:
    """Return networks of one dimension of state and argument, and two types."""
    actor = Formula(line_actor, slope=0.5, bias=math.log(3.0))
    return nn.ModuleDict({"actor": actor, "critic": Formula(line_critic, slope=[1.0, 2.0])})


def make_hybrid(kind: str, *overrides: str, model: nn.Module | None = None) -> Any:
    """Build a small policy of hybrid actions; overrides without their `policy.`."""
    hidden = dict(encoder_hidden_size_list=[16, 8]) if kind == "pdqn" else dict(actor_head_hidden_size=16)
    return build_policy(kind, dict(obs_shape=OBS, action_shape=SHAPE, **hidden), *overrides, model=model)


def make_paddpg(*overrides: str, model: nn.Module | None = None) -> Any:
    return make_hybrid("paddpg", *overrides, model=model)


def hand_batch(**more: Any) -> dict[str, Any]:
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


# Q(s, e_k, x) is 2 * 0.1 - 1 + 0.5 = -0.3, and 1 + 1 + 0.2 = 2.2 for x clipped to 1. In s' = 0.4 type 0 is the more
# probable one and x is 0.2, so Q' = 0.2 + 1 + 0.4 = 1.6: y = 1 + 0.5 * 1.6 and -1.
ERRORS = (1.8 + 0.3, -1.0 - 2.2)


def test_the_critics_loss_by_hand() -> None:
    policy = make_paddpg(model=line())
    loss, figures = losses(policy, policy._prepare(hand_batch()))["critic"]
    assert loss.item() == pytest.approx((ERRORS[0] ** 2 + ERRORS[1] ** 2) / 2, rel=1e-5)
    assert figures["priority"].tolist() == pytest.approx([abs(error) for error in ERRORS], rel=1e-5)
    assert figures["q_value"].flatten().tolist() == pytest.approx([-0.3, 2.2], rel=1e-5)
    loss.backward()
    # d/dslope_k of (y - Q)^2 / 2 is -(y - Q) x where type k was played; nothing flows to the actor
    torch.testing.assert_close(policy.model.critic.slope.grad, torch.tensor([-ERRORS[1] * 1.0, -ERRORS[0] * 0.1]))
    assert not any(parameter.grad is not None and parameter.grad.any() for parameter in policy.model.actor.parameters())


def test_the_target_takes_the_most_probable_type_of_the_target_actor() -> None:
    policy = make_paddpg(model=line())
    policy._target_actor.bias.copy_(torch.tensor(-1.0))  # type 1: Q' = 2 * 0.2 - 1 + 0.4 = -0.2
    _, figures = losses(policy, policy._prepare(hand_batch()))["critic"]
    assert figures["td_error"][0].item() == pytest.approx(1.0 + 0.5 * -0.2 + 0.3, rel=1e-5)


def test_target_noise_is_added_to_the_arguments_only() -> None:
    policy = make_paddpg("learn.noise=True", model=line())
    noise = {"target": torch.tensor([[10.0], [0.0]])}  # 0.2 * 10 is clipped to 0.5: x' = 0.7, Q' = 0.7 + 1 + 0.4
    _, figures = losses(policy, policy._prepare(hand_batch(noise=noise)))["critic"]
    assert figures["td_error"][0].item() == pytest.approx(1.0 + 0.5 * 2.1 + 0.3, rel=1e-5)
    assert policy._draw_noise(hand_batch())["target"].shape == (2, 1)
    assert make_paddpg()._draw_noise(make_batch(8, 0)) == {}


def test_the_actors_loss_by_hand_reaches_logits_and_arguments() -> None:
    policy = make_paddpg(model=line())
    loss, _ = losses(policy, hand_batch())["actor"]
    # softmax of 0 and -log 3 is 3/4 and 1/4; with x = s / 2, Q = 3/4 (x + 1) + 1/4 (2 x - 1) + s = 1.625 s + 1/2
    assert loss.item() == pytest.approx(-(1.625 * 0.35 + 0.5), rel=1e-5)
    loss.backward()
    actor = policy.model.actor
    # dQ/dx = 3/4 + 2/4 and dx/dslope = s
    assert actor.slope.grad.item() == pytest.approx(-1.25 * 0.35, rel=1e-5)
    # dp_0/dbias = p_0 p_1 = 3/16, and Q changes with p_0, as p_1 falls, by x + 1 - (2 x - 1) = 2 - s / 2
    assert actor.bias.grad.item() == pytest.approx(-3 / 16 * (2 - 0.35 / 2), rel=1e-5)
    assert policy.model.critic.slope.grad is None or not policy.model.critic.slope.grad.any()
    assert policy.model.critic.slope.requires_grad


def make_batch(size: int, seed: int) -> dict[str, Any]:
    batch = helpers.make_batch(size, seed, OBS, D)
    kind = torch.randint(K, (size,), generator=torch.Generator().manual_seed(seed))
    return batch | {"action": {"action_type": kind, "action_args": batch["action"]}}


@pytest.mark.parametrize("kind", ["pdqn", "paddpg"])
def test_it_explores_types_and_arguments_and_evaluates_the_best_ones(kind: str) -> None:
    policy = make_hybrid(kind, "collect.noise_sigma=0.1")
    obs = torch.randn(OBS).repeat(6000, 1).numpy()
    output = policy.act(obs, explore=False)
    best, args = output["logit"][0].argmax(), output["action"]["action_args"]
    torch.manual_seed(0)
    for eps, share in ((0.0, 1.0), (0.5, 0.5 + 0.5 / 3), (1.0, 1 / 3)):
        action = policy.act(obs, eps=eps)["action"]
        same_N = action["action_type"] == best
        assert same_N.float().mean().item() == pytest.approx(share, abs=0.03)
        far_N = (action["action_args"] - args).abs().amax(-1) > 0.5
        if kind == "paddpg" or eps == 0:  # the actor's arguments, with noise
            assert (action["action_args"] - args).std().item() == pytest.approx(0.1, abs=0.005)
            assert not far_N.any()
        elif eps == 1:  # P-DQN draws them evenly in -1..1 along with the type
            assert action["action_args"].std().item() == pytest.approx(3**-0.5, abs=0.02)
        else:
            assert same_N[~far_N].float().mean() > same_N[far_N].float().mean() + 0.4
    assert output["action"]["action_type"][0] == best


@pytest.mark.parametrize("kind", ["pdqn", "paddpg"])
def test_noise_stays_within_the_bounds(kind: str) -> None:
    policy = make_hybrid(kind, "collect.noise_sigma=3.0")
    args = policy.act(torch.randn(100, OBS).numpy(), eps=0.5)["action"]["action_args"]
    assert args.abs().max().item() == 1.0


def compiled(kind: str, **policy: Any) -> Any:
    return compile_config((dict(env=dict(env_id="any"), policy=policy), dict(policy=dict(type=kind))))


@pytest.mark.parametrize(
    "policy",
    [
        dict(model=dict(action_space="hybrid")),
        dict(action_space="hybrid"),
        dict(model=dict(actor_head_type="hybrid")),
        dict(action_space="hybrid", learn=dict(action_space="hybrid"), model=dict(actor_head_type="hybrid")),
    ],
)
def test_ddpg_with_hybrid_actions_is_this_policy(policy: dict[str, Any]) -> None:
    cfg = compiled("ddpg", **policy)
    assert cfg.policy.type == "paddpg"
    assert cfg.policy.model.action_space == "hybrid"
    assert cfg.policy.other.eps == dict(type="exp", start=1.0, end=0.1, decay=10000)
    assert cfg.notes[0] == "policy.type 'ddpg' with action_space='hybrid' is 'paddpg' here."


def test_other_kinds_of_actions_stay_those_of_ddpg() -> None:
    assert compiled("ddpg").policy.type == "ddpg"
    assert compiled("ddpg", model=dict(action_space="regression")).policy.type == "ddpg"
