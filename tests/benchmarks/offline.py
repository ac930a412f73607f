"""Offline training's updates a second, against DI-engine's pipeline: ``python -m tests.benchmarks.offline``.

The sides take turns on the same file of 50,000 random CartPole steps, with the same network, batch and threads, each
through its own pipeline; the ratio is taken within each pair. Ours says, too, how long training waited for data.
``--loader`` measures the loader alone, under a step of 0.5 ms that only spins. README.md tells how to get DI-engine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))  # last: DI-engine brings a package `dizoo` of its own

from tests.benchmarks.meter import Finished, machine_cpu, session_cpu, write_result
from tests.benchmarks.settings import limit_threads

TRANSITIONS, BATCH_SIZE, STEP_SECONDS = 50_000, 64, 0.0005
WARM_UPDATES = 1000
GOAL, MOST_WAITING = 2.0, 0.05
TASKS: dict[str, dict[str, Any]] = {  # networks and rates of DI-engine's own CartPole configs
    "discrete_cql": {
        "model": {"encoder_hidden_size_list": [128, 128, 64], "num_quantiles": 64},
        "learn": {"learning_rate": 0.001, "target_update_freq": 100, "kappa": 1.0, "min_q_weight": 4.0},
        "nstep": 1,
    },
    "bc": {
        "model": {"encoder_hidden_size_list": [64, 64, 128]},
        "learn": {"learning_rate": 0.01, "learner": {"hook": {"save_ckpt_after_iter": 10**9}}},
        "continuous": False,
    },
}


def record(path: Path) -> None:
    """Write steps of random actions, as DI-engine's recorder lays them out."""
    import gymnasium
    import h5py
    import numpy as np

    env = gymnasium.make_vec("CartPole-v1", 50, vectorization_mode="sync", vector_kwargs={"autoreset_mode": "SameStep"})
    env.action_space.seed(0)
    obs, rows = env.reset(seed=0)[0], list[dict[str, Any]]()
    for _ in range(TRANSITIONS // 50):
        action = env.action_space.sample()
        last, (obs, reward, done, _, info) = obs.copy(), env.step(action)
        following = obs.copy()
        for n in np.flatnonzero(done):
            following[n] = info["final_obs"][n]
        rows.append({"obs": last, "action": action, "reward": reward[:, None], "done": done, "next_obs": following})
    with h5py.File(path, "w") as file:
        for key in rows[0]:
            column = np.concatenate([row[key] for row in rows])
            file[key] = column.astype(np.float32) if column.dtype == np.float64 else column


class UpdateMeter:
    """Counts optimizer steps from outside, and ends the run ``seconds`` after the first ``WARM_UPDATES``."""

    def __init__(self, args: argparse.Namespace) -> None:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        self.args, self.updates, self.parameters = args, 0, 0
        self.loader: Any = None
        register_optimizer_step_post_hook(self._count)

    def _count(self, optimizer: Any, *_: Any) -> None:
        self.updates += 1
        now = time.perf_counter()
        if self.updates == WARM_UPDATES:
            self.begin = (now, session_cpu(), machine_cpu(), self.loader.waited if self.loader else 0.0)
        elif self.updates > WARM_UPDATES and now - self.begin[0] >= self.args.seconds:
            seconds, own = now - self.begin[0], session_cpu() - self.begin[1]
            result = {
                "side": self.args.side,
                "parameters": self.parameters,
                "updates_per_s": (self.updates - WARM_UPDATES) / seconds,
                "other_cores": max(0.0, machine_cpu() - self.begin[2] - own) / seconds,
            }
            if self.loader:
                result["waiting"] = (self.loader.waited - self.begin[3]) / seconds
            write_result(self.args.result, result)
            raise Finished


def make_config(args: argparse.Namespace) -> tuple[Any, Any]:
    """``(main_config, create_config)`` for either side; nothing is evaluated but once, before the clock starts."""
    from easydict import EasyDict

    task = TASKS[args.task]
    learn = {"train_epoch": 10**6, "batch_size": BATCH_SIZE, **task["learn"]}
    collect = {"data_type": "hdf5", "data_path": args.data}
    policy = task | {"model": {"obs_shape": 4, "action_shape": 2, **task["model"]}, "learn": learn, "collect": collect}
    policy |= {"cuda": False, "discount_factor": 0.97, "eval": {"evaluator": {"eval_freq": 10**9}}}
    env = {"collector_env_num": 1, "evaluator_env_num": 1, "n_evaluator_episode": 1, "stop_value": 10**9}
    kind = {"type": "cartpole", "import_names": ["dizoo.classic_control.cartpole.envs.cartpole_env"]}
    main_config = EasyDict({"exp_name": "run", "env": env, "policy": policy})
    create_config = EasyDict({"env": kind, "env_manager": {"type": "base"}, "policy": {"type": args.task}})
    if args.side == "di_engine" and args.task == "bc":  # its defaults are SGD and a dueling head
        main_config.policy.learn.optimizer, main_config.policy.model.dueling = "Adam", False
    return main_config, create_config


def run_ours(args: argparse.Namespace) -> None:
    """Train through our pipeline until the meter says stop."""
    from ding_lite.entry import serial_pipeline_offline
    from ding_lite.policy import Policy
    from ding_lite.utils import DDPContext
    from ding_lite.worker import OfflineLoader
    from tests.benchmarks.networks import count_parameters

    meter = UpdateMeter(args)
    init_loader, init_policy = OfflineLoader.__init__, Policy.__init__

    def note_loader(self: Any, *rest: Any, **keywords: Any) -> None:
        init_loader(self, *rest, **keywords)
        meter.loader = self

    def note_policy(self: Any, *rest: Any, **keywords: Any) -> None:
        init_policy(self, *rest, **keywords)
        meter.parameters = count_parameters(self.model)

    OfflineLoader.__init__, Policy.__init__ = note_loader, note_policy  # type: ignore[method-assign]
    overrides = [f"policy.num_threads={args.threads}"]
    with suppress(Finished), DDPContext():
        serial_pipeline_offline(make_config(args), seed=0, overrides=overrides)


def run_di_engine(args: argparse.Namespace) -> None:
    """Train through DI-engine's pipeline until the meter says stop."""
    import numpy as np

    if not hasattr(np, "bool8"):  # gym 0.25 still asks for it
        np.bool8 = np.bool_  # type: ignore[attr-defined]
    from ding.entry import serial_pipeline_offline
    from ding.policy.base_policy import Policy

    from tests.benchmarks.networks import count_parameters

    meter = UpdateMeter(args)
    create_model = Policy._create_model

    def note_model(self: Any, *rest: Any, **keywords: Any) -> Any:
        model = create_model(self, *rest, **keywords)
        meter.parameters = count_parameters(model)
        return model

    Policy._create_model = note_model
    with suppress(Finished):
        serial_pipeline_offline(make_config(args), seed=0)


def run_loader(data: str, seconds: float) -> None:
    """Print how long a training process that does nothing but spin waits for data."""
    from ding_lite.worker import OfflineLoader, read_dataset

    dataset = read_dataset(data)
    for workers in (0, 1, 2):
        loader, count = OfflineLoader(dataset, BATCH_SIZE, 0, workers), 0
        next(loader.epoch_batches())
        before, begin, machine, own = loader.waited, time.perf_counter(), machine_cpu(), session_cpu()
        while time.perf_counter() - begin < seconds:
            for _ in loader.epoch_batches():
                end, count = time.perf_counter() + STEP_SECONDS, count + 1
                while time.perf_counter() < end:
                    pass
        passed = time.perf_counter() - begin
        others = (machine_cpu() - machine - session_cpu() + own) / passed
        waiting, pace = (loader.waited - before) / passed, passed / count * 1e6
        print(f"{workers} workers: waiting {waiting:.2%}, {pace:.0f} us a batch, other processes {others:.1f} cores")
        loader.close()


def run_side(side: str, task: str, data: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Run this file for one side, in an empty directory, with its own interpreter."""
    from tests.benchmarks.sides import START_SECONDS, SideError, peer_python
    from tests.distributed.launcher import finish, start

    python = sys.executable if side == "ours" else peer_python(side)
    env = {"OMP_NUM_THREADS": str(args.threads)} | ({"PYTHONPATH": ""} if side != "ours" else {})
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "result.json")
        words = [str(python), __file__, "--side", side, "--task", task, "--data", str(data), "--result", str(result)]
        words += ["--seconds", str(args.seconds), "--threads", str(args.threads)]
        with suppress(subprocess.TimeoutExpired):
            done = finish(start(words, env=env, cwd=folder), START_SECONDS + 2 * args.seconds)
        if not result.exists():
            raise SideError(f"{side} gave no result:\n{(done.stdout + done.stderr)[-3000:]}")
        return json.loads(result.read_text())


def compare(task: str, data: Path, args: argparse.Namespace) -> str:
    """Run pairs of sides; return a line of the table."""
    from tests.benchmarks.sides import load_note, spread

    pairs = [[run_side(side, task, data, args) for side in ("ours", "di_engine")] for _ in range(args.pairs)]
    ours, peer = zip(*pairs, strict=True)
    ratios = [a["updates_per_s"] / b["updates_per_s"] for a, b in pairs]
    waiting = max(result["waiting"] for result in ours)
    rates = [statistics.median(result["updates_per_s"] for result in side) for side in (ours, peer)]
    reached = "yes" if statistics.median(ratios) >= GOAL and waiting < MOST_WAITING else "NO"
    sizes = [side[0]["parameters"] for side in (ours, peer)]
    if sizes[0] != sizes[1]:
        raise SystemExit(f"{task}: networks of {sizes} parameters cannot be compared.")
    return (
        f"| {task} | {sizes[0]} | {rates[0]:.0f} | {rates[1]:.0f} | {spread(ratios)} | {waiting:.1%} | {reached} "
        f"| {load_note([*ours, *peer])} |"
    )


def main() -> None:
    """Print the table, or be a side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=sorted(TASKS), help="default: all")
    parser.add_argument("--loader", action="store_true", help="the loader alone")
    parser.add_argument("--threads", type=int, default=1, help="torch threads")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="measured window of each run")
    for internal in ("--side", "--data", "--result"):
        parser.add_argument(internal, help=argparse.SUPPRESS)
    args = parser.parse_args()
    limit_threads(args.threads)
    if args.side:
        {"ours": run_ours, "di_engine": run_di_engine}[args.side](args)
        return
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "random.hdf5")
        record(data)
        if args.loader:
            run_loader(str(data), args.seconds)
            return
        if not os.environ.get("PEER_DI_ENGINE_PYTHON"):
            raise SystemExit("PEER_DI_ENGINE_PYTHON is not set (see tests/benchmarks/README.md).")
        lines = [compare(task, data, args) for task in ([args.task] if args.task else TASKS)]
    print("| policy | parameters | ours, updates/s | DI-engine | ratio | waiting | reached | others |")
    print(8 * "|---" + "|")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
