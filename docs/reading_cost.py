"""Count what a DQN and a PPO run pass through, from the config file to the optimizer step and back to the environment.

    python docs/reading_cost.py [--write | --check]

`--write` puts the tables into docs/reading_cost.md instead of printing them; that page is also the record that nothing
may grow beyond. `--check` prints what grew since, and fails if a figure is worse than both its goal and its record.
Short runs on one process are traced. A file counts as a whole if one of its lines runs in one turn of the loop; no file
is left out.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import inspect
import io
import re
import sys
import tempfile
import tokenize
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/reading_cost.md"
INTRO = """# Reading cost

Written by `python docs/reading_cost.py --write`, which traces short runs on one process: DQN on Pong, PPO on CartPole.
A turn of the loop is one collect, and what follows until the next one: storing, sampling, learning steps, records, an
evaluation, and a checkpoint if one is due. A file counts as a whole if a turn executes one of its lines, whatever it is
for; there is no list of exceptions. Blank lines, comments and docstrings do not count.

The second table of each run has the files that run only before the loop and after it: they compile and check the
config, build environments and networks, and resume the run. Two more columns count the functions that ran at any time
after all imports, and the statements that the turn executed.

A test compares the figures with this page. A figure may be as bad as its goal, or as bad as it was when the page was
written, and no worse.

"""


class Run(NamedTuple):
    """One run that is traced: its name, its config file, the pipeline's name, small sizes."""

    name: str
    config: Path
    pipeline: str
    overrides: tuple[str, ...]


# Small sizes; episodes are cut after 40 steps, so that ends of episodes, evaluation and learning are all seen.
SMALL = (
    *("env.max_episode_steps=40", "env.evaluator_env_num=2", "env.n_evaluator_episode=2"),
    *("policy.learn.learner.hook.log_show_after_iter=5", "policy.eval.evaluator.eval_freq=1"),
)
DQN = (
    *("policy.learn.batch_size=4", "policy.random_collect_size=96", "policy.collect.n_sample=96"),
    *("policy.other.replay_buffer.replay_buffer_size=1600", "policy.learn.target_update_freq=5"),
    "env.manager.type=native",
)
RUNS = (
    Run("DQN", ROOT / "dizoo/atari/config/serial/pong/pong_dqn_config.py", "serial_pipeline", SMALL + DQN),
    Run(
        "PPO",
        ROOT / "dizoo/classic_control/cartpole/config/cartpole_ppo_config.py",
        "serial_pipeline_onpolicy",
        # small collects, because the traced turn must not be the last one, after which the run ends
        (*SMALL, "policy.learn.epoch_per_collect=2", "env.stop_value=None", "policy.collect.n_sample=64"),
    ),
)
SKIPPED_TOKENS = (
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
)


TURN = 4  # the collect with which the traced turn begins: the replay buffer is filled, statistics exist


class FileCount(NamedTuple):
    """One file: its name, its code lines, those in functions that ran, and those that one turn of the loop ran."""

    name: str
    lines: int
    ran: int
    turn: int


class RunCount(NamedTuple):
    """The files of one run: those that run in a turn of the loop, and those that only run before or after the loop."""

    turn: list[FileCount]
    rest: list[FileCount]


class Figures(NamedTuple):
    """What a run is judged by. The last is a share of the turn's lines, in percent; it should be large."""

    turn_lines: int
    turn_files: int
    whole_lines: int
    turn_share: int


GOALS = {"DQN": Figures(2500, 27, 3800, 40), "PPO": Figures(2800, 32, 3800, 40)}
TITLES = ("files of one turn of {}", "files that {} runs only before and after the loop")
LAG = 0.03  # the page's totals may be that far from the truth before it has to be written anew


