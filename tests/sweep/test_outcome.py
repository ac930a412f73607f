"""The table, the best config and the pictures of a sweep."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from ding_lite.config import compile_config, read_config
from ding_lite.sweep.outcome import show_values, tabulate, write_outcome
from ding_lite.sweep.space import Dimension, to_words
from ding_lite.sweep.study import SharedStudy, StudyOptions
from tests.entry.helpers import CONFIG

pytest.importorskip("optuna")
RATE, SIZE = "policy.learn.learning_rate", "policy.learn.batch_size"
DIMENSIONS = [Dimension(RATE, low=1e-4, high=1e-2, log=True), Dimension(SIZE, (16, 32))]


def create_study(folder: Path, *values: float | None) -> SharedStudy:
    """Return a study with complete trials of some values; None: a failed one."""
    options = StudyOptions("mine", str(folder / "journal.log"), DIMENSIONS, 100, "random", "none", 5)
    shared = SharedStudy(options, {})
    for value in values:
        trial = shared.claim()
        shared.finish(trial, "FAIL" if value is None else "COMPLETE", value, "too bad" * (value is None))
    return shared


def compiles(values: dict[str, Any], *words: str) -> Any:
    return compile_config(CONFIG, overrides=[*to_words(values), *words])


def test_the_best_trial_comes_first_and_its_config_compiles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = create_study(tmp_path, 1.0, None, 3.0, 2.0)
    assert write_outcome(study, tmp_path, compiles, {"max_env_step": 70})
    best = study.trials()[2]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["trial", "score", "ended", "learning_rate", "batch_size"]
    assert [line.split()[:3] for line in lines[1:5]] == [
        ["2", "3", "complete"],
        ["3", "2", "complete"],
        ["0", "1", "complete"],
        ["1", "-", "failed"],
    ]
    assert max(map(len, lines[:5])) <= 80
    cfg = compile_config(tmp_path / "best_config.py")
    assert (cfg.policy.learn.learning_rate, cfg.policy.learn.batch_size) == (best.params[RATE], best.params[SIZE])
    assert cfg.exp_name == f"{tmp_path.name}_best"
    assert "limits = {'max_env_step': 70}" in (tmp_path / "best_config.py").read_text()
    read_config(tmp_path / "best_config.py")
    with open(tmp_path / "trials.csv") as file:
        rows = list(csv.DictReader(file))
    assert [float(rows[0][RATE]), rows[3]["error"]] == [best.params[RATE], "too bad"]


def test_pictures_are_drawn_as_soon_as_they_make_sense(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    write_outcome(create_study(tmp_path, 1.0), tmp_path, compiles, {})
    assert sorted(path.name for path in tmp_path.glob("*.png")) == ["curves.png", "history.png"]
    write_outcome(create_study(tmp_path, 3.0, 2.0), tmp_path, compiles, {})
    assert len(list(tmp_path.glob("*.png"))) == 5
    assert "importances.png" in capsys.readouterr().out


def test_without_a_complete_trial_there_is_no_best_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not write_outcome(create_study(tmp_path, None), tmp_path, compiles, {})
    assert "there is no best config" in capsys.readouterr().out
    assert not (tmp_path / "best_config.py").exists()
    assert not write_outcome(create_study(tmp_path / "other"), tmp_path, compiles, {})


def test_a_long_table_is_shortened(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = create_study(tmp_path, *map(float, range(22)))
    table = tabulate(study.trials())
    assert len(table.rows) == 22
    write_outcome(study, tmp_path, compiles, {})
    assert "... and 2 more, see" in capsys.readouterr().out


def test_values_are_shown_with_short_keys_and_four_digits() -> None:
    assert show_values({RATE: 0.00012345678, SIZE: 32}) == "learning_rate=0.0001235, batch_size=32"
