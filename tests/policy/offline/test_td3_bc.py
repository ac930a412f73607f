from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.policy.continuous.helpers import Line, line_batch, losses, make_batch, make_qac
from tests.policy.helpers import parameter_hash


def hand(*overrides: str, noise: float = 10.0, done: bool = False) -> Any:
    policy = make_qac("td3_bc", *overrides, model=Line(normal=False))
    return policy, line_batch(done) | {"noise": {"target": torch.tensor([[noise]])}}


@pytest.mark.parametrize(
    ("overrides", "noise", "target"),
    [
        # pi'(s') = 0.2, and 0.2 * 10 is clipped to 0.5: Q' is 0.7 + 0.4 and 1.4 + 0.4
        ([], 10.0, 1 + 0.5 * 1.1),
        (["learn.noise_range.min=-0.1"], -10.0, 1 + 0.5 * (0.1 + 0.4)),
        ([], -1.0, 1 + 0.5 * 0.4),  # 0.2 - 0.2 * 1
        (["learn.noise=False"], 10.0, 1 + 0.5 * 0.6),
        (["learn.noise_range.max=9.0"], 10.0, 1 + 0.5 * 1.4),  # the action is clipped to 1
    ],
)
def test_the_critics_learn_the_lesser_value_of_the_smoothed_target_action(
    overrides: list[str], noise: float, target: float
) -> None:
    policy, batch = hand(*overrides, noise=noise)
    loss, figures = losses(policy, batch)["critic"]
    # Q(s, a) is 0.1 + 0.5 and 0.2 + 0.5
    assert loss.item() == pytest.approx((target - 0.6) ** 2 + (target - 0.7) ** 2)
    assert figures["td_error"].tolist() == pytest.approx([target - 0.65])  # the mean over the critics
    assert figures["q_value"].flatten().tolist() == pytest.approx([0.6, 0.7])


def test_nothing_is_bootstrapped_at_a_terminal_state() -> None:
    policy, batch = hand(done=True)
    assert losses(policy, batch)["critic"][0].item() == pytest.approx(0.4**2 + 0.3**2)


def test_the_actor_climbs_the_first_critic_and_imitates() -> None:
    policy, batch = hand("learn.alpha=3.0")
    loss, figures = losses(policy, batch)["actor"]
    # pi(s) = 0.25, Q_1 = 0.75, lambda = 3 / 0.75
    assert loss.item() == pytest.approx(-3.0 + 0.15**2)
    assert [figures["bc_loss"].item(), figures["q_scale"].item()] == pytest.approx([0.0225, 0.75])
    loss.backward()
    # d pi / d slope = 0.5: -4 * 0.5 + 2 * 0.15 * 0.5
    assert policy.model.actor.slope.grad.item() == pytest.approx(-2.0 + 0.15)


def test_actor_and_targets_move_once_in_a_few_iterations_with_what_is_logged_of_them() -> None:
    policy = make_qac("td3_bc", "learn.actor_update_freq=3")
    networks = {"actor": policy.model.actor, "target_actor": policy._target_actor, "target": policy._target_critic}
    moved = []
    for step in range(7):
        before = {name: parameter_hash(network) for name, network in networks.items()}
        critic = parameter_hash(policy.model.critic)
        output = policy.learn(make_batch(8, step))
        assert parameter_hash(policy.model.critic) != critic
        changed = {name for name, network in networks.items() if parameter_hash(network) != before[name]}
        assert changed in (set(), set(networks))
        assert ("actor_loss" in output) == bool(changed)
        moved.append(bool(changed))
    assert moved == [False, False, True, False, False, True, False]


def test_noise_is_drawn_anew_for_every_sample_and_iteration() -> None:
    policy = make_qac("td3_bc")
    first, second = (policy._draw_noise(make_batch(64))["target"] for _ in range(2))
    assert first.shape == (64, 2)
    assert len(torch.cat([first, second]).unique()) == 256
