"""R2D3's loss: that of R2D2 by default, and with the terms of DQfD by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ding_lite.rl_utils.common import value_inv_transform, value_transform
from ding_lite.utils.tree import tree_map
from ding_lite.worker.replay.buffer import UniformReplayBuffer
from tests.policy.helpers import Formula, build_policy, same_tree
from tests.policy.test_sequences import build, collect
from tests.policy.value.test_r2d2 import replay_of, to_double

WORDS = ("unroll_len=5", "burnin_step=2", "nstep=3", "discount_factor=0.9")


def slopes(net: Any, obs: Any, prev_state: Any = None, episode_start: Any = None, final_index: Any = None) -> Any:
    state = {"h": torch.zeros(obs.shape[1], 1)}
    return {"logit": obs * net.slope, "next_state": state} | ({} if final_index is None else {"final_state": state})


def hand(*overrides: str, expert: bool = True) -> Any:
    """Return a policy with Q(s, .) = (s, 2 s, 0), and s_t = 1, 2, 3; a = 0 and r = 0.5, 1, of two steps."""
    words = ["unroll_len=1", "burnin_step=0", "nstep=2", "discount_factor=0.5", "learn.value_rescale=False", *overrides]
    policy = build_policy("r2d3", {}, *words, model=Formula(slopes, slope=[1.0, 2.0, 0.0]))
    replay = UniformReplayBuffer(10, 1, unroll_len=1, nstep=2, gamma=0.5, one_step=True)
    flags = torch.zeros(2, 1, dtype=torch.bool)
    rows = {"obs": torch.tensor([1.0, 2.0]).view(2, 1, 1), "action": torch.zeros(2, 1, dtype=torch.int64)}
    rows |= {"reward": torch.tensor([[0.5], [1.0]]), "done": flags, "traj_flag": flags}
    rows |= {"episode_step": torch.tensor([[0], [1]]), "last_obs": torch.tensor([[3.0]])}
    replay.push(rows | {"prev_state": {"h": torch.zeros(2, 1, 1)}})
    return policy, replay.sample(1) | {"is_expert": torch.tensor([expert]), "noise": {}}


@pytest.mark.parametrize(("expert", "margin"), [(True, 2.0 + 0.8 - 1.0), (False, 0.0)])
def test_the_loss_has_both_errors_and_a_margin_for_demonstrations(expert: bool, margin: float) -> None:
    weights = ("learn.lambda1=0.5", "learn.lambda_one_step_td=2.0", "learn.lambda2=3.0")
    policy, batch = hand(*weights, expert=expert)
    loss, figures = policy._loss(batch)
    # y_1 = 0.5 + 0.5 * 4 and y_n = 0.5 + 0.5 * 1 + 0.25 * 6; Q(s, a) = 1
    first, several = 2.5 - 1.0, 2.5 - 1.0
    assert loss.item() == pytest.approx(0.5 * several**2 + 2.0 * first**2 + 3.0 * margin)
    assert figures["priority"].item() == pytest.approx(0.5 * several + 2.0 * first + 3.0 * margin)
    assert figures["margin_loss"].item() == pytest.approx(margin)
    assert figures["expert_best"].item() == 0.0


def test_errors_are_those_of_rescaled_values() -> None:
    policy, batch = hand("learn.lambda1=0.0", "learn.lambda_one_step_td=1.0", "learn.value_rescale=True")
    target = value_transform(0.5 + 0.5 * value_inv_transform(torch.tensor(4.0)))
    assert policy._loss(batch)[0].item() == pytest.approx((target.item() - 1.0) ** 2)


def test_an_end_after_one_step_is_its_own_and_may_be_ignored() -> None:
    for ignored, target in ((False, 0.5), (True, 2.5)):
        words = ("learn.lambda1=0.0", "learn.lambda_one_step_td=1.0", f"learn.ignore_done={ignored}")
        policy, batch = hand(*words)
        batch["done_1"] = torch.ones_like(batch["done_1"])
        assert policy._loss(policy._prepare(batch))[0].item() == pytest.approx((target - 1.0) ** 2)


def test_without_the_terms_of_dqfd_it_is_r2d2() -> None:
    cfg, policy = build("r2d3", *(f"policy.{word}" for word in WORDS))
    _, other = build(
        "r2d2", *(f"policy.{word}" for word in WORDS), "policy.priority=True", "policy.priority_IS_weight=True"
    )
    assert same_tree(policy.model.state_dict(), other.model.state_dict())
    replay = replay_of(cfg, collect(cfg, policy, 30, 3))
    replay.view._one_step = True
    batch = tree_map(to_double, replay.sample(16)) | {"weight": torch.linspace(0.2, 1.0, 16, dtype=torch.float64)}
    (loss, figures), (expected, others) = policy.loss(batch), other.loss(batch)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(figures["priority"], others["priority"])
