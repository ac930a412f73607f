"""ACER's loss and gradient by hand: targets over cuts, the trust region, the average policy, state."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ding_lite.utils.registry import ConfigError
from tests.policy.actors import OBS, A
from tests.policy.helpers import Formula, build_policy

LN = math.log


def table(net: Any, obs: Tensor, mode: str) -> dict[str, Tensor]:
    return {"logit": net.actor(obs)} if mode == "compute_actor" else {"q_value": net.critic(obs)[0]}


def four_states() -> nn.Module:
    """Four states: pi(0) is 1/2 in all, and Q is (s, s + 2), so V is s + 1."""
    actor = Formula(lambda net, obs: obs @ net.rows, rows=[[0.0, 0.0]] * 4)
    critic = Formula(lambda net, obs: (obs @ net.rows)[None], rows=[[float(s), s + 2.0] for s in range(4)])
    return Formula(table, actor=actor, critic=critic)


def make_acer(*overrides: str, model: nn.Module | None = None) -> Any:
    network = dict(obs_shape=OBS, action_shape=A, encoder_hidden_size_list=[16, 8])
    return build_policy("acer", network, *overrides, model=model)


def hand_policy(*overrides: str) -> Any:
    return make_acer("discount_factor=0.5", "learn.entropy_weight=0.0", *overrides, model=four_states())


def hand_batch(**changes: Tensor) -> dict[str, Tensor]:
    """Two steps: action 0 in state 0, action 1 in state 1, then state 2. Action 0 had a probability of 1/4."""
    state = torch.eye(4)
    batch = {
        "obs": state[:2, None],
        "action": torch.tensor([[0], [1]]),
        "logit": torch.tensor([0.0, LN(3)]).expand(2, 1, 2),
        "reward": torch.ones(2, 1),
        "done": torch.zeros(2, 1, dtype=torch.bool),
        "traj_flag": torch.zeros(2, 1, dtype=torch.bool),
        "last_obs": state[2:3],
    }
    return batch | changes


# rho(0) = 2, rho(1) = 2/3. Qret_1 = 1 + 3 / 2 = 2.5; Qret_0 = 1 + (2 + 2/3 (2.5 - 3)) / 2 = 11/6.
QRET = (11 / 6, 2.5)
# The policy's weights of log pi: min(c, rho) (Qret - V) for the action that was taken, with V = 1 and 2;
# the critic's errors: Qret - 0 and Qret - 3.
CRITIC = (QRET[0] ** 2 + (QRET[1] - 3) ** 2) / 4


def test_the_loss_by_hand() -> None:
    loss, figures = hand_policy().loss(hand_batch())
    policy_loss = LN(2) * (2 * (QRET[0] - 1) + 2 / 3 * (QRET[1] - 2)) / 2
    assert figures["critic_loss"].item() == pytest.approx(CRITIC, rel=1e-5)
    assert figures["policy_loss"].item() == pytest.approx(policy_loss, rel=1e-5)
    assert figures["bc_loss"].item() == 0.0
    assert figures["entropy"].item() == pytest.approx(LN(2), rel=1e-5)
    assert figures["kl_div"].abs().max().item() == pytest.approx(0.0, abs=1e-6)
    assert loss.item() == pytest.approx(policy_loss + CRITIC, rel=1e-5)
    assert not any(figure.requires_grad for figure in figures.values())


def test_a_smaller_bound_of_the_weights_is_made_up_for_by_the_correction() -> None:
    _, figures = hand_policy("learn.c_clip_ratio=1.0").loss(hand_batch())
    assert figures["policy_loss"].item() == pytest.approx(LN(2) * (QRET[0] - 1 + 2 / 3 * (QRET[1] - 2)) / 2, rel=1e-5)
    # 1 - 1 / rho(0) = 1/2 in both steps, times pi(0) = 1/2 and Q - V = -1
    assert figures["bc_loss"].item() == pytest.approx(-LN(2) / 4, rel=1e-5)


def gradients(policy: Any, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    policy.loss(batch)[0].backward()
    return policy.model.actor.rows.grad[:3], policy.model.critic.rows.grad[:3]


def test_the_gradient_by_hand() -> None:
    actor, critic = gradients(hand_policy("learn.trust_region=False"), hand_batch())
    # d(-w log pi(a))/dlogit at 1/2: -w/2 for the action, w/2 for the other, over two samples
    first, second = 2 * (QRET[0] - 1) / 4, 2 / 3 * (QRET[1] - 2) / 4
    torch.testing.assert_close(actor, torch.tensor([[-first, first], [second, -second], [0, 0]]))
    # no gradient through V, so none in state 2 and for other actions
    expected = torch.tensor([[(0 - QRET[0]) / 2, 0.0], [0.0, (3 - QRET[1]) / 2], [0, 0]])
    torch.testing.assert_close(critic, expected)


def test_the_trust_region_bounds_each_samples_own_gradient() -> None:
    # The gradients with respect to log pi are (-w_0, 0) and (0, -w_1): descent raises log pi(a), and with it lowers the
    # divergence. A reward of -9 in the first step turns its sign: Qret_0 = 11/6 - 10, w_0 = 2 (Qret_0 - 1).
    batch = hand_batch(reward=torch.tensor([[-9.0], [1.0]]))
    weight = -2 * (QRET[0] - 10 - 1)
    for bound in (1.0, 0.25):
        policy = hand_policy(f"learn.trust_region_value={bound}")
        actor, critic = gradients(policy, batch)
        # g = (weight, 0) exceeds by weight / 2 - bound; pi . pi = 1/2; the change is that times 2 times pi, for both
        # actions alike, so the softmax takes it out again, and what remains is the same gradient
        torch.testing.assert_close(actor[0], torch.tensor([weight / 4, -weight / 4]))
        free = gradients(hand_policy("learn.trust_region=False"), batch)
        torch.testing.assert_close(critic, free[1])
    # an average policy that is not even: pi_avg = (3/4, 1/4), pi . pi = 5/8
    policy = hand_policy("learn.trust_region_value=0.5")
    policy._average_model.actor.rows.copy_(torch.tensor([[LN(3), 0.0]] * 4))
    actor, _ = gradients(policy, batch)
    scale = (0.75 * weight - 0.5) / (5 / 8)
    changed = torch.tensor([weight - scale * 0.75, -scale * 0.25])
    torch.testing.assert_close(actor[0], (changed - 0.5 * changed.sum()) / 2)  # through the softmax; of two samples
    # of equal size per sample, however many samples there are
    twice = {key: value.repeat(1, 2, *[1] * (value.ndim - 2)) for key, value in batch.items() if key != "last_obs"}
    policy.model.actor.rows.grad = None
    again, _ = gradients(policy, twice | {"last_obs": batch["last_obs"].repeat(2, 1)})
    torch.testing.assert_close(again, actor)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_cut_inside_a_sequence(terminal: bool) -> None:
    flag = torch.tensor([[True], [False]])
    batch = hand_batch(done=flag & terminal, traj_flag=flag)
    if not terminal:  # truncated in state 3, where V = 4
        batch |= {"final_obs": torch.eye(4)[3:], "final_index": torch.tensor([0])}
    target = 1.0 if terminal else 3.0
    _, figures = hand_policy().loss(batch)
    assert figures["critic_loss"].item() == pytest.approx((target**2 + (QRET[1] - 3) ** 2) / 4, rel=1e-5)


def test_it_stores_the_logits_that_it_sampled_from_and_evaluates_the_likeliest() -> None:
    policy, obs = make_acer(), torch.randn(4, OBS).numpy()
    output = policy.act(obs)
    assert torch.equal(output["logit"], policy.act(obs, explore=False)["logit"])
    assert torch.equal(policy.act(obs, explore=False)["action"], output["logit"].argmax(-1))
    logit = torch.tensor([[0.0, LN(3), -50.0]])
    policy.model.actor.head[-1].weight.data.zero_()
    policy.model.actor.head[-1].bias.data.copy_(logit[0])
    action = policy.act(torch.zeros(4000, OBS).numpy())["action"]
    assert (action == 1).float().mean().item() == pytest.approx(0.75, abs=0.03)  # standard deviation 0.007


def test_di_engines_places_of_unroll_len_are_known() -> None:
    keys = ("learn.unroll_len=8", "collect.unroll_len=8", "learn.lambda_=0.95", "nstep=3")
    assert make_acer(*keys).current_config.unroll_len == 8
    with pytest.raises(ConfigError, match="contradicts"):
        make_acer("learn.unroll_len=8", "collect.unroll_len=4")
