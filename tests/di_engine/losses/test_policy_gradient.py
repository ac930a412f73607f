"""Losses of policies against torch's distributions and by hand, and DI-engine's names of functions."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import tensor

from ding_lite.rl_utils import (
    ArgmaxSampler,
    HybridDeterminsticSampler,
    HybridStochasticSampler,
    MultinomialSampler,
    MuSampler,
    ReparameterizationSampler,
    a2c_data,
    a2c_error,
    a2c_error_continuous,
    acer_policy_error,
    acer_trust_region_update,
    acer_value_error,
    calculate_kl_div,
    compute_importance_weights,
    epsilon_at,
    get_epsilon_greedy_fn,
    log_prob,
    mode,
    pg_data,
    pg_error,
    pg_error_continuous,
    ppo_data,
    ppo_data_continuous,
    ppo_error,
    ppo_error_continuous,
    ppo_policy_data_continuous,
    ppo_policy_error_continuous,
    sample,
    vtrace_error_continuous_action,
    vtrace_error_discrete_action,
    vtrace_nstep_return,
)
from tests.rl_utils.test_distribution import MAKE, hybrid, normal, torchs
from tests.rl_utils.test_vtrace import random_data


@pytest.mark.parametrize("continuous", [False, True])
def test_a2c_agrees_with_torch_distributions(continuous: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    mu, sigma, action = torch.randn(3, 6, 2, generator=generator, dtype=torch.float64)
    value, adv, return_, weight = torch.randn(4, 6, generator=generator, dtype=torch.float64)
    logit: Any = {"mu": mu, "sigma": sigma.exp()} if continuous else mu
    action = action if continuous else torch.arange(6) % 2
    logp, entropy = torchs(logit, action)
    error, of_pg = (a2c_error_continuous, pg_error_continuous) if continuous else (a2c_error, pg_error)
    policy_loss, value_loss, entropy_loss = error(a2c_data(logit, action, value, adv, return_, weight))
    torch.testing.assert_close(policy_loss, -(weight * adv * logp).mean())
    torch.testing.assert_close(value_loss, (weight * (return_ - value) ** 2).mean())
    torch.testing.assert_close(entropy_loss, (weight * entropy).mean())
    torch.testing.assert_close(tuple(of_pg(pg_data(logit, action, adv, weight))), (policy_loss, entropy_loss))


KINDS = ["discrete", "continuous", "hybrid"]


def ppo_example(kind: str) -> ppo_data:
    torch.manual_seed(0)
    new, old = MAKE[kind](1), MAKE[kind](2)
    value_new, value_old, adv, return_, weight = torch.randn(5, 3, 5).double()
    return ppo_data(new, old, sample(old), value_new, value_old, adv, return_, weight.abs())


def test_dual_clip_must_exceed_one() -> None:
    with pytest.raises(ValueError, match=r"dual_clip must be above 1, got 1\.0"):
        ppo_error(ppo_example("discrete"), dual_clip=1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_ppo_agrees_with_torch_distributions(kind: str) -> None:
    data: Any = ppo_example(kind)
    (logp, entropy), (logp_old, _) = (torchs(logit, data.action) for logit in (data.logit_new, data.logit_old))
    ratio, weight = (logp - logp_old).exp(), data.weight
    objective = torch.minimum(ratio * data.adv, ratio.clamp(0.7, 1.3) * data.adv)
    objective = torch.where(data.adv < 0, torch.maximum(objective, 2.0 * data.adv), objective)
    clipped = data.value_old + (data.value_new - data.value_old).clamp(-0.3, 0.3)
    error = torch.maximum((data.return_ - data.value_new) ** 2, (data.return_ - clipped) ** 2)
    (policy_loss, value_loss, entropy_loss), info = ppo_error(data, 0.3, dual_clip=2.0)
    torch.testing.assert_close(policy_loss, -(weight * objective).mean())
    torch.testing.assert_close(value_loss, 0.5 * (weight * error).mean())
    torch.testing.assert_close(entropy_loss, (weight * entropy).mean())
    torch.testing.assert_close(info.approx_kl, (weight * (logp_old - logp)).mean())
    torch.testing.assert_close(info.clipfrac, (weight * ((ratio < 0.7) | (ratio > 1.3))).mean())


@pytest.mark.parametrize("kind", KINDS)
def test_the_kl_with_a_pretrained_policy_stands_beside_the_losses(kind: str) -> None:
    data: Any = ppo_example(kind)
    pretrained = ppo_example(kind).logit_old
    plain, _ = ppo_error(data)
    loss: Any = ppo_error(data._replace(logit_pretrained=pretrained), kl_type="k3")[0]
    torch.testing.assert_close(tuple(loss), tuple(plain))  # three losses, as without it
    log_ratio = log_prob(data.logit_new, data.action) - log_prob(pretrained, data.action)
    torch.testing.assert_close(loss.kl_div, calculate_kl_div(log_ratio, "k3", data.weight))
    policy = (data.logit_new, data.logit_old, data.action, data.adv, data.weight, pretrained)
    only: Any = ppo_policy_error_continuous(ppo_policy_data_continuous(*policy), kl_type="k3")[0]
    torch.testing.assert_close(only.kl_div, loss.kl_div)
    torch.testing.assert_close(ppo_error_continuous(ppo_data_continuous(*data)), ppo_error(data))


def test_a_weight_for_each_sequence_is_that_for_each_of_its_steps() -> None:
    sequences: Any = random_data()
    by_sequence = sequences._replace(weight=sequences.weight[0])
    by_step = sequences._replace(weight=sequences.weight[0].expand(10, 3))
    torch.testing.assert_close(vtrace_error_discrete_action(by_sequence), vtrace_error_discrete_action(by_step))


@pytest.mark.parametrize("continuous", [False, True])
def test_vtrace_agrees_with_torch_distributions(continuous: bool) -> None:
    data: Any = random_data(continuous)
    error = vtrace_error_continuous_action if continuous else vtrace_error_discrete_action
    (logp, entropy), (old, _) = (torchs(each, data.action) for each in (data.target_output, data.behaviour_output))
    ratio = (logp - old).exp()
    cut = (data.next_value, data.done, data.traj_flag)
    return_ = vtrace_nstep_return(ratio.clamp(max=0.9), ratio.clamp(max=0.8), data.reward, data.value, 0.9, 0.7, *cut)
    # v of the next step, but V of the true next state where the trajectory or the sequence ends there
    follows = torch.where(data.traj_flag, data.next_value, torch.cat([return_[1:], data.next_value[-1:]]))
    adv = ratio.clamp(max=1.2) * (data.reward + 0.9 * (~data.done).double() * follows - data.value[:-1])
    loss = error(data, 0.9, 0.7, 0.9, 0.8, 1.2)
    torch.testing.assert_close(loss.policy_loss, -(data.weight * logp * adv).mean())
    torch.testing.assert_close(loss.value_loss, (data.weight * (return_ - data.value[:-1]) ** 2).mean())
    torch.testing.assert_close(loss.entropy_loss, (data.weight * entropy).mean())


LOGP = tensor([[[0.75, 0.25]]]).log()
Q, QRET, V, ACTION = tensor([[[1.0, 5.0]]]), tensor([[[4.0]]]), tensor([[[2.0]]]), tensor([[1]])
RATIO = tensor([[[4.0, 8.0]]])


def acer_errors(c: float, **changes: Any) -> list[float]:
    arguments: dict[str, Any] = dict(
        q_values=Q, q_retraces=QRET, v_pred=V, target_logit=LOGP, actions=ACTION, ratio=RATIO
    )
    return [term.item() for term in acer_policy_error(**(arguments | changes), c_clip_ratio=c)]


def test_a_ratio_of_zero_or_infinity_in_acer_stays_finite() -> None:
    first, last = acer_errors(2.0, ratio=tensor([[[0.0, torch.inf]]]))
    assert first == pytest.approx(2 * 2 * math.log(0.25))
    assert last == pytest.approx(0.25 * 3 * math.log(0.25))  # 1 - 2 / inf


def test_the_gradient_flows_through_log_pi_alone_and_estimates_the_policy_gradient() -> None:
    # the expectation over mu of both terms' gradients is sum_a pi(a) A(a) d log pi(a), whatever c, if Qret is Q
    gen = torch.Generator().manual_seed(0)
    logit, q = (torch.randn(3, generator=gen, dtype=torch.float64) for _ in range(2))
    mu = torch.randn(3, generator=gen, dtype=torch.float64).softmax(-1)
    pi = logit.softmax(-1)
    v = (pi * q).sum()
    for c in (0.5, 1.0, 10.0):
        total = torch.zeros(3, dtype=torch.float64)
        for action in range(3):
            leaf, values = logit.clone().requires_grad_(), q.clone().requires_grad_()
            logp = leaf.log_softmax(-1).view(1, 1, 3)
            ratio = (pi / mu).view(1, 1, 3)
            first, last = acer_policy_error(
                values.view(1, 1, 3), values[action].view(1, 1, 1), v.view(1, 1, 1), logp, tensor([[action]]), ratio, c
            )
            (first + last).sum().backward()
            assert values.grad is None
            assert leaf.grad is not None
            total += mu[action] * leaf.grad
        torch.testing.assert_close(total, pi * (q - v))


def test_shapes_of_acer_are_checked() -> None:
    gradient = tensor([[[5.0, 10.0]]])
    for call in (
        lambda: acer_policy_error(Q, QRET[0], V, LOGP, ACTION, RATIO),
        lambda: acer_value_error(Q, QRET[0], ACTION),
        lambda: acer_trust_region_update([gradient[0]], LOGP, LOGP, 0.1),
    ):
        with pytest.raises(ValueError, match="the same shape"):
            call()


def test_the_error_of_acers_critic_by_hand() -> None:
    q, target = Q.clone().requires_grad_(), QRET.clone().requires_grad_()
    error = acer_value_error(q, target, ACTION)
    assert error.tolist() == [[[0.5]]]  # (4 - 5)^2 / 2
    error.sum().backward()
    assert q.grad is not None
    assert q.grad.tolist() == [[[0.0, 1.0]]]
    assert target.grad is None


def test_samplers_are_functions_of_rl_utils() -> None:
    logit = hybrid(3, seed=1)
    part, args = logit["action_type"], logit["action_args"]
    torch.testing.assert_close(ArgmaxSampler()(part), mode(part), rtol=0.0, atol=0.0)
    assert torch.equal(MuSampler()(args), args["mu"])
    torch.testing.assert_close(HybridDeterminsticSampler()(logit), mode(logit))
    samplers: tuple[tuple[Any, Any], ...] = (
        (MultinomialSampler(), part), (ReparameterizationSampler(), args), (HybridStochasticSampler(), logit),
    )  # fmt: skip
    for sampler, value in samplers:
        torch.manual_seed(7)
        drawn = sampler(value)
        torch.manual_seed(7)
        torch.testing.assert_close(drawn, sample(value), rtol=0.0, atol=0.0)
    args["mu"].requires_grad_()
    assert ReparameterizationSampler()(args).requires_grad  # unlike `sample`


def test_importance_weights_by_hand() -> None:
    # target 1/4, 3/4, behaviour 1/2, 1/2: ratios 1/2 and 3/2
    target, behaviour = tensor([[0.0, math.log(3.0)]] * 2), torch.zeros(2, 2)
    target.requires_grad_()
    weight = compute_importance_weights(target, behaviour, tensor([0, 1]))
    torch.testing.assert_close(weight, tensor([0.5, 1.5]))
    assert not weight.requires_grad
    assert compute_importance_weights(target, behaviour, tensor([0, 1]), requires_grad=True).requires_grad
    logit = normal(2, 3, seed=1)
    same = compute_importance_weights(logit, logit, logit["mu"], "continuous")
    torch.testing.assert_close(same, torch.ones(2, dtype=torch.float64))
    with pytest.raises(ValueError, match="continuous"):
        compute_importance_weights(target, behaviour, tensor([0, 1]), "continuous")


def test_a_schedule_is_a_function_of_the_env_step() -> None:
    epsilon = get_epsilon_greedy_fn(0.9, 0.1, 100, "exp")
    assert [epsilon(step) for step in (0, 100)] == pytest.approx([0.9, 0.1 + 0.8 / math.e])
    assert epsilon(7) == epsilon_at(7, 0.9, 0.1, 100, "exp")
    for kind, decay in (("step", 10), ("linear", 0)):
        with pytest.raises(ValueError, match="epsilon"):
            get_epsilon_greedy_fn(1.0, 0.1, decay, kind)
