"""Parameters after short runs, as hashes: a rebuild that changes no result prints the same table before and after.

    python -m tests.benchmarks.hashes [--tree TREE] [--only NAME ...] [--ranks 1 2]

`--tree` runs another checkout's package instead of this one's. Hashes depend on the machine and its torch: compare
tables of one machine alone.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from tests.distributed.launcher import ROOT, finish, free_port, start

CONTROL = "dizoo/classic_control"


class Run(NamedTuple):
    """One short run: the config file below the tree, the pipeline, and what differs from the file."""

    config: str
    pipeline: str
    overrides: tuple[str, ...]


def _cartpole(kind: str, pipeline: str, *overrides: str) -> Run:
    return Run(f"{CONTROL}/cartpole/config/cartpole_{kind}_config.py", pipeline, overrides)


def _pendulum(kind: str) -> Run:
    return Run(
        f"{CONTROL}/pendulum/config/pendulum_{kind}_config.py",
        "serial_pipeline_offline",
        (
            "policy.learn.batch_size=64",
            "policy.learn.train_epoch=4",
            "policy.collect.data_path=pendulum.npz",
            "policy.collect.data_type=npz",
        ),
    )


def _hybrid(kind: str) -> Run:
    limits = ("max_env_step=1600", "policy.learn.batch_size=64")
    return Run(f"dizoo/gym_hybrid/config/gym_hybrid_{kind}_config.py", "serial_pipeline", limits)


OFFLINE = (
    *("policy.learn.batch_size=64", "policy.learn.train_epoch=6"),
    *("policy.collect.data_path=cartpole.npz", "policy.collect.data_type=npz"),
)
RUNS = {
    "dqn": _cartpole("dqn", "serial_pipeline", "max_env_step=1500"),
    "dqn_prioritized": _cartpole(
        *("dqn", "serial_pipeline", "max_env_step=1500", "policy.nstep=3"),
        *("policy.priority=True", "policy.priority_IS_weight=True", "policy.learn.target_theta=0.05"),
    ),
    "dqn_noisy": _cartpole("dqn", "serial_pipeline", "max_env_step=800", "policy.noisy_net=True"),
    "dqn_pong": Run(
        "dizoo/atari/pong_dqn_ddp_config.py",
        "serial_pipeline",
        (
            *("max_env_step=1152", "policy.random_collect_size=96", "env.manager.num_threads=1"),
            *(
                "env.max_episode_steps=150",
                "env.collector_max_episode_steps=150",
                "env.n_evaluator_episode=2",
                "env.evaluator_env_num=2",
            ),
            *("policy.other.replay_buffer.replay_buffer_size=800", "policy.learn.update_per_collect=3"),
        ),
    ),
    "ppo": _cartpole("ppo", "serial_pipeline_onpolicy", "max_env_step=3000"),
    "a2c": _cartpole("a2c", "serial_pipeline_onpolicy", "max_env_step=3000"),
    "pg": _cartpole("pg", "serial_pipeline_onpolicy", "max_env_step=3000"),
    "impala": _cartpole("impala", "serial_pipeline", "max_env_step=3000"),
    "ppo_continuous": Run(
        f"{CONTROL}/pendulum/config/pendulum_ppo_config.py",
        "serial_pipeline_onpolicy",
        ("max_env_step=3000", "policy.collect.n_sample=504"),
    ),
    "ppo_offpolicy": _cartpole("ppo_offpolicy", "serial_pipeline", "max_env_step=3000"),
    "bc": _cartpole("bc", "serial_pipeline_offline", *OFFLINE),
    "discrete_cql": _cartpole("discrete_cql", "serial_pipeline_offline", *OFFLINE),
    "cql": _pendulum("cql"),
    "td3_bc": _pendulum("td3_bc"),
    "sac": Run(
        f"{CONTROL}/pendulum/config/pendulum_sac_config.py",
        "serial_pipeline",
        ("max_env_step=800", "policy.random_collect_size=200"),
    ),
    "discrete_sac": _cartpole("sac", "serial_pipeline", "max_env_step=800", "policy.random_collect_size=200"),
    "iql": _pendulum("iql"),
    "sqn": _cartpole("sqn", "serial_pipeline", "max_env_step=800"),
    "acer": _cartpole("acer", "serial_pipeline", "max_env_step=1500"),
    "pdqn": _hybrid("pdqn"),
    "paddpg": _hybrid("ddpg"),
}


def record_data(folder: Path, rows: int = 600) -> None:
    """Write data sets of random numbers in the shapes of CartPole and Pendulum."""
    rng = np.random.default_rng(0)
    for name, width, high in (("cartpole", 4, None), ("pendulum", 3, 1.0)):
        cut = np.arange(rows) % 40 == 39
        action = rng.integers(2, size=rows) if high is None else rng.uniform(-high, high, (rows, 1)).astype(np.float32)
        obs, next_obs = rng.normal(size=(2, rows, width)).astype(np.float32)
        columns: dict[str, Any] = {"obs": obs, "action": action, "next_obs": next_obs}
        columns |= {"reward": rng.normal(size=rows).astype(np.float32), "done": cut & (rng.random(rows) < 0.5)}
        units = np.array(json.dumps({"action_units": "policy"}))
        np.savez(folder / f"{name}.npz", **columns, traj_flag=cut, attributes=units)


def hash_of(checkpoint: Path) -> str:
    """Return a hash of all parameters and buffers of a checkpoint's model, in the order of their names."""
    state = torch.load(checkpoint, weights_only=True)["state"]["policy"]["model"]
    digest = hashlib.sha256(b"".join(state[key].contiguous().numpy().tobytes() for key in sorted(state)))
    return digest.hexdigest()[:16]


