"""DDPG, and TD3, which is DDPG with other defaults."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from ding_lite.policy import DDPGPolicy
from tests.policy.continuous.helpers import OBS, D, Line, line_batch, losses, make_batch, make_qac
from tests.policy.helpers import parameter_hash


def hand(kind: str, *overrides: str, noise: float = 10.0, done: bool = False) -> Any:
    policy = make_qac(kind, *overrides, model=Line(normal=False))
    return policy, line_batch(done) | {"noise": {"target": torch.tensor([[noise]])}}


@pytest.mark.parametrize(
    ("kind", "overrides", "noise", "target"),
    [
        # pi'(s') = 0.2, and 0.2 * 10 is clipped to 0.5: Q' is 0.7 + 0.4 and 1.4 + 0.4
        ("td3", [], 10.0, 1 + 0.5 * 1.1),
        ("td3", ["learn.noise_range.min=-0.1"], -10.0, 1 + 0.5 * (0.1 + 0.4)),
        ("td3", [], -1.0, 1 + 0.5 * 0.4),  # 0.2 - 0.2 * 1
        ("td3", ["learn.noise_range.max=9.0"], 10.0, 1 + 0.5 * 1.4),  # the action is clipped to 1
        ("td3", ["learn.noise=False"], 10.0, 1 + 0.5 * 0.6),
        ("ddpg", [], 10.0, 1 + 0.5 * 0.6),
        ("ddpg", ["learn.noise=True"], 10.0, 1 + 0.5 * 1.1),
        ("td3_bc", [], 10.0, 1 + 0.5 * 1.1),
        ("td3_bc", ["learn.noise=False"], 10.0, 1 + 0.5 * 0.6),
    ],
)
def test_the_critics_learn_the_lesser_value_of_the_target_action(
    kind: str, overrides: list[str], noise: float, target: float
) -> None:
    policy, batch = hand(kind, *overrides, noise=noise)
    loss, figures = losses(policy, batch)["critic"]
    # Q(s, a) is 0.1 + 0.5 and 0.2 + 0.5
    assert loss.item() == pytest.approx((target - 0.6) ** 2 + (target - 0.7) ** 2)
    assert figures["td_error"].item() == pytest.approx(target - 0.65)  # the mean over the critics
    assert figures["q_value"].flatten().tolist() == pytest.approx([0.6, 0.7])


def test_the_actor_climbs_the_first_critic() -> None:
    policy, batch = hand("td3")
    loss, _ = losses(policy, batch)["actor"]
    assert loss.item() == pytest.approx(-0.75)  # pi(s) = 0.25, Q_1 = 0.25 + 0.5
    loss.backward()
    assert policy.model.actor.slope.grad.item() == pytest.approx(-0.5)  # dQ / da = 1, d pi / d slope = 0.5


def test_ddpg_has_one_critic_and_td3_two() -> None:
    assert [make_qac(kind).model.critic(torch.ones(1, OBS), torch.ones(1, D)).shape for kind in ("ddpg", "td3")] == [
        *((1, 1), (2, 1))
    ]


@pytest.mark.parametrize(("kind", "freq"), [("ddpg", 1), ("td3", 2), ("td3_bc", 3)])
def test_actor_and_targets_move_once_in_a_few_iterations(kind: str, freq: int) -> None:
    policy = make_qac(kind, f"learn.actor_update_freq={freq}")
    networks = {"actor": policy.model.actor, "target_actor": policy._target_actor, "target": policy._target_critic}
    moved = []
    for step in range(6):
        before = {name: parameter_hash(network) for name, network in networks.items()}
        critic = parameter_hash(policy.model.critic)
        output = policy.learn(make_batch(8, step))
        assert parameter_hash(policy.model.critic) != critic
        changed = {name for name, network in networks.items() if parameter_hash(network) != before[name]}
        assert changed in (set(), set(networks))
        assert ("actor_loss" in output) == bool(changed)
        moved.append(bool(changed))
    assert moved == [step % freq == freq - 1 for step in range(6)]


def added_noise(policy: DDPGPolicy, steps: int, num_envs: int) -> torch.Tensor:
    """Return the noise of several steps `[T, N, D]`; the actor's action is small, so that nothing is clipped."""
    obs = np.full((num_envs, OBS), 0.01, np.float32)
    best = policy.act(obs, explore=False)["action"]
    return torch.stack([policy.act(obs)["action"] - best for _ in range(steps)])


@pytest.mark.parametrize(("noise_type", "correlation"), [("gauss", 0.0), ("ou", 0.85)])
def test_noise_is_of_the_chosen_kind_and_of_each_environment(noise_type: str, correlation: float) -> None:
    policy = make_qac("ddpg", f"collect.noise_type={noise_type}", "collect.noise_sigma=0.05")
    noise = added_noise(policy, 40, 2000)
    assert noise[0].std().item() == pytest.approx(0.05, rel=0.1)
    final = 0.05 / (1 - correlation**2) ** 0.5  # an Ornstein-Uhlenbeck process grows to this
    assert noise[-1].std().item() == pytest.approx(final, rel=0.1)
    between = torch.corrcoef(noise[-2:, :, 0])[0, 1].item()
    assert between == pytest.approx(correlation, abs=0.06)
    assert abs(torch.corrcoef(noise[-1].T)[0, 1].item()) < 0.06  # dimensions are independent


def test_correlated_noise_starts_at_zero_in_a_new_episode_of_that_environment() -> None:
    policy = make_qac("ddpg", "collect.noise_type=ou", "collect.noise_sigma=0.0")
    obs = np.full((3, OBS), 0.01, np.float32)
    policy.reset(np.array([1]))  # before the first step
    policy.act(obs)
    policy.load_local_state_dict({"noise": torch.ones(3, D) * 0.4})
    policy.reset(np.array([1]))
    expected = torch.tensor([[0.4], [0.0], [0.4]]).expand(3, D)
    torch.testing.assert_close(policy.local_state_dict()["noise"], expected)
    noise = added_noise(policy, 1, 3)[0]
    torch.testing.assert_close(noise, torch.tensor([[0.34], [0.0], [0.34]]).expand(3, D))
    policy.reset()
    torch.testing.assert_close(added_noise(policy, 1, 3)[0], torch.zeros(3, D))


def test_a_restored_policy_continues_the_noise_of_its_episodes() -> None:
    whole = make_qac("ddpg", "collect.noise_type=ou")
    other = make_qac("ddpg", "collect.noise_type=ou", model=copy.deepcopy(whole.model))
    other.load_local_state_dict(copy.deepcopy(whole.local_state_dict()))  # before the first step
    added_noise(whole, 5, 4)
    other.load_local_state_dict(copy.deepcopy(whole.local_state_dict()))
    actions = []
    for policy in (whole, other):
        torch.manual_seed(3)
        actions.append(added_noise(policy, 3, 4))
    assert torch.equal(*actions)
