"""What each offline policy makes of data of different quality: ``python -m tests.benchmarks.offline_scores``.

SAC is trained on a task (``--task``), and four data sets are taken from its run, as D4RL defines them (Fu et al. 2020,
arXiv:2004.07219): `replay`, all steps until an evaluation first reached a third of the way from random play to an
expert's; `medium`, what that policy plays; `expert`, what the best policy of the run plays; `mixed`, both in equal
parts. Each policy then learns from each of them, by its config file in dizoo, for the same number of iterations. Its
last weights play episodes that no run has seen. A score is 0 for random play and 100 for the expert.

What is done already stays in the folder and is not done again, so a stopped benchmark loses nothing.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch

from ding_lite.entry import Callback, collect_demo_data, evaluate_checkpoint, serial_pipeline, serial_pipeline_offline
from ding_lite.offline.files import open_columns, write_columns
from ding_lite.utils import save_checkpoint
from ding_lite.utils.tree import tree_map
from tests.benchmarks.settings import limit_threads
from tests.distributed.launcher import ROOT

POLICIES = ("bc", "td3_bc", "iql", "cql", "edac", "bcq", "dt")
DATA = ("replay", "medium", "mixed", "expert")
CHECKED = 1000  # seed of the episodes that a policy plays in the end


@dataclass(frozen=True)
class Task:
    """An environment, how SAC learns it, and how the policies learn from SAC's data.

    Attributes:
        sac: Config file of SAC under dizoo.
        offline: Config files of the policies, with a place for the name.
        expert: Return of an expert, which only says where `medium` is.
        env_steps: Length of SAC's run.
        options: Overrides of SAC's config.
        rows: Steps of a recorded data set.
        iterations: Of each policy.
        batch_size: Of each policy.
        overrides: Of the config of a policy: how its paper prepares the data of such tasks.
    """

    env_id: str
    sac: str
    offline: str
    expert: float
    env_steps: int
    options: tuple[str, ...]
    rows: int
    iterations: int
    batch_size: int
    overrides: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def config_of(self, policy: str) -> str:
        """Return the path of a policy's config file."""
        return str(ROOT / "dizoo" / (self.sac if policy == "sac" else self.offline.format(policy)))


PENDULUM = "classic_control/pendulum/config/pendulum_{}_config.py"
ROBOT = (
    *("policy.learn.learning_rate_q=3e-4", "policy.learn.learning_rate_policy=3e-4", "policy.learn.auto_alpha=True"),
    *("env.collector_env_num=8", "policy.collect.n_sample=8", "policy.learn.update_per_collect=8"),
    *("policy.random_collect_size=5000", "policy.eval.evaluator.eval_freq=5000"),
    *("env.evaluator_env_num=10", "env.n_evaluator_episode=10"),
)
ROBOTS = {"hopper": ("Hopper-v5", 3_000.0), "halfcheetah": ("HalfCheetah-v5", 6_000.0)}
TASKS = {
    "pendulum": Task(
        env_id="Pendulum-v1",
        sac=PENDULUM.format("sac"),
        offline=PENDULUM,
        expert=-150.0,
        env_steps=40_000,
        options=(*("policy.eval.evaluator.eval_freq=20", "env.evaluator_env_num=20", "env.n_evaluator_episode=20"),),
        rows=20_000,
        iterations=4_000,
        batch_size=128,
    ),
    **{
        name: Task(
            env_id=env_id,
            sac=f"mujoco/config/{name}_sac_config.py",
            offline="mujoco/config/hopper_{}_config.py",
            expert=expert,
            env_steps=200_000,
            options=ROBOT,
            rows=100_000,
            iterations=10_000,
            batch_size=256,
            overrides={"iql": ("policy.collect.reward_norm=iql_locomotion",), "td3_bc": ("env.norm_obs=True",)},
        )
        for name, (env_id, expert) in ROBOTS.items()
    },
}


class Keep(Callback):
    """Saves the policy of the first evaluation that reaches a return, and all steps that were played until then."""

    def __init__(self, folder: Path, medium: float) -> None:
        self._folder, self._medium = folder, medium

    def after_evaluation(self, run: Any, info: Mapping[str, Any]) -> None:
        """Save both."""
        if info["return_mean"] < self._medium or (self._folder / "medium.pth.tar").exists():
            return
        save_checkpoint(str(self._folder / "medium.pth.tar"), {"policy": run.policy.state_dict()})
        replay = run._replay
        places = torch.arange(replay.count()).view(-1, replay.ring.num_envs).T.flatten()  # by environment
        rows = replay.view.gather(replay.ring, {"index": places})
        columns = {key: rows[key] for key in ("obs", "action", "reward", "done", "next_obs", "traj_flag")}
        columns["traj_flag"].view(replay.ring.num_envs, -1)[:, -1] = True
        columns = tree_map(lambda leaf: leaf.numpy(), columns)
        write_columns(str(self._folder / "replay.hdf5"), columns, {"action_units": "policy"})


