"""Two ranks of one thread against one rank of one thread, in turns.

    python -m tests.benchmarks.scaling [--only NAME ...] [--modes each shared apart] [--pairs 3]

The real command with dizoo's config files, learning included, without evaluations and checkpoints. `each`: every rank
has the batch and the samples of one process. `shared`: the ranks divide them, so that both sides take the same learning
steps. `apart`: as many runs of one process at once, which never wait for each other: the machine's own bound of `each`.
The rate is read from the run's own records: env steps, or learner iterations offline. Every rank needs a free core.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.hashes import record_data
from tests.benchmarks.sides import spread
from tests.distributed.launcher import ROOT, finish, start

CARTPOLE = "dizoo/classic_control/cartpole/config/cartpole_{}_config.py"
OVERRIDES = (
    *("env.stop_value=None", "exp_name=run", "policy.cuda=False", "policy.num_threads=1"),
    *("policy.eval.evaluator.eval_freq=1000000000", "env.n_evaluator_episode=1", "env.evaluator_env_num=1"),
    "policy.learn.learner.hook.save_ckpt_after_iter=1000000000",
)
OFFLINE = ("policy.collect.data_path=cartpole.npz", "policy.collect.data_type=npz", "policy.learn.train_epoch=1000000")
ATARI = ("env.manager.num_threads=1", "env.max_episode_steps=2000")


class Run(NamedTuple):
    """A task.

    Attributes:
        config: its config file.
        limit: the command's limit of one process, about ten seconds of work.
        every: learner iterations between two records.
        goals: the ratios to reach, each and shared; None: no goal.
        overrides: what differs from the file.
    """

    config: str
    limit: tuple[str, int]
    every: int
    goals: tuple[float | None, float | None]
    overrides: tuple[str, ...] = ()


def _cartpole(kind: str, steps: int, every: int, shared: float | None = 0.95) -> Run:
    return Run(CARTPOLE.format(kind), ("max_env_step", steps), every, (1.6, shared))


RUNS = {
    "cartpole_dqn": _cartpole("dqn", 30_000, 500),
    "cartpole_ppo": _cartpole("ppo", 80_000, 100),
    "cartpole_a2c": _cartpole("a2c", 250_000, 100),
    "cartpole_pg": _cartpole("pg", 250_000, 5),
    "cartpole_bc": Run(CARTPOLE.format("bc"), ("max_train_iter", 20_000), 500, (1.6, None), OFFLINE),
    "pong_dqn": Run(
        "dizoo/atari/pong_dqn_ddp_config.py",
        ("max_env_step", 6_000),
        *(20, (1.6, 1.5), (*ATARI, "policy.random_collect_size=1000")),
    ),
}


def rate(run: Run, ranks: int, mode: str, options: list[str]) -> float:
    """Run the command in an empty directory, or `ranks` of them at once; return env steps or iterations a second."""
    name, limit = run.limit
    grows = ranks if mode == "each" and name == "max_env_step" else 1
    words = [sys.executable, "-m", "ding_lite", "-c", str(ROOT / run.config), "-s", "0"]
    if ranks > 1 and mode != "apart":
        words += ["--nproc", str(ranks)]
        words += ["--divide"] if mode == "shared" else ["policy.multi_gpu=True"]
    words += [*OVERRIDES, *run.overrides, f"policy.learn.learner.hook.log_show_after_iter={run.every}"]
    words += [*options, f"{name}={limit * grows}"]
    with ExitStack() as stack:
        count = ranks if mode == "apart" else 1
        folders = [stack.enter_context(tempfile.TemporaryDirectory()) for _ in range(count)]
        for folder in folders:
            record_data(Path(folder), rows=20_000)
        env = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        started = [start(words, env=env, cwd=folder) for folder in folders]
        for process in started:
            done = finish(process, timeout=600)
            if done.returncode:
                raise SystemExit(f"{' '.join(words)}: exit status {done.returncode}\n{done.stderr[-2000:]}")
        rates = [_recorded_rate(Path(folder, "run/metrics.jsonl"), name) for folder in folders]
    return sum(rates) * (ranks if mode == "each" and name == "max_train_iter" else 1)


def _recorded_rate(path: Path, limit: str) -> float:
    """Env steps or learner iterations a second, whichever the limit counts, from a run's records."""
    count = "envstep" if limit == "max_env_step" else "train_iter"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines = [line for line in lines if "train/total_loss" in line]
    first, last = lines[len(lines) // 10], lines[-1]  # without the beginning
    return (last[count] - first[count]) / (last["time"] - first["time"])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", default=list(RUNS), choices=RUNS)
    parser.add_argument("--modes", nargs="+", choices=["each", "shared", "apart"], default=["each", "shared"])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--option", action="append", default=[], help="config override, key=value; repeatable")
    args = parser.parse_args()
    print("| task | batch and samples | one rank, a second | ranks | all, a second | ratio | goal |")
    print("|---|---|---|---|---|---|---|")
    for name in args.only:
        for mode in args.modes:
            ranks = (1, args.ranks)
            pairs = [[rate(RUNS[name], number, mode, args.option) for number in ranks] for _ in range(args.pairs)]
            one, many = (f"{statistics.median(side):,.0f}" for side in zip(*pairs, strict=True))
            goal = dict(zip(("each", "shared"), RUNS[name].goals, strict=True)).get(mode) or "-"
            ratio = spread([second / first for first, second in pairs])
            print(f"| {name} | {mode} | {one} | {args.ranks} | {many} | {ratio} | {goal} |", flush=True)


if __name__ == "__main__":
    main()
