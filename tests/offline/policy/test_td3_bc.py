"""TD3+BC's actor. tests/policy/continuous/test_ddpg.py has its critics, targets and noise."""

from __future__ import annotations

import pytest

from tests.policy.continuous.helpers import Line, line_batch, make_qac


def test_the_actor_climbs_the_first_critic_and_imitates() -> None:
    policy = make_qac("td3_bc", "learn.alpha=3.0", model=Line(normal=False))
    loss, figures = policy._actor_loss(line_batch())
    # pi(s) = 0.25, Q_1 = 0.75, lambda = 3 / 0.75
    assert loss.item() == pytest.approx(-3.0 + 0.15**2)
    assert [figures["bc_loss"].item(), figures["q_scale"].item()] == pytest.approx([0.0225, 0.75])
    loss.backward()
    # d pi / d slope = 0.5: -4 * 0.5 + 2 * 0.15 * 0.5
    assert policy.model.actor.slope.grad.item() == pytest.approx(-2.0 + 0.15)
