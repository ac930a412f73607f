"""Judging a checkpoint gives what training would have given."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ding_lite.entry import evaluate_checkpoint
from tests.run.helpers import pair

CKPT = "run/ckpt/ckpt_last.pth.tar"


pytestmark = pytest.mark.usefixtures("run_directory")


def test_a_checkpoint_is_judged_with_its_own_config(capsys: pytest.CaptureFixture[str]) -> None:
    info = evaluate_checkpoint("run/total_config.py", CKPT)
    assert len(info["returns"]) == 5
    assert info["return_mean"] == pytest.approx(np.mean(info["returns"]))
    assert (info["return_min"], info["return_max"]) == (min(info["returns"]), max(info["returns"]))
    assert f"return {info['return_mean']:.2f}" in capsys.readouterr().out


def test_nothing_is_confirmed_where_no_run_may_end() -> None:
    overrides = ["env.stop_value=1", "env.n_confirm_episode=5"]
    assert len(evaluate_checkpoint("run/total_config.py", CKPT, overrides=overrides)["returns"]) == 5


def test_it_is_repeatable_and_another_seed_plays_other_episodes() -> None:
    returns = [evaluate_checkpoint(pair(), CKPT, seed=seed, n_episode=16)["returns"] for seed in (0, 0, 1)]
    assert returns[0] == returns[1] != returns[2]


def test_a_schedule_of_epsilon_is_where_the_checkpoint_was(capsys: pytest.CaptureFixture[str]) -> None:
    over = 2 * json.loads(Path("run/result.json").read_text())["train_iter"]
    schedule = dict(type="linear", start=0.5, end=0.0, over=over, by="iteration")
    evaluate_checkpoint("run/total_config.py", CKPT, overrides=[f"policy.eval.eps={schedule}"])
    assert "over 5 episodes, epsilon 0.25\n" in capsys.readouterr().out


def test_it_uses_the_checkpoints_parameters() -> None:
    first = evaluate_checkpoint(pair(), CKPT, n_episode=40)["returns"]
    other = evaluate_checkpoint(pair(), "run/ckpt/ckpt_best.pth.tar", n_episode=40)["returns"]
    assert first != other
