"""Draw the learning curves of one or more experiments from their metrics.jsonl.

    python docs/plot_learning_curve.py EXPERIMENT [EXPERIMENT ...] [--output FILE.png] [--title TEXT] [--window 20]
        [--evaluations]

Points are evaluations; the line is the return of the episodes that were collected, a mean over `--window` records; with
`--evaluations` a line joins the points instead. Both are true, unclipped returns over global env steps. Needs
matplotlib: the extra `plot`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import deque
from pathlib import Path


def read_curve(path: Path, key: str) -> tuple[list[int], list[float]]:
    """Return global env steps and values of one key; what a killed run left half-written is skipped.

    Raises:
        ValueError: the file is missing; the message says which.
    """
    if not path.is_file():
        raise ValueError(
            f"'{path}' does not exist: expected the directory of an experiment, which holds metrics.jsonl."
        )
    steps: list[int] = []
    values: list[float] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.endswith("}"):
            continue
        record = json.loads(line)
        if record.get(key) is not None:
            steps.append(record["envstep"])
            values.append(record[key])
    return steps, values


def moving_mean(values: list[float], window: int) -> list[float]:
    """Return the mean of each value and up to `window - 1` before it."""
    recent: deque[float] = deque(maxlen=window)
    means = []
    for value in values:
        recent.append(value)
        means.append(sum(recent) / len(recent))
    return means


def draw(experiments: list[Path], output: Path, title: str | None, window: int, evaluations: bool) -> None:
    """Write the picture, of evaluations alone if so wished."""
    import matplotlib  # noqa: PLC0415 (an optional package)

    matplotlib.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415 (after the choice of a backend)

    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for number, experiment in enumerate(experiments):
        metrics, name, color = experiment / "metrics.jsonl", experiment.resolve().name, f"C{number}"
        steps, returns = read_curve(metrics, "collect/return_mean")
        if steps and not evaluations:
            axes.plot(steps, moving_mean(returns, window), color=color, alpha=0.6, label=f"{name}: collect")
        steps, returns = read_curve(metrics, "eval/return_mean")
        label = name if evaluations else f"{name}: evaluation"
        axes.plot(steps, returns, ".-" if evaluations else ".", color=color, markersize=5, label=label)
    axes.set(xlabel="env steps, all ranks", ylabel="mean return of an episode", title=title)
    axes.xaxis.set_major_formatter(matplotlib.ticker.EngFormatter())
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small" if evaluations else None)
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(output, dpi=110)


def main() -> None:
    """Draw, or end with one line that says what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("experiments", nargs="+", type=Path, help="directories of experiments")
    parser.add_argument("--output", type=Path, default=Path("learning_curve.png"), help="picture to write")
    parser.add_argument("--title", help="title of the picture")
    parser.add_argument("--window", type=int, default=20, help="records of collected episodes in a mean")
    parser.add_argument("--evaluations", action="store_true", help="draw nothing but evaluations, as lines")
    arguments = parser.parse_args()
    try:
        draw(arguments.experiments, arguments.output, arguments.title, arguments.window, arguments.evaluations)
    except ImportError:
        sys.exit("matplotlib is not installed: pip install -e '.[plot]'")
    except ValueError as error:
        sys.exit(str(error))
    print(arguments.output)


if __name__ == "__main__":
    main()
