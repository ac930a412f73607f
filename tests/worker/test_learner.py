"""The learner counts iterations, hands priorities on, and reports what the policy wants seen."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch

from ding_lite.utils.ranks.heartbeat import progress
from ding_lite.worker import Learner, PrioritizedReplayBuffer
from tests.policy.helpers import OBS, make_batch, make_policy, same


def test_one_iteration_a_batch_with_the_policys_own_step() -> None:
    policy = make_policy()
    torch.manual_seed(0)
    other = make_policy()
    learner = Learner(policy, 100, lambda values: None)
    learner.train(make_batch(8, seed) for seed in range(5))
    for seed in range(5):
        other.learn(make_batch(8, seed))
    assert learner.train_iter == 5
    assert learner.state_dict() == {"train_iter": 5}
    assert same(list(policy.model.parameters()), list(other.model.parameters()))


def test_losses_are_reported_at_the_asked_frequency() -> None:
    reports: list[tuple[int, dict[str, Any]]] = []
    policy = make_policy()
    policy.begin_collect(0)  # whose epsilon is a figure
    learner = Learner(policy, 3, lambda values: reports.append((learner.train_iter, values)))
    learner.train(make_batch(8, seed) for seed in range(7))
    assert [iteration for iteration, _ in reports] == [3, 6]
    assert set(reports[0][1]) == {"total_loss", "grad_norm", "q_value", "learning_rate", "epsilon"}
    assert set(reports[0][1]) == set(policy.monitor_vars())
    assert all(isinstance(value, float) for _, values in reports for value in values.values())


def reported(log_freq: int, series: list[dict[str, Any]], resume_at: int | None = None) -> list[dict[str, float]]:
    """Return the records of updates that return these figures, of a run that may be resumed after some of them."""
    reports: list[dict[str, float]] = []
    names = list(dict.fromkeys(name for figures in series for name in figures))
    left = iter(series)
    policy: Any = make_policy()
    policy.learn, policy.monitor_vars = lambda batch: next(left), lambda: names
    learner = Learner(policy, log_freq, reports.append)
    first = len(series) if resume_at is None else resume_at
    learner.train({} for _ in range(first))
    if resume_at is not None:
        states = copy.deepcopy((learner.state_dict(), learner.local_state_dict()))
        learner = Learner(policy, log_freq, reports.append)
        learner.load_state_dict(states[0])
        learner.load_local_state_dict(states[1])
        learner.train({} for _ in range(len(series) - first))
    return reports


def test_a_record_is_the_mean_over_all_updates_since_the_last_one() -> None:
    losses = [1.0, 2.0, 6.0, 5.0, 7.0, 9.0]
    series = [{"loss": torch.tensor([loss - 1, loss + 1])} for loss in losses]  # of a tensor its mean counts
    assert reported(3, series) == [{"loss": 3.0}, {"loss": 7.0}]  # (1 + 2 + 6) / 3, (5 + 7 + 9) / 3


def test_a_figure_of_some_updates_is_averaged_over_those() -> None:
    every, some = {"loss": torch.tensor(1.0)}, {"loss": torch.tensor(3.0), "actor_loss": torch.tensor(4.0)}
    assert reported(4, [every, some, every, some]) == [{"loss": 2.0, "actor_loss": 4.0}]
    assert reported(2, [some, some, every, every])[1] == {"loss": 1.0}


def test_of_a_count_the_last_value_is_recorded() -> None:
    assert reported(3, [{"skipped_updates": torch.tensor(number)} for number in (1, 2, 2)]) == [{"skipped_updates": 2}]


def test_figures_that_are_not_finite_count_only_if_there_are_no_others() -> None:
    good, bad = {"loss": torch.tensor(2.0)}, {"loss": torch.tensor(math.nan)}
    assert reported(3, [good, bad, good]) == [{"loss": 2.0}]
    assert math.isnan(reported(2, [bad, bad])[0]["loss"])


@pytest.mark.parametrize("log_freq", [7, 600])  # shorter and longer than figures are kept as tensors
def test_the_records_of_a_resumed_run_equal_the_uninterrupted_ones(log_freq: int) -> None:
    generator = torch.Generator().manual_seed(0)
    series = [{"loss": torch.rand((), generator=generator)} for _ in range(602)]
    whole = reported(log_freq, series)
    assert len(whole) == 602 // log_freq
    assert all(reported(log_freq, series, resume_at=cut) == whole for cut in (1, 300, 599))


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
    learner = Learner(policy, 100, lambda values: None)
    batches = list(replay.batches(8, 1))
    expected = policy.loss(batches[0])[1]["priority"]
    learner.train(batches, lambda index, priority: told.append((index, priority)))
    assert torch.equal(told[0][0], batches[0]["index"])
    torch.testing.assert_close(told[0][1], expected)
    assert "weight" in batches[0]


def test_one_process_compares_its_parameters_with_nobodys() -> None:
    policy: Any = make_policy()
    policy.checksum = lambda: pytest.fail("a checksum costs time")
    Learner(policy, 100, lambda values: None, check_freq=1).train([make_batch(8)])


def test_iterations_are_progress_that_the_watchdog_sees() -> None:
    before = progress.count
    Learner(make_policy(), 100, lambda values: None).train([make_batch(8), make_batch(8)])
    assert progress.count == before + 2
    assert progress.stage == "learn"
