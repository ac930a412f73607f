"""What surviving costs while nothing goes wrong: ``python -m tests.benchmarks.survival_overhead --before TREE``.

TREE holds the project as it was before (``git archive 16edec7 | tar -x -C TREE``). Both trees' ``ours.py`` train the
same task for the same number of environment steps, in turns; what is measured has no evaluation and no checkpoint.
Wall time needs free cores; CPU time, of all the side's processes, stands beside it, as it hardly feels other load.
``--switches`` compares this tree with itself, one part switched off. ``--checkpoints`` tells the share of the training
time that checkpoints take at the default settings, replay buffers that are full included.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.benchmarks.sides import SideError, load_note
from tests.distributed.launcher import ROOT, finish, free_port, start

GOAL = 0.98  # of the rate before
STEPS = {"cartpole_dqn": 40_000, "cartpole_ppo": 80_000, "pong_dqn": 10_000, "pong_ppo": 8_192}  # about 10 s
CASES = (*((task, 1) for task in STEPS), ("cartpole_dqn", 2), ("cartpole_ppo", 2))
NO_CHECKPOINTS = "policy.learn.learner.hook.save_ckpt_after_iter=1000000000"
NO_WATCHDOG = "from ding_lite.utils.ranks.context import DDPContext as C; C._watch = lambda *_: None; "
# What is done to the side without: code that runs before, config overrides.
SWITCHES: dict[str, tuple[str, tuple[str, ...]]] = {
    "watchdog": (NO_WATCHDOG, ()),
    "check_ranks": ("", ("policy.learn.learner.hook.check_ranks_after_iter=0",)),
}
# What is there to survive, in a stack of py-spy: signals, heartbeats and the watchdog, checks of steps and of ranks,
# episodes that can be replayed, checkpoints. Of the wrappers around the environments, only their own lines count.
SURVIVING = re.compile(
    r"StepCheck\.|SeededEnv\.reset|RunKeeper|Experiment\.finished|"
    r"ding_lite/(?:utils/ranks/(?:heartbeat|watchdog)|utils/checkpoint/\w+)\.py|"
    r"ding_lite/envs/(?:seeded_env|restorable)\.py:\d+\)$"
)
WAITING = re.compile(r"ding_lite/utils/ranks/machine_group\.py")


def run_tree(
    tree: Path, task: str, ranks: int, args: argparse.Namespace, code: str = "", options: Sequence[str] = ()
) -> dict[str, Any]:
    """Train with a tree's package, in an empty directory, after `code`; return what its meter says."""
    overrides = [NO_CHECKPOINTS, *options] + (["env.manager.num_threads=1"] if task.startswith("pong") else [])
    words = [
        "--task",
        task,
        "--threads",
        "1",
        "--steps",
        str(round(STEPS[task] * args.scale)),
        "--seed",
        str(args.seed),
    ]
    words += [word for option in overrides for word in ("--option", option)]
    script = str(tree / "tests" / "benchmarks" / "ours.py")
    with tempfile.TemporaryDirectory() as folder:
        result, shim = Path(folder, "result.json"), Path(folder, "shim.py")
        shim.write_text(f"{code}\nimport runpy; runpy.run_path({script!r}, run_name='__main__')\n")
        command = [sys.executable, str(shim), *words, "--result", str(result)]
        if ranks > 1:
            options = [f"--nproc_per_node={ranks}", "--master_addr=127.0.0.1", f"--master_port={free_port()}"]
            command = [sys.executable, "-m", "torch.distributed.run", *options, *command[1:]]
        command = ["chrt", "--fifo", "10", *command] if args.realtime else command
        done = finish(start(command, env={"PYTHONPATH": str(tree)}, cwd=folder), timeout=600)
        if not result.exists():
            raise SideError(f"{tree}: no result (status {done.returncode}):\n{done.stderr[-2000:]}")
        return json.loads(result.read_text())


def compare(name: str, ranks: int, sides: Any, args: argparse.Namespace) -> str:
    """Run both sides in turns, whichever comes first taking turns too; return a line of the table."""
    pairs = []
    for number in range(args.pairs):
        args.seed = number
        order = (0, 1) if number % 2 == 0 else (1, 0)
        results = {side: sides[side]() for side in order}
        pairs.append((results[0], results[1]))
    cells = []
    for rate in ("env_steps_per_s", "env_steps_per_cpu_s"):
        ratios = sorted(now[rate] / before[rate] for before, now in pairs)
        rates = [f"{statistics.median(pair[side][rate] for pair in pairs):.0f}" for side in (0, 1)]
        median = statistics.median(ratios)
        cells += [*rates, f"{median:.3f} ({ratios[0]:.3f}-{ratios[-1]:.3f})", "yes" if median >= GOAL else "NO"]
    note = load_note([result for pair in pairs for result in pair]) if ranks == 1 else "-"
    return f"| {name} | {ranks} | {' | '.join(cells)} | {note} |"