def play_at_random(env_id: str, episodes: int = 100) -> float:
    """Return the mean return of uniform actions."""
    env, returns = gymnasium.make(env_id), []
    env.action_space.seed(0)
    for episode in range(episodes):
        env.reset(seed=CHECKED + episode)
        total, over = 0.0, False
        while not over:
            _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    return statistics.fmean(returns)


def train_expert(task: Task, folder: Path, medium: float) -> None:
    """Train SAC; `Keep` saves what is needed of the return `medium`."""
    words, callbacks = [f"exp_name={folder}/sac", "env.stop_value=None", *task.options], [Keep(folder, medium)]
    shutil.rmtree(folder / "sac", ignore_errors=True)
    (folder / "medium.pth.tar").unlink(missing_ok=True)
    serial_pipeline(task.config_of("sac"), 0, max_env_step=task.env_steps, overrides=words, callbacks=callbacks)


def record(task: Task, folder: Path) -> None:
    """Train SAC and write the data sets; `returns.json` has the mean returns of random play and of both policies."""
    run, random = folder / "sac", play_at_random(task.env_id)
    if not (run / "result.json").exists():
        train_expert(task, folder, random + (task.expert - random) / 3)
    weights = {"medium": folder / "medium.pth.tar", "expert": run / "ckpt" / "ckpt_best.pth.tar"}
    parts = []
    for name, path in weights.items():
        target = folder / f"{name}.hdf5"
        target.unlink(missing_ok=True)
        config = str(run / "total_config.py")
        collect_demo_data(config, 1, task.rows, str(target), state_dict_path=str(path), explore=True)
        with open_columns(str(target)) as file:
            parts.append({key: file.read(key)[: task.rows // 2] for key in file.names})
            parts[-1]["traj_flag"][-1] = True
    mixed = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    write_columns(str(folder / "mixed.hdf5"), mixed, {"action_units": "env"})
    returns = {"random": random, **{name: play(run, path) for name, path in weights.items()}}
    (folder / "returns.json").write_text(json.dumps(returns))


def play(run: Path, weights: Path, episodes: int = 100) -> float:
    """Return the mean return of a checkpoint over new episodes."""
    return evaluate_checkpoint(str(run / "total_config.py"), str(weights), CHECKED, episodes)["return_mean"]


def learn(task: Task, policy: str, data: str, seed: int, folder: Path, last: int, cuda: bool) -> float:
    """Learn from a data set for `last` iterations; return the mean return of the last weights."""
    run = folder / f"{policy}_{data}_{seed}_{last}"
    if not (run / "return.json").exists():
        shutil.rmtree(run, ignore_errors=True)
        words = [f"exp_name={run}", "env.stop_value=None", "policy.num_threads=1", "policy.learn.train_epoch=100000"]
        words += [f"policy.cuda={cuda}", f"env.env_id={task.env_id}", f"policy.learn.batch_size={task.batch_size}"]
        words += ["policy.collect.data_type=hdf5", f"policy.collect.data_path={folder}/{data}.hdf5"]
        words += [f"policy.eval.evaluator.eval_freq={last}", *task.overrides.get(policy, ())]
        serial_pipeline_offline(task.config_of(policy), seed, max_train_iter=last, overrides=words)
        (run / "return.json").write_text(json.dumps(play(run, run / "ckpt" / f"iteration_{last}.pth.tar")))
    return json.loads((run / "return.json").read_text())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=TASKS, default="pendulum")
    parser.add_argument("--policies", nargs="+", default=POLICIES)
    parser.add_argument("--data", nargs="+", choices=DATA, default=DATA)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--iterations", type=int, help="of each policy, instead of the task's")
    parser.add_argument("--cuda", action="store_true", help="learn on a GPU")
    parser.add_argument("--folder", type=Path, default=Path("offline_scores"), help="with one for each task")
    args = parser.parse_args()
    limit_threads(1)
    task, folder = TASKS[args.task], args.folder.resolve() / args.task
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "returns.json").exists():
        record(task, folder)
    told = json.loads((folder / "returns.json").read_text())
    last = args.iterations or task.iterations
    low, span = told["random"], told["expert"] - told["random"]
    print(f"{task.env_id}: " + ", ".join(f"{name} {value:.1f}" for name, value in told.items()))
    print(f"| policy | {' | '.join(args.data)} |\n|---{'|---' * len(args.data)}|")
    for policy in args.policies:
        cells = []
        for data in args.data:
            returns = [learn(task, policy, data, seed, folder, last, args.cuda) for seed in args.seeds]
            cells.append(", ".join(f"{100 * (value - low) / span:.0f}" for value in returns))
        print(f"| `{policy}` | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
