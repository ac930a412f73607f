"""The learner counts iterations, hands priorities on, and reports what the policy wants seen."""

from __future__ import annotations

import pytest
import torch

from ding_lite.utils.dist import watchdog
from ding_lite.worker import Learner, PrioritizedReplayBuffer
from tests.policy.helpers import OBS, make_batch, make_policy, same


def test_one_iteration_a_batch_with_the_policys_own_step() -> None:
    torch.manual_seed(0)
    policy = make_policy()
    torch.manual_seed(0)
    other = make_policy()
    learner = Learner(policy.learn_mode, 100, lambda values: None)
    learner.train(make_batch(8, seed) for seed in range(5))
    for seed in range(5):
        other._forward_learn(make_batch(8, seed))
    assert learner.train_iter == 5
    assert learner.state_dict() == {"train_iter": 5}
    assert same(list(policy.model.parameters()), list(other.model.parameters()))


def test_losses_are_reported_at_the_asked_frequency() -> None:
    reports: list[tuple[int, dict]] = []
    policy = make_policy()
    learner = Learner(policy.learn_mode, 3, lambda values: reports.append((learner.train_iter, values)))
    learner.train(make_batch(8, seed) for seed in range(7))
    assert [iteration for iteration, _ in reports] == [3, 6]
    assert set(reports[0][1]) == set(policy.learn_mode.monitor_vars()) == {"total_loss", "grad_norm", "q_value"}
    assert all(isinstance(value, float) for _, values in reports for value in values.values())


def test_the_report_is_of_the_batch_just_learned() -> None:
    torch.manual_seed(0)
    policy = make_policy()
    torch.manual_seed(0)
    expected = make_policy()._loss(make_batch(8))[0].item()
    reports: list[dict] = []
    Learner(policy.learn_mode, 1, reports.append).train([make_batch(8)])
    assert reports[0]["total_loss"] == pytest.approx(expected)


def test_new_priorities_reach_the_steps_that_they_are_of() -> None:
    policy = make_policy("priority=True", "priority_IS_weight=True", "nstep=1")
    replay = PrioritizedReplayBuffer(60, 2, nstep=1, seed=0)
    generator = torch.Generator().manual_seed(0)
    replay.push(
        {
            "obs": torch.randn(20, 2, OBS, generator=generator),
            "action": torch.randint(3, (20, 2), generator=generator),
            "reward": torch.randn(20, 2, generator=generator),
            "done": torch.zeros(20, 2, dtype=torch.bool),
            "traj_flag": torch.zeros(20, 2, dtype=torch.bool),
            "episode_step": torch.arange(20, dtype=torch.int32)[:, None].expand(20, 2),
        }
    )
    told: list[tuple[torch.Tensor, torch.Tensor]] = []
    learner = Learner(policy.learn_mode, 100, lambda values: None)
    batches = list(replay.batches(8, 1))
    expected = policy._loss(batches[0])[1]["priority"]
    learner.train(batches, lambda index, priority: told.append((index, priority)))
    assert torch.equal(told[0][0], batches[0]["index"])
    torch.testing.assert_close(told[0][1], expected)
    assert "weight" in batches[0]


def test_one_process_compares_its_parameters_with_nobodys() -> None:
    mode = make_policy().learn_mode
    mode.checksum = lambda: pytest.fail("a checksum costs time")
    Learner(mode, 100, lambda values: None, check_freq=1).train([make_batch(8)])


def test_iterations_are_progress_that_the_watchdog_sees() -> None:
    before = watchdog._progress.count
    Learner(make_policy().learn_mode, 100, lambda values: None).train([make_batch(8), make_batch(8)])
    assert watchdog._progress.count == before + 2
    assert watchdog._progress.stage == "learn"
