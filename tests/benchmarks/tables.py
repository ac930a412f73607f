"""Prints the tables of learning curves from docs/results/*.csv: ``python -m tests.benchmarks.tables``.

``--write`` puts them into docs/benchmarks.md, between ``<!-- results/NAME.csv -->`` and ``<!-- end -->``. ``--add NAME
DIR...`` first adds the evaluations of the runs in directories to a file, in the place of those of the same task,
algorithm and seed; ``--algorithm`` names them. A line without ``env_step`` is the mean return of a run's best
checkpoint over 100 new episodes. ``--draw NAME...`` draws the pictures of pages in docs/algorithms, which say of which
task they are.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from ding_lite.results.groups import Group
from ding_lite.results.plot import PlotOptions, render_plot
from ding_lite.results.run import RETURN, Run, find_runs

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE, RESULTS = DOCS / "benchmarks.md", DOCS / "results"
BLOCK = re.compile(r"(<!-- results/(\w+)\.csv -->\n).*?(?=<!-- end -->)", re.S)
PICTURE = re.compile(r"!\[Return on (?P<task>[^]]+?), \w+ seeds?.*?\]\(\.\./images/curves/(?P<name>\w+)\.svg\)")
COLUMNS = ("task", "algorithm", "seed", "env_step", "return", "seconds")
GOALS = {  # the return at which a task counts as solved here
    "CartPole-v0": 195,
    "CartPole-v1": 475,
    "Acrobot-v1": -100,
    "MountainCar-v0": -110,
    "Pendulum-v1": -200,
    "LunarLander-v3": 200,
    "LunarLanderContinuous-v3": 200,
    "HalfCheetah-v5": 4000,
    "InvertedPendulum-v5": 1000,
    "Memory-v0": 0.99,
    "MiniGrid-Empty-5x5-v0": 0.95,
    "MiniGrid-MultiRoom-N4-S5-v0": 0.7,
    "CartPole-v1, no velocity": 475,
    "Pendulum-v1, no velocity": -250,
    "Foraging-8x8-2p-2f-coop-v3": 0.95,
    "PongNoFrameskip-v4": 20,
    "TwoStep-v0": 8,
    "Penalty-v0": 50,
}
HEADER = (
    *("task", "algorithm", "seeds", "goal", "thousand env steps to it", "thousand env steps", "last return"),
    *("mean from the goal on", "over 100 new episodes", "seconds"),
)
Row = dict[str, str]


def read(name: str) -> list[Row]:
    """Return the lines of a file of curves."""
    with (RESULTS / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def add(name: str, folders: Iterable[str], algorithm: str | None) -> None:
    """Add the evaluations of the runs in folders to a file of curves."""
    new = []
    for run in find_runs(folders):
        figures = list(zip(*run.column(RETURN), run.column(RETURN, "seconds")[0], strict=True))
        lines = [tuple(map("{:.6g}".format, line)) for line in figures]
        check = run.path / "check.json"
        lines += [("", f"{json.loads(check.read_text()):.6g}", "")] if check.exists() else []
        names = (run.env, algorithm or run.algorithm, str(run.seed))
        new += [dict(zip(COLUMNS, (*names, *line), strict=True)) for line in lines]
    replaced = {_run(row) for row in new}
    old = read(name) if (RESULTS / f"{name}.csv").exists() else []
    rows = sorted([row for row in old if _run(row) not in replaced] + new, key=_run)
    with (RESULTS / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def table(name: str) -> str:
    """Return the table of a file: a line for each algorithm of a task, or for each run of Pong."""
    runs = {key: list(rows) for key, rows in itertools.groupby(read(name), _run)}
    if name == "pong":
        return curves(runs)
    rows = [HEADER]
    for (task, algorithm), keys in itertools.groupby(runs, lambda key: key[:2]):
        seeds, *cells = zip(*(summary(runs[key], GOALS.get(task, math.inf)) for key in keys), strict=True)
        rows.append(
            (task, algorithm, ", ".join(seeds), str(GOALS.get(task, "-")), *(", ".join(filter(None, c)) for c in cells))
        )
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    return _lines(zip(*columns, strict=True))


def summary(rows: list[Row], goal: float) -> list[str]:
    """Return seed, thousand env steps to the goal and in all, last return, mean from the goal on, check, seconds."""
    curve = [(int(float(row["env_step"])), float(row["return"])) for row in rows if row["env_step"]]
    check = [_number(float(row["return"])) for row in rows if not row["env_step"]]
    after = curve[next((place for place, (_, value) in enumerate(curve) if value >= goal), len(curve)) :]
    return [
        rows[0]["seed"],
        _thousands(after[0][0]) if after else "-",
        _thousands(curve[-1][0]),
        _number(curve[-1][1]),
        _number(sum(value for _, value in after) / len(after)) if after else "-",
        *(check or [""]),
        max((f"{float(row['seconds']):.0f}" for row in rows if row["seconds"]), key=float, default=""),
    ]


def curves(runs: dict[tuple[str, str, int], list[Row]]) -> str:
    """Return a table with the returns of each run at all env steps of evaluations."""
    found = {
        key: {round(float(row["env_step"]) / 1000): row["return"] for row in rows if row["env_step"]}
        for key, rows in runs.items()
    }
    steps = sorted({step for curve in found.values() for step in curve if step})
    rows = [["run", "seed", *(f"{step}k" for step in steps)]]
    for (_, algorithm, seed), curve in found.items():
        rows.append([algorithm, str(seed), *(f"{float(curve[step]):.1f}" if step in curve else "" for step in steps)])
    return _lines(rows)


def draw(name: str) -> None:
    """Draw the picture that the page of an algorithm names, of all seeds.

    Raises:
        ValueError: the page names none, or no file has its curves.
    """
    match = PICTURE.search((DOCS / "algorithms" / f"{name}.md").read_text())
    rows = [row for path in sorted(RESULTS.glob("*.csv")) for row in read(path.stem) if row["env_step"]]
    runs = []
    for key, lines in itertools.groupby(rows, _run):
        if match and key[:2] == (match["task"], name):
            runs.append(Run(Path(str(key[2])), {"policy.type": name, "env.env_id": key[0], "seed": key[2]}, {}))
            points = [{"envstep": float(line["env_step"]), RETURN: float(line["return"])} for line in lines]
            runs[-1].__dict__["records"] = points
    if not runs:
        raise ValueError(f"docs/algorithms/{name}.md names no picture, or docs/results has no curve for it.")
    picture = render_plot([Group(name, runs[0].env, tuple(runs))], "svg", PlotOptions(each=True))
    (DOCS / "images" / "curves" / f"{name}.svg").write_bytes(picture)


def filled(page: str) -> str:
    """Return a page with the tables of today's files."""
    return BLOCK.sub(lambda match: match[1] + table(match[2]), page)


