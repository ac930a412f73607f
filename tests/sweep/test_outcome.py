"""The table, the best config and the pictures of a sweep."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("optuna")
pytest.importorskip("matplotlib")
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from optuna.samplers import RandomSampler
from optuna.trial import TrialState

from ding_lite.config import compile_config, read_config
from ding_lite.sweep.outcome import draw_pictures, tabulate, write_outcome
from ding_lite.sweep.study import ERROR, SharedStudy, open_study, read_words, to_words
from tests.run.helpers import CONFIG

RATE, SIZE = "policy.learn.learning_rate", "policy.learn.batch_size"
WORDS = [f"{RATE}=1e-4..1e-2:log", f"{SIZE}=16,32"]
MORE = ["policy.learn.adam_eps=1e-8..1e-3:log", "policy.discount_factor=0.9..0.99"]


def create_study(folder: Path, *values: float | None, words: Sequence[str] = WORDS) -> SharedStudy:
    """Return a study with complete trials of some values; None: a failed one."""
    study = open_study(str(folder / "journal.log"), {}, study_name="mine", sampler=RandomSampler(seed=1))
    for value in values:
        trial = study.claim(read_words(words)[0], 100)
        assert trial is not None
        if value is None:
            trial.set_user_attr(ERROR, "too bad")
        study.tell(trial, value, TrialState.FAIL if value is None else TrialState.COMPLETE)
    return study


def compiles(values: dict[str, Any], *words: str) -> Any:
    return compile_config(CONFIG, overrides=[*to_words(values), *words])


def test_the_best_trial_comes_first_and_its_config_compiles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = create_study(tmp_path, 1.0, None, 3.0, 2.0)
    assert write_outcome(study, tmp_path, compiles, {"max_env_step": 70})
    best = study.trials[2]
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


def test_without_a_complete_trial_there_is_no_best_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not write_outcome(create_study(tmp_path, None), tmp_path, compiles, {})
    assert "there is no best config" in capsys.readouterr().out
    assert not (tmp_path / "best_config.py").exists()
    assert not write_outcome(create_study(tmp_path / "other"), tmp_path, compiles, {})


def test_a_long_table_is_shortened(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = create_study(tmp_path, *map(float, range(22)))
    table = tabulate(study.count())
    assert len(table.rows) == 22
    write_outcome(study, tmp_path, compiles, {})
    assert "... and 2 more, see" in capsys.readouterr().out


def test_pictures_have_axes_with_units_and_labels_that_do_not_overlap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures: dict[str, Any] = {}
    save = Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda self, path, **how: (save(self, path, **how), figures.update({path.name: self}))
    )
    study = create_study(tmp_path, *map(float, range(8)), words=[*WORDS, *MORE])
    assert draw_pictures(study, tmp_path) == list(figures)
    assert figures["slice.png"].axes[0].get_ylabel() == "score"
    points = figures["optimization_history.png"].axes[0].collections[0].get_offsets()
    assert points[:, 0].tolist() == list(range(8))  # the numbers of trials in the table
    for name in ("optimization_history.png", "slice.png", "param_importances.png"):
        assert overlaps(figures[name]) == []


def overlaps(figure: Any) -> list[tuple[str, str]]:
    """Return the labels of axes, and the numbers at them, that overlap."""
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()  # which places the labels
    texts = [text for axes in figure.axes for text in (axes.xaxis.label, axes.yaxis.label)]
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
        texts += [tick.label1 for tick in ticks if low <= tick.get_loc() <= high]
    boxes = [(text.get_text(), text.get_window_extent(canvas.get_renderer())) for text in texts if text.get_visible()]
    shown = [(text, box) for text, box in boxes if text]
    assert len(shown) > 5
    return [(a, b) for (a, first), (b, second) in itertools.combinations(shown, 2) if first.overlaps(second)]
