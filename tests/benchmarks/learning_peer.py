"""What Stable-Baselines3 learns beside us, with equal settings: ``python -m tests.benchmarks.learning_peer``.

Both sides train on a task of ``settings.py`` for the same number of environment steps, in turns, seed by seed, and
neither evaluates meanwhile. Then the last policy, without exploration, plays new episodes of gymnasium's environment.
The driver runs this file with the interpreter of each side.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))  # for the peer's interpreter

from tests.benchmarks.settings import TASKS, QRDQNTask, Task, limit_threads

STEPS = {  # environment steps of a run
    "cartpole_qrdqn": 50_000,
    "pendulum_sac": 20_000,
    "pendulum_td3": 20_000,
    "halfcheetah_sac": 100_000,
    "halfcheetah_td3": 100_000,
}


def task_to_learn(name: str) -> Task:
    """A task of the rates' comparison; QR-DQN's epsilon is lower, so that it can balance for long."""
    task = TASKS[name]
    return replace(task, epsilon=0.05) if isinstance(task, QRDQNTask) else task


def train_ours(args: argparse.Namespace) -> tuple[float, list[float]]:
    """Seconds of the training, and the returns of new episodes."""
    from ding_lite.entry import evaluate_checkpoint, serial_pipeline
    from tests.benchmarks.compare import LIKE_SB3
    from tests.benchmarks.ours import make_config

    options = [*(LIKE_SB3 if args.task == "cartpole_qrdqn" else ()), *args.option]
    config = make_config(args.task, task_to_learn(args.task), options)
    with tempfile.TemporaryDirectory() as folder:
        config[0].exp_name = f"{folder}/run"
        began = time.perf_counter()
        serial_pipeline(config, seed=args.seed, max_env_step=args.steps)
        seconds = time.perf_counter() - began
        checkpoint = f"{folder}/run/ckpt/ckpt_last.pth.tar"
        info = evaluate_checkpoint(
            f"{folder}/run/total_config.py", checkpoint, seed=1000 + args.seed, n_episode=args.episodes
        )
    return seconds, [float(value) for value in info["returns"]]


def train_sb3(args: argparse.Namespace) -> tuple[float, list[float]]:
    """Seconds of the training, and the returns of new episodes."""
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import DummyVecEnv

    from tests.benchmarks.peer_sb3 import make_model, make_plain

    task = task_to_learn(args.task)
    make = partial(make_plain, task.env_id)
    model = make_model(task, DummyVecEnv([make] * task.num_envs), args.seed)
    began = time.perf_counter()
    model.learn(args.steps)
    seconds = time.perf_counter() - began
    env = DummyVecEnv([make])
    env.seed(1000 + args.seed)
    returns, _ = evaluate_policy(model, env, args.episodes, deterministic=True, return_episode_rewards=True)
    return seconds, [float(value) for value in returns]


SIDES = {"ours": train_ours, "sb3": train_sb3}


def run_side(args: argparse.Namespace, side: str, task: str, seed: int) -> dict[str, Any]:
    """Run one side in a process of its own, in an empty directory.

    Raises:
        RuntimeError: it failed; the message is what it printed.
    """
    from tests.benchmarks.sides import peer_python
    from tests.distributed.launcher import finish, start

    python = sys.executable if side == "ours" else peer_python(side)
    env = {"OMP_NUM_THREADS": "1"} | ({} if side == "ours" else {"PYTHONPATH": ""})
    options = [word for option in args.option for word in ("--option", option)] if side == "ours" else []
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "result.json")
        words = ["--side", side, "--task", task, "--seed", str(seed), "--steps", str(args.steps or STEPS[task])]
        words += ["--episodes", str(args.episodes), "--result", str(result), *options]
        done = finish(start([str(python), str(Path(__file__).resolve()), *words], env=env, cwd=folder), 4 * 3600)
        if done.returncode:
            raise RuntimeError(f"{side}, {task}, seed {seed}: {done.stderr[-2000:]}")
        return json.loads(result.read_text())


def parse() -> argparse.Namespace:
    """The command line of the driver and of a side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", help=f"of {', '.join(STEPS)}; all by default")
    parser.add_argument("--seeds", type=int, nargs="+", default=[*range(3)])
    parser.add_argument("--steps", type=int, help="environment steps, instead of each task's own")
    parser.add_argument("--episodes", type=int, default=100, help="of the evaluation afterwards")
    parser.add_argument(
        "--option", action="append", default=[], help="config override of our side, key=value; repeatable"
    )
    for word in ("--side", "--task", "--result"):
        parser.add_argument(word, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    unknown = set(args.tasks) - set(STEPS)
    if unknown:
        parser.error(f"unknown tasks {', '.join(sorted(unknown))}: expected some of {', '.join(STEPS)}")
    return args


def main() -> None:
    """Print the table, or be one side of it."""
    args = parse()
    if args.side:
        limit_threads(1)
        took, returned = SIDES[args.side](args)
        Path(args.result).write_text(json.dumps({"seconds": took, "return": statistics.fmean(returned)}) + "\n")
        return
    from tests.benchmarks.sides import PEERS, peer_python

    if peer_python("sb3") is None:
        raise SystemExit(f"{PEERS['sb3']} is not set (see tests/benchmarks/README.md).")
    print(f"Mean return of the last policy over {args.episodes} new episodes, a figure for each seed.\n")
    print("| task | thousand env steps | side | return | mean | seconds |\n" + 6 * "|---" + "|")
    for task in args.tasks or STEPS:
        results: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
        for seed in args.seeds:
            for side in SIDES:
                results[side].append(run_side(args, side, task, seed))
        for side, runs in results.items():
            each = ", ".join(f"{run['return']:.0f}" for run in runs)
            seconds = ", ".join(f"{run['seconds']:.0f}" for run in runs)
            mean = statistics.fmean(run["return"] for run in runs)
            steps = (args.steps or STEPS[task]) / 1000
            print(f"| {task} | {steps:g} | {side} | {each} | {mean:.0f} | {seconds} |", flush=True)


if __name__ == "__main__":
    main()
