"""Pong's main job on two ranks, and on one rank with two actors: env steps a second, and where the time goes.

    python -m tests.benchmarks.actors_pong [--seconds 60] [--rollout 64]

All sides learn from 32 samples after every four env steps, with eight environments. After the random steps, the clock
runs for some seconds. Seconds of rank 0 in a collect, in learning (sampling included) and elsewhere are shares of that;
processor time is that of all ranks and of all actors, in seconds for 1,000 env steps.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ding_lite.entry import Callback, launch, serial_pipeline
from ding_lite.utils import allreduce_data, get_world_size

UPDATES_PER_STEP = 1 / 4  # learner iterations for an env step of all ranks
FIRST = 8_000  # env steps before the clock starts; the first 5,000 are random


class Clock(Callback):
    """Measures a run for some seconds, and ends it."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.spent = seconds, {"collect": 0.0, "learn": 0.0}
        self.begin: tuple[float, int, float, float] | None = None
        self.figures: dict[str, float] = {}

    def on_start(self, run: Any) -> None:
        run.collector.collect = self._timed(run.collector.collect, "collect")
        run.learner.train = self._timed(run.learner.train, "learn")

    def _timed(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.spent[name] += time.perf_counter() - start

        return call

    def after_collect(self, run: Any, figures: Any) -> None:
        moment = time.perf_counter(), run.collector.envstep, time.process_time(), actors_time()
        if self.begin is None:
            if run.collector.envstep > FIRST:
                self.begin, self.spent = moment, dict.fromkeys(self.spent, 0.0)
        elif moment[0] - self.begin[0] > self.seconds:
            seconds, steps, own, actors = (now - then for now, then in zip(moment, self.begin, strict=True))
            cpu = allreduce_data({"ranks": own})["ranks"]
            self.figures = {"rate": steps / seconds, "ranks": 1000 * cpu / steps, "actors": 1000 * actors / steps}
            self.figures |= {name: spent / seconds for name, spent in self.spent.items()}
            self.seconds = float("inf")
            run.stop()


def actors_time() -> float:
    """Return the processor time of all actors of this machine, in seconds."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            name, _, fields = path.read_text().rpartition(")")
            if "(ray::Actor" in name:
                ticks += sum(map(int, fields.split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(folder: str, seconds: float, words: list[str]) -> dict[str, float]:
    """Train on this rank until the clock has run, and return the figures."""
    clock, config = Clock(seconds), "dizoo/atari/pong_dqn_ddp_config.py"
    off = ["policy.eval.evaluator.eval_freq=1000000", "policy.eval.evaluator.eval_after=1000000"]
    off += ["env.evaluator_env_num=1", "env.n_evaluator_episode=1", "env.max_episode_steps=100"]
    words = [f"exp_name={folder}/run", f"policy.multi_gpu={get_world_size() > 1}", *off, *words]
    serial_pipeline(config, seed=0, overrides=words, callbacks=[clock])
    return clock.figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rollout", type=int, default=64, help="env steps of an actor's rollout")
    args = parser.parse_args()
    actors = ["policy.collect.actors=2", f"policy.collect.n_sample={args.rollout}", "policy.learn.batch_size=32"]
    actors += [f"policy.learn.update_per_collect={round(args.rollout * UPDATES_PER_STEP)}"]
    actors += ["policy.random_collect_size=5000", "policy.other.replay_buffer.replay_buffer_size=100000"]
    sides: dict[str, tuple[int, list[str]]] = {
        "2 ranks": (2, []),
        "1 rank of 1 thread, 2 actors": (1, [*actors, "policy.num_threads=1"]),
        "1 rank of 2 threads, 2 actors": (1, [*actors, "policy.num_threads=2"]),
    }
    for name, (ranks, words) in sides.items():
        with tempfile.TemporaryDirectory() as folder:
            told = launch(measure, ranks, args=(folder, args.seconds, words))
        other = 1 - told["collect"] - told["learn"]
        print(
            f"{name}: {told['rate']:.0f} env steps/s; collect {told['collect']:.0%}, learn {told['learn']:.0%}, other "
            f"{other:.0%}; processor seconds for 1,000 steps: ranks {told['ranks']:.2f}, actors {told['actors']:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
