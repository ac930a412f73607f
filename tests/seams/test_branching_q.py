"""MultiDiscrete actions, from a user's model and policy through replay to environments of both types."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.seams.ranks import build, check_two_step_as_one, metrics, sample_batches, train, train_on_two

NAME = "branching_q"


@pytest.mark.parametrize("manager", ["base", pytest.param("subprocess", marks=pytest.mark.slow)])
def test_it_trains_on_two_processes(tmp_path: Path, manager: str) -> None:
    train_on_two(NAME, tmp_path, f"env.manager.type={manager}")


def test_two_processes_step_as_one(tmp_path: Path) -> None:
    check_two_step_as_one(NAME, tmp_path)


def test_each_branch_plays_all_of_its_own_actions() -> None:
    (batch,) = sample_batches(NAME, 1, 200)
    assert batch["action"].shape == (200, 3)
    assert [sorted(set(column.tolist())) for column in batch["action"].T] == [[0, 1], [0, 1, 2], [0, 1, 2, 3, 4]]


def test_the_model_learns_its_branches_from_the_environment() -> None:
    cfg, policy = build(NAME)
    assert cfg.policy.model.action_shape == [2, 3, 5]
    assert policy.act(torch.zeros(6, 10), explore=False)["action"].shape == (6, 3)


@pytest.mark.learn
def test_it_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    train(NAME, "exp_name=run", max_train_iter=2000)
    first, *_, last = (record["eval/return_mean"] for record in metrics(tmp_path) if "eval/return_mean" in record)
    # Five steps at random: 5 (1/2 + 1/3 + 1/5) / 3 = 1.7. All wheels right: 5.
    assert first < 3.5
    assert last > 4.5