def measure(tree: Path, run: Run, ranks: int) -> str:
    """Do a run in an empty directory, and return the hash of its last checkpoint, or the end of what went wrong."""
    limits = [word for word in run.overrides if "." not in word.partition("=")[0]]
    common = ["env.stop_value=None", "exp_name=run", f"policy.multi_gpu={ranks > 1}"]
    overrides = [*common, *(word for word in run.overrides if word not in limits)]
    code = (
        f"from ding_lite.entry import {run.pipeline} as pipeline\n"
        "from ding_lite.utils import DDPContext\n"
        "with DDPContext():\n"
        f"    pipeline({str(tree / run.config)!r}, seed=0, overrides={overrides!r}, {', '.join(limits)})\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        record_data(Path(folder))
        script = Path(folder, "script.py")
        script.write_text(code)
        launcher = ["-m", "torch.distributed.run", f"--nproc_per_node={ranks}", "--master_addr=127.0.0.1"]
        launcher = [*launcher, f"--master_port={free_port()}"] if ranks > 1 else []
        command = [sys.executable, *launcher, str(script)]
        done = finish(start(command, env={"PYTHONPATH": str(tree)}, cwd=folder), timeout=600)
        checkpoint = Path(folder, "run/ckpt/ckpt_last.pth.tar")
        return hash_of(checkpoint) if checkpoint.exists() else (done.stderr.strip().splitlines() or ["nothing"])[-1]


def rows(args: argparse.Namespace) -> Iterator[str]:
    """Yield the table's lines."""
    for name in args.only:
        hashes = [measure(args.tree.resolve(), RUNS[name], ranks) for ranks in args.ranks]
        yield f"{name:<18}" + "  ".join(f"{text:<16}" for text in hashes)


def main() -> None:
    """Print a line for each run: its name, and a hash for each number of ranks."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tree", type=Path, default=ROOT, help="another checkout, whose package runs")
    parser.add_argument("--only", nargs="+", default=list(RUNS), choices=RUNS)
    parser.add_argument("--ranks", nargs="+", type=int, default=[1, 2])
    for row in rows(parser.parse_args()):
        print(row, flush=True)


if __name__ == "__main__":
    main()
