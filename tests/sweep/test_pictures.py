"""What the pictures of a sweep show."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from ding_lite.sweep.pictures import draw_pictures
from ding_lite.sweep.scores import PARTS
from ding_lite.sweep.space import read_words
from ding_lite.sweep.study import SharedStudy, StudyOptions

pytest.importorskip("optuna")
pytest.importorskip("matplotlib")
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

WORDS = [
    "policy.learn.learning_rate=1e-4..1e-2:log",
    "policy.learn.batch_size=16,32",
    "policy.learn.adam_eps=1e-8..1e-3:log",
]
WORDS += ["policy.discount_factor=0.9..0.99"]
SEEDS = 2


@pytest.fixture
def drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The figures of a sweep of eight trials, the last of which is pruned."""
    figures: dict[str, Any] = {}
    save = Figure.savefig

    def keep(figure: Any, path: Path, **options: Any) -> None:
        save(figure, path, **options)
        figures[path.name] = figure

    monkeypatch.setattr(Figure, "savefig", keep)
    options = StudyOptions("mine", str(tmp_path / "journal.log"), read_words(WORDS)[0], 100, "random", "none", 5)
    study = SharedStudy(options, {})
    for number in range(8):
        trial = study.claim()
        for step in range(SEEDS * PARTS if number < 7 else 3):
            trial.report(number + step, step)
        study.finish(trial, "COMPLETE" if number < 7 else "PRUNED", 10.0 - number if number < 7 else None)
    assert sorted(draw_pictures(study, tmp_path, {"max_env_step": 1000})) == sorted(figures)
    return figures


def test_curves_are_over_the_env_steps_of_all_runs_of_a_trial(drawn: dict[str, Any]) -> None:
    (axes,) = drawn["curves.png"].axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("env steps", "score so far")
    steps = [1000 * (k + 1) / PARTS for k in range(SEEDS * PARTS)]
    assert [line.get_xdata() for line in axes.lines] == [pytest.approx(steps)] * 7 + [pytest.approx(steps[:3])]
    assert [line.get_label() for line in axes.lines] == ["best: trial 0", *["complete"] * 6, "pruned"]
    assert [text.get_text() for text in drawn["curves.png"].legends[0].get_texts()] == [
        *("best: trial 0", "complete", "pruned"),
    ]


@pytest.mark.parametrize("name", ["curves.png", "history.png", "slices.png", "importances.png"])
def test_no_label_overlaps_another(drawn: dict[str, Any], name: str) -> None:
    figure = drawn[name]
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()  # which places the labels
    texts = [text for axes in figure.axes for text in (axes.xaxis.label, axes.yaxis.label)]
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        texts += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    boxes = [(text.get_text(), text.get_window_extent(canvas.get_renderer())) for text in texts if text.get_visible()]
    shown = [(text, box) for text, box in boxes if text]
    assert len(shown) > 5
    assert [(a, b) for (a, first), (b, second) in itertools.combinations(shown, 2) if first.overlaps(second)] == []


def test_the_numbers_of_trials_are_those_of_the_table(drawn: dict[str, Any]) -> None:
    points = drawn["history.png"].axes[0].collections[0].get_offsets()
    assert points[:, 0].tolist() == list(range(7))