class Trace:
    """Records which functions run, and, from the collect number `TURN` to the next one, which lines."""

    def __init__(self) -> None:
        self.codes: set[CodeType] = set()
        self.turn_lines: dict[str, set[int]] = {}
        self._collects = 0

    def __enter__(self) -> Trace:
        sys.setprofile(self._on_call)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)
        sys.settrace(None)

    def _on_call(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        self.codes.add(frame.f_code)
        caller = frame.f_back
        # a collector may call another one's `collect`
        if is_collect(frame) and not (caller is not None and is_collect(caller)):
            self._collects += 1
            if self._collects == TURN:
                self._begin(frame)
            elif self._collects == TURN + 1:
                sys.settrace(None)

    def _begin(self, frame: FrameType | None) -> None:
        """Record lines from now on, in new frames and in those that are running: the collect and its callers."""
        sys.settrace(self._on_line)
        while frame is not None:
            frame.f_trace = self._on_line
            frame = frame.f_back

    def _on_line(self, frame: FrameType, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        if self._collects != TURN or not name.startswith(str(ROOT)):
            return None
        if event in ("call", "line"):
            self.turn_lines.setdefault(name, set()).add(frame.f_lineno)
        return self._on_line


def is_collect(frame: FrameType) -> bool:
    """Return whether this frame is a collector's method `collect`."""
    code = frame.f_code
    return code.co_name == "collect" and code.co_filename.startswith(str(ROOT / "ding_lite" / "worker"))


def code_lines(source: str) -> set[int]:
    """Return the numbers of the lines that hold code: no blank lines, comments or docstrings."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in SKIPPED_TOKENS:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            lines -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return lines


def function_lines(source: str, first_lines: set[int]) -> set[int]:
    """Return the numbers of all lines of the functions that begin (decorators too) on one of `first_lines`."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
            first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
            if first in first_lines:
                lines |= set(range(first, (node.end_lineno or first) + 1))
    return lines


def statement_lines(source: str, ran: set[int]) -> set[int]:
    """Return all lines of the statements that have a line in `ran`, without those of the statements inside them."""
    owners: dict[int, int] = {}
    for node in ast.walk(ast.parse(source)):  # breadth first: what is inside comes later
        if isinstance(node, ast.stmt | ast.ExceptHandler):
            first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
            owners |= dict.fromkeys(range(first, (node.end_lineno or first) + 1), first)
    statements = {owners[line] for line in ran if line in owners}
    return {line for line, owner in owners.items() if owner in statements}


def trace_run(run: Run) -> Trace:
    """Do a short run, and return what was recorded.

    Everything is imported before, as importing a file is not using it.
    """
    for name in ("ding_lite.worker", "ding_lite.model", "dizoo.atari.envs.atari_env"):
        importlib.import_module(name)
    importlib.import_module("dizoo.classic_control.cartpole.envs.cartpole_env")
    context = importlib.import_module("ding_lite.utils").DDPContext
    pipeline = getattr(importlib.import_module("ding_lite.entry"), run.pipeline)
    image: Any = importlib.import_module("ding_lite.model.image")
    image.CONVOLVE_DENSE = True  # so that the same lines run on all processors
    torch.set_num_threads(1)
    said = io.StringIO()
    try:
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(said):
            overrides = [*run.overrides, f"exp_name={folder}/run"]
            with Trace() as trace, context():
                pipeline(str(run.config), seed=0, max_env_step=800, overrides=overrides)
    except BaseException:
        sys.stderr.write(said.getvalue())
        raise
    return trace


def count(run: Run, trace: Trace) -> RunCount:
    """Return the counts of each file in the order of names; modules and class bodies are not what ran."""
    first_lines: dict[str, set[int]] = {}
    for function in trace.codes:
        if function.co_flags & inspect.CO_OPTIMIZED or function.co_filename == str(run.config):
            first_lines.setdefault(function.co_filename, set()).add(function.co_firstlineno)
    result = RunCount([], [])
    for path in sorted(map(Path, first_lines)):
        if not path.is_relative_to(ROOT / "ding_lite") and not path.is_relative_to(ROOT / "dizoo"):
            continue
        source = path.read_text(encoding="utf-8")
        code = code_lines(source)
        ran = code if path == run.config else code & function_lines(source, first_lines[str(path)])
        turn = code & statement_lines(source, trace.turn_lines.get(str(path), set()))
        name = path.relative_to(ROOT).as_posix()
        (result.turn if turn else result.rest).append(FileCount(name, len(code), len(ran), len(turn)))
    return result


def figures(counts: RunCount) -> Figures:
    """Return what a run is judged by."""
    lines, turn = sum(one.lines for one in counts.turn), sum(one.turn for one in counts.turn)
    whole = lines + sum(one.lines for one in counts.rest)
    return Figures(lines, len(counts.turn), whole, round(100 * turn / lines))


def table(title: str, counts: list[FileCount]) -> str:
    """Return one table with its total."""
    rows = [f"| `{one.name}` | {one.lines} | {one.ran} | {one.turn} |" for one in counts]
    sums = (f"**{sum(column):,}**" for column in zip(*(one[1:] for one in counts), strict=True))
    head = f"| {title} | code lines | in functions that ran | run in one turn |"
    return "\n".join([head, "|---|---|---|---|", *rows, f"| **{len(counts)} files** | {' | '.join(sums)} |"])


def summary(counts: dict[str, RunCount]) -> str:
    """Return the table of the figures and their goals."""
    rows = ["| run | code lines of the files of one turn | files | code lines of the whole run | executed in a turn |"]
    rows += ["|---|---|---|---|---|"]
    for name, one in counts.items():
        for title, (lines, files, whole, share) in ((name, figures(one)), (f"{name}, goal", GOALS[name])):
            rows += [f"| {title} | {lines:,} | {files} | {whole:,} | {share} % |"]
    return "\n".join(rows)


def make_page(counts: dict[str, RunCount]) -> str:
    """Return all tables."""
    tables = [summary(counts)]
    for name, one in counts.items():
        tables += [table(title.format(name), part) for title, part in zip(TITLES, one, strict=True)]
    return "\n\n".join(tables) + "\n"


def read_page(text: str) -> dict[str, RunCount]:
    """Return the counts that the tables of a page give, by run."""
    row = re.compile(r"^\| `([\w/.]+)`.* \| (\d+) \| (\d+) \| (\d+) \|$", re.M)

    def rows(title: str) -> list[FileCount]:
        section = text.partition(f"| {title} |")[2].partition("\n\n")[0]
        return [FileCount(name, int(lines), int(ran), int(turn)) for name, lines, ran, turn in row.findall(section)]

    return {name: RunCount(*(rows(title.format(name)) for title in TITLES)) for name in GOALS}


def changes(before: RunCount, now: RunCount) -> list[str]:
    """Return a line for each file whose counts changed, for those that came and for those that went."""
    old, new = ({one.name: one for one in [*counts.turn, *counts.rest]} for counts in (before, now))
    lines = []
    for name in sorted(old.keys() | new.keys()):
        was, has = old.get(name, FileCount(name, 0, 0, 0)), new.get(name, FileCount(name, 0, 0, 0))
        if was != has:
            lines.append(f"  {name}: {was.lines} -> {has.lines} code lines, {was.turn} -> {has.turn} in one turn")
    return lines


def check(recorded: dict[str, RunCount], counts: dict[str, RunCount]) -> list[str]:
    """Return a line for each figure that is worse than its goal and its record, and one if the page is out of date."""
    faults = []
    for name, now in counts.items():
        values = zip(Figures._fields, figures(now), figures(recorded[name]), GOALS[name], strict=True)
        for field, value, record, goal in values:
            share = field == "turn_share"
            limit = min(record, goal) if share else max(record, goal)
            if value < limit if share else value > limit:
                faults.append(f"{name}: {field} is {value}, limit {limit} (recorded {record}, goal {goal})")
        for part, was, has in zip(RunCount._fields, recorded[name], now, strict=True):
            lines, old_lines = sum(one.lines for one in has), sum(one.lines for one in was)
            if {one.name for one in was} != {one.name for one in has} or abs(lines - old_lines) > LAG * old_lines:
                faults.append(f"{name}: the page's table of the {part} is out of date")
    return faults


def main() -> None:
    """Print, write or check the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--write", action="store_true", help="write docs/reading_cost.md")
    modes.add_argument("--check", action="store_true", help="print what grew since it was written, fail if too much")
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    counts = {run.name: count(run, trace_run(run)) for run in RUNS}
    if arguments.write:
        PAGE.write_text(INTRO + make_page(counts), encoding="utf-8")
        return
    print(make_page(counts), end="")
    if arguments.check:
        recorded = read_page(PAGE.read_text(encoding="utf-8"))
        for name, now in counts.items():
            print("\n".join([f"\n{name}, changed since the page was written:", *changes(recorded[name], now)]))
        faults = check(recorded, counts)
        if faults:
            sys.exit("\n".join([*faults, "Shorten what grew, then run: python docs/reading_cost.py --write"]))


if __name__ == "__main__":
    main()
