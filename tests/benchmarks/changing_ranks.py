"""Runs that change their number of ranks beside those that do not: ``python -m tests.benchmarks.changing_ranks DIR``.

Each seed of a config runs twice with ``--divide``, into ``DIR/steady`` by one rank, and into ``DIR/changing`` by 1, 2,
3, 1, 2, 3 ... ranks, of which each goes on for ``--every`` env steps. Words ``key=value`` change the config of both.
``tests.benchmarks.tables --add ranks DIR/changing --algorithm ...`` then adds the curves to docs/results/ranks.csv.

Pong's main job has the sizes of each of two ranks, and its unchanged runs are in docs/results/pong.csv:

    python -m tests.benchmarks.changing_ranks DIR -c dizoo/atari/pong_dqn_ddp_config.py --only changing -s 4 \
        --ranks 1 2 --every 20000 --steps 165000 env.stop_value=None env.collector_env_num=8 \
        policy.collect.n_sample=32 policy.learn.batch_size=32 policy.random_collect_size=5000 \
        policy.other.replay_buffer.replay_buffer_size=100000
"""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path

from tests.distributed.launcher import ROOT, finish, start

CONFIG = ROOT / "dizoo/classic_control/cartpole/config/cartpole_dqn_config.py"


def learn(args: argparse.Namespace, seed: int, folder: Path, every: int) -> None:
    """Train one seed, with another number of ranks after every so many env steps."""
    steps, ranks = range(every, args.steps + every, every), itertools.cycle(args.ranks)
    for limit, nproc in zip(steps, ranks, strict=False):
        words = ["resume", str(folder)]
        if limit == every:
            words = ["train", "-c", args.config, "-s", str(seed), "--divide", f"exp_name={folder}", *args.words]
        words += ["--nproc", str(nproc), f"max_env_step={min(limit, args.steps)}"]
        done = finish(start([sys.executable, "-m", "ding_lite", *words]), timeout=4 * 3600)
        if done.returncode:
            raise SystemExit(f"{' '.join(words)}: exit status {done.returncode}\n{done.stderr[-2000:]}")


def main() -> None:
    """Train all seeds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("-c", "--config", default=str(CONFIG))
    parser.add_argument("-s", "--seeds", type=int, nargs="+", default=list(range(5)))
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--every", type=int, default=4000)
    parser.add_argument("--steps", type=int, default=24_000)
    parser.add_argument("--only", choices=("changing", "steady"))
    parser.add_argument("words", nargs="*", metavar="key=value")
    args = parser.parse_intermixed_args()
    for seed in args.seeds:
        for kind, every in (("changing", args.every), ("steady", args.steps)):
            if args.only in (None, kind):
                learn(args, seed, args.folder / f"{kind}/seed{seed}", every)
        print(f"seed {seed}")


if __name__ == "__main__":
    main()
