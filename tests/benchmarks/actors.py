"""What actors give where an environment is slow, and what a rollout and weights cost on their way.

    python -m tests.benchmarks.actors [--actors 1 4 16] [--seconds 20] [--sleep 0.02]

Runs DQN on an environment whose step only sleeps, and prints env steps a second, the same relative to the smallest
number of actors, and the memory of an actor (its proportional set size, in which shared pages are divided among those
that share them); then the processor time of an idle actor, and bytes and microseconds of a rollout block and of weights
through Ray's object store.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch

from ding_lite.actors.actor_process import Actor
from ding_lite.actors.actors import connect
from ding_lite.entry import Callback, serial_pipeline
from ding_lite.model import DQN

N_SAMPLE = 64  # env steps of a rollout


class Sleeping(gymnasium.Env[np.ndarray, np.integer[Any]]):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (8,), np.float32)
    action_space = gymnasium.spaces.Discrete(4)

    def __init__(self, cfg: dict[str, Any]) -> None:
        self.sleep = cfg["sleep"]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 8).astype(np.float32), {}

    def step(self, action: Any) -> Any:
        time.sleep(self.sleep)
        return self.np_random.uniform(-1, 1, 8).astype(np.float32), 0.0, False, False, {}


class Idle(Actor):
    def processor_time(self) -> float:
        return time.process_time()


class Meter(Callback):
    """Waits until every actor has delivered, then counts env steps for some seconds."""

    def __init__(self, actors: int, seconds: float) -> None:
        self.actors, self.seconds, self.begin = actors, seconds, (0.0, 0)
        self.collects, self.rate, self.lag, self.memory = 0, 0.0, 0.0, 0.0

    def after_collect(self, run: Any, figures: Any) -> None:
        now = time.monotonic()
        seats = run.collector._seats
        if not self.begin[0]:
            if all(seat.last_obs is not None for seat in seats):
                self.collects += 1
            if self.collects > 2 * self.actors:
                self.begin = (now, run.collector.envstep)
                run.collector.figures()
        elif now - self.begin[0] > self.seconds:
            self.rate = (run.collector.envstep - self.begin[1]) / (now - self.begin[0])
            self.lag = run.collector.figures()["actors/lag"]
            self.memory = actors_memory() / self.actors
            run.stop()


def actors_memory() -> float:
    """Return the proportional set size of all actors of this machine, in MiB."""
    total = 0
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            if (path / "comm").read_text().startswith("ray::Actor"):
                lines = (path / "smaps_rollup").read_text().splitlines()
                total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def measure(actors: int, seconds: float, sleep: float) -> Meter:
    meter, folder = Meter(actors, seconds), tempfile.mkdtemp()
    env = {"collector_env_num": 1, "evaluator_env_num": 1, "n_evaluator_episode": 1, "max_episode_steps": 1000}
    hook = {"log_show_after_iter": 10**6, "save_ckpt_after_iter": 10**6}
    policy = {
        "model": {"encoder_hidden_size_list": [64, 64]},
        "collect": {"n_sample": N_SAMPLE, "actors": actors},
        "learn": {"update_per_collect": 1, "batch_size": 32, "learner": {"hook": hook}},
        "eval": {"evaluator": {"eval_freq": 10**6, "eval_after": 10**6}},
    }
    config = ({"exp_name": f"{folder}/run", "env": env, "policy": policy}, {"policy": {"type": "dqn"}})
    setting = (Sleeping, [{"sleep": sleep}], [{"sleep": 0.0}])
    serial_pipeline(config, env_setting=setting, callbacks=[meter])
    return meter


def through_store(ray: Any, tree: dict[str, np.ndarray], number: int = 50) -> tuple[int, float, float]:
    """Return the bytes of a tree, and the median microseconds to put it into the object store and to get a copy."""
    puts, gets = [], []
    for _ in range(number):
        start = time.perf_counter()
        ref = ray.put(tree)
        middle = time.perf_counter()
        copies = {key: value.copy() for key, value in ray.get(ref).items()}
        puts.append(middle - start)
        gets.append(time.perf_counter() - middle)
        del copies
    return sum(v.nbytes for v in tree.values()), 1e6 * float(np.median(puts)), 1e6 * float(np.median(gets))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--actors", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--sleep", type=float, default=0.02)
    args = parser.parse_args()
    rows: list[tuple[int, float]] = []
    for actors in args.actors:
        meter = measure(actors, args.seconds, args.sleep)
        first = rows[0] if rows else (actors, meter.rate)
        gain = meter.rate / first[1] * first[0] / actors
        rows.append((actors, meter.rate))
        print(
            f"{actors:3} actors: {meter.rate:7.1f} env steps/s, {gain:.2f} of linear, mean lag {meter.lag:.1f}, "
            f"{meter.memory:.0f} MiB each",
            flush=True,
        )
    with ExitStack() as stack:
        ray = connect(1, 1, stack)
        mlp = {key: value.numpy() for key, value in DQN(8, 4, [64, 64]).state_dict().items()}
        nature = {key: value.numpy() for key, value in DQN([4, 84, 84], 6).state_dict().items()}
        idle = ray.remote(Idle).remote()
        begin = ray.get(idle.processor_time.remote())
        time.sleep(args.seconds)
        share = (ray.get(idle.processor_time.remote()) - begin) / args.seconds
        print(f"idle actor: {100 * share:.2f} % of a core")
        trees: dict[str, dict[str, np.ndarray]] = {
            "block of CartPole, 32 steps": {"obs": np.zeros((32, 4), np.float32), "reward": np.zeros(32, np.float32)},
            "block of Atari, 96 steps": {"obs": np.zeros((96, 4, 84, 84), np.uint8)},
            "weights, MLP": mlp,
            "weights, Atari network": nature,
        }
        for name, tree in trees.items():
            size, put, get = through_store(ray, tree)
            print(f"{name}: {size:,} bytes, put {put:.0f} us, get and copy {get:.0f} us")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