def _lines(rows: Iterable[Sequence[str]]) -> str:
    header, *rest = (f"| {' | '.join(row)} |\n" for row in rows)
    return header + re.sub(r"[^|\n]+", "---", header) + "".join(rest).replace("|  ", "| ")


def _run(row: Row) -> tuple[str, str, int]:
    return row["task"], row["algorithm"], int(row["seed"])


def _thousands(step: int) -> str:
    return f"{step / 1000:.3g}" if step < 999_500 else f"{step / 1000:,.0f}"


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 10 else f"{value:.2g}"


def main() -> None:
    """Print or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="into docs/benchmarks.md")
    parser.add_argument("--add", nargs="+", metavar=("NAME", "DIR"), help="a file, and directories of runs")
    parser.add_argument("--algorithm", help="of what --add adds (default: the runs' own)")
    parser.add_argument("--draw", nargs="+", metavar="NAME", default=[], help="pages in docs/algorithms")
    args = parser.parse_args()
    for name in args.draw:
        draw(name)
    if args.add:
        if len(args.add) < 2:
            parser.error("--add needs the name of a file and the directories of runs")
        add(args.add[0], args.add[1:], args.algorithm)
    if args.write:
        PAGE.write_text(filled(PAGE.read_text()))
    elif not args.draw:
        for path in sorted(RESULTS.glob("*.csv")):
            print(f"{path.stem}\n\n{table(path.stem)}")


if __name__ == "__main__":
    main()