def checkpoint_share(task: str, seconds: float) -> str:
    """Train a while with a full replay buffer, save, and return a line of the table."""
    from ding_lite.run.experiment import Experiment
    from ding_lite.run.setup import prepare_run
    from tests.benchmarks.ours import make_config
    from tests.benchmarks.settings import TASKS, DQNTask, limit_threads

    limit_threads(1)
    setting = TASKS[task]
    full = [f"policy.random_collect_size={setting.buffer_size}"] if isinstance(setting, DQNTask) else []
    with tempfile.TemporaryDirectory() as folder:
        config = make_config(f"{folder}/run", setting, full)
        limits = {"max_train_iter": 10**9, "max_env_step": 10**9}
        setup = prepare_run(config, 0, overrides=(NO_CHECKPOINTS,), limits=limits)
        experiment = Experiment(setup, setup.create_policy())
        replay = experiment.fill_replay_buffer() if full else None
        begin = time.perf_counter()
        while time.perf_counter() - begin < seconds:
            samples = experiment.collect()
            if replay is not None:
                replay.push(samples)
                experiment.learn(experiment.sample(replay), replay.update)
            else:
                experiment.learn(experiment.policy.batches(samples))
        trained = (time.perf_counter() - begin) / experiment.learner.train_iter * 10_000
        begin = time.perf_counter()
        experiment._keeper.save()
        saved = time.perf_counter() - begin
        size = sum(path.stat().st_size for path in Path(folder, "run", "ckpt").iterdir()) / 2**20
        experiment.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)  # without a last evaluation
    share = saved / (trained + saved)
    return f"| {task} | {trained:.1f} | {saved:.2f} | {size:.0f} | {share:.2%} | {'yes' if share <= 0.02 else 'NO'} |"


def stack_share(path: Path) -> str:
    """Count the samples of the training loop in a file of py-spy; return a line of the table."""
    counts: Counter[str] = Counter()
    for line in path.read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        if "Experiment." in stack:  # else another thread, or before the loop
            kind = "surviving" if SURVIVING.search(stack) else "waiting" if WAITING.search(stack) else "training"
            counts[kind] += int(count)
    total = counts.total()
    if not total:
        raise SideError(f"{path}: no sample of a training loop; write it by `py-spy record --format raw`.")
    share = counts["surviving"] / total
    reached = "yes" if share <= 0.02 else "NO"
    return f"| {path} | {total} | {counts['waiting'] / total:.1%} | {share:.2%} | {reached} |"


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, metavar="TREE", help="compare with the tree before")
    parser.add_argument("--switches", nargs="*", choices=SWITCHES, help="compare with and without these (none: all)")
    parser.add_argument("--checkpoints", action="store_true", help="what checkpoints take")
    parser.add_argument("--stacks", nargs="+", type=Path, default=(), metavar="FILE", help="read stacks of py-spy")
    parser.add_argument("--only", nargs="+", choices=list(STEPS), default=list(STEPS), metavar="TASK")
    parser.add_argument("--ranks", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of measured steps")
    parser.add_argument("--realtime", action="store_true", help="start runs of one rank by chrt, before all other load")
    args = parser.parse_args()
    if args.before is None and args.switches is None and not args.checkpoints and not args.stacks:
        parser.error("nothing to do: give --before TREE, --switches, --checkpoints or --stacks FILE")
    return args


def main() -> None:
    """Print the tables."""
    args = parse()
    cases = [(task, ranks) for task, ranks in CASES if task in args.only and ranks in args.ranks]
    rates = "before, steps/s | now | ratio | reached | before, steps/CPU s | now | ratio | reached"
    if args.before or args.switches is not None:
        print(f"| task | ranks | {rates} | others |\n" + 11 * "|---" + "|")
    tree = args.before.resolve() if args.before else ROOT
    for task, ranks in cases:
        if args.before:
            sides = [partial(run_tree, at, task, ranks, args) for at in (tree, ROOT)]
            print(compare(task, ranks, sides, args), flush=True)
        for switch in (args.switches or SWITCHES) if args.switches is not None else ():
            sides = [partial(run_tree, ROOT, task, ranks, args, *off) for off in (SWITCHES[switch], ("", ()))]
            print(compare(f"{task}, {switch}", ranks, sides, args), flush=True)
    if args.stacks:
        print("| stacks | samples | waiting for the other ranks | surviving | at most 2 % |\n" + 5 * "|---" + "|")
        print("\n".join(map(stack_share, args.stacks)))
    if args.checkpoints:
        print("\n| task | 10,000 iterations, s | checkpoint, s | MiB | share | at most 2 % |\n" + 6 * "|---" + "|")
        for task in args.only:
            command = [sys.executable, "-c", f"import {__spec__.name} as b; print(b.checkpoint_share({task!r}, 10.0))"]
            done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
            print(done.stdout.strip() or done.stderr[-2000:], flush=True)


if __name__ == "__main__":
    main()
