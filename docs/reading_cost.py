"""Count what a DQN and a PPO run pass through, from the config file to the optimizer step and back to the environment.

    python docs/reading_cost.py [--write]

`--write` puts the tables into docs/reading_cost.md instead of printing them. Short runs on one process are traced. A
file counts if one of its functions ran after all imports; then all of its code lines count (no blank lines,
comments, docstrings). The last column counts only the functions that ran.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import inspect
import io
import sys
import tempfile
import tokenize
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/reading_cost.md"
INTRO = """# Reading cost

Written by `python docs/reading_cost.py --write`, which traces short runs on one process: DQN on Pong, PPO on CartPole.
A file is listed if one of its functions ran after all imports, and then counts as a whole; blank lines, comments and
docstrings do not count. The last column counts only the functions that ran: what has to be read to follow the run. The
goal for the path of each run is 1,500 lines in 12 files. It is missed: exact resuming and its checks are in it too.

"""
# What a run touches too, but a reader who wants to know how it learns may skip. Whatever is not here is the path.
BESIDE = {
    "ding_lite/config/agreement.py": "do all ranks run the same config",
    "ding_lite/utils/allocator.py": "memory of the C library",
    "ding_lite/config/compat.py": "DI-engine's older keys",
    "ding_lite/config/schema.py": "type checks of config keys",
    "ding_lite/config/checks.py": "ranges of config keys",
    "ding_lite/utils/checkpoint/store.py": "checkpoints of all ranks",
    "ding_lite/utils/dist/watchdog.py": "dead and hanging ranks",
    "ding_lite/entry/reporter.py": "summary, figures, checkpoints, result",
    "ding_lite/utils/checkpoint/file.py": "checkpoint files",
    "ding_lite/utils/checkpoint/run_directory.py": "the experiment's directory",
    "ding_lite/utils/dist/interrupt.py": "Ctrl-C",
    "ding_lite/utils/dist/context.py": "joining and leaving the process group",
    "ding_lite/utils/logger.py": "log, metrics, TensorBoard",
    "ding_lite/utils/progress.py": "progress bar",
    "ding_lite/utils/registry.py": "names to classes",
    "ding_lite/utils/seed.py": "random states",
    "ding_lite/utils/dist/shared_memory.py": "memory that ranks of one machine share",
    "ding_lite/utils/tree.py": "a map over nested dicts",
    "ding_lite/worker/evaluator.py": "evaluation",
    "dizoo/atari/envs/atari_env.py": "the game; another environment has another file, or none",
    "dizoo/classic_control/cartpole/envs/cartpole_env.py": "the game's name",
}


class Run(NamedTuple):
    """One run that is traced: its name, its config file, the pipeline's name, small sizes."""

    name: str
    config: Path
    pipeline: str
    overrides: tuple[str, ...]


# Small sizes; episodes are cut after 40 steps, so that ends of episodes, evaluation and learning are all seen.
SMALL = (
    *("env.max_episode_steps=40", "env.evaluator_env_num=2", "env.n_evaluator_episode=2"),
    "policy.learn.learner.hook.log_show_after_iter=5",
)
DQN = (
    *("policy.learn.batch_size=4", "policy.random_collect_size=96"),
    *("policy.other.replay_buffer.replay_buffer_size=1600", "policy.learn.target_update_freq=5"),
)
RUNS = (
    Run("DQN", ROOT / "dizoo/atari/pong_dqn_ddp_config.py", "serial_pipeline", SMALL + DQN),
    Run(
        "PPO",
        ROOT / "dizoo/classic_control/cartpole/config/cartpole_ppo_config.py",
        "serial_pipeline_onpolicy",
        (*SMALL, "policy.learn.epoch_per_collect=2", "env.stop_value=None"),
    ),
)
SKIPPED_TOKENS = (
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
)


class FileCount(NamedTuple):
    """One file: its name, its code lines, and those in functions that ran."""

    name: str
    lines: int
    ran: int


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


def trace_run(run: Run) -> dict[str, set[int]]:
    """Do a short run; return for each file of the project the first lines of its functions that ran.

    Everything is imported before, and modules and class bodies are left out: importing a file is not using it.
    """
    for name in ("ding_lite.worker", "ding_lite.model", "dizoo.atari.envs.atari_env"):
        importlib.import_module(name)
    importlib.import_module("dizoo.classic_control.cartpole.envs.cartpole_env")
    import torch

    from ding_lite.utils import DDPContext

    pipeline = getattr(importlib.import_module("ding_lite.entry"), run.pipeline)

    torch.set_num_threads(1)
    codes: set[CodeType] = set()

    def record(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            codes.add(frame.f_code)

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        overrides = [*run.overrides, f"exp_name={folder}/run"]
        sys.setprofile(record)
        try:
            with DDPContext():
                pipeline(str(run.config), seed=0, max_env_step=800, overrides=overrides)
        finally:
            sys.setprofile(None)
    found: dict[str, set[int]] = {}
    for code in codes:
        path = Path(code.co_filename)
        is_function = bool(code.co_flags & inspect.CO_OPTIMIZED)
        if path.is_relative_to(ROOT) and (is_function or path == run.config):
            found.setdefault(path.relative_to(ROOT).as_posix(), set()).add(code.co_firstlineno)
    return {name: lines for name, lines in found.items() if name.startswith(("ding_lite/", "dizoo/"))}


def count(run: Run, found: dict[str, set[int]]) -> list[FileCount]:
    """Return the counts of each file, in the order of names."""
    counts = []
    for name, first_lines in sorted(found.items()):
        source = (ROOT / name).read_text(encoding="utf-8")
        code = code_lines(source)
        ran = code if ROOT / name == run.config else code & function_lines(source, first_lines)
        counts.append(FileCount(name, len(code), len(ran)))
    return counts


def table(title: str, counts: list[FileCount]) -> str:
    """Return one table with its total."""
    rows = [f"| `{one.name}` | {one.lines} | {one.ran} |" for one in counts]
    total = f"| **{len(counts)} files** | **{sum(c.lines for c in counts):,}** | **{sum(c.ran for c in counts):,}** |"
    return "\n".join([f"| {title} | code lines | in functions that ran |", "|---|---|---|", *rows, total])


def make_tables() -> str:
    """Trace the runs and return two tables for each."""
    tables = []
    for run in RUNS:
        counts = count(run, trace_run(run))
        path = [one for one in counts if one.name not in BESIDE]
        beside = [one for one in counts if one.name in BESIDE]
        tables += [table(f"the path of one {run.name} run", path), table("what it touches beside", beside)]
    text = "\n\n".join(tables) + "\n"
    for name, purpose in BESIDE.items():
        text = text.replace(f"`{name}`", f"`{name}` ({purpose})")
    return text


def main() -> None:
    """Print or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write docs/reading_cost.md")
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    text = make_tables()
    if arguments.write:
        PAGE.write_text(INTRO + text, encoding="utf-8")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
