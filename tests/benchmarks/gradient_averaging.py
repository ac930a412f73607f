"""Averaging gradients on two ranks of one thread: our ``FlatParameters`` against torch's DistributedDataParallel.

``python -m tests.benchmarks.gradient_averaging``. Backward plus averaging of the Nature CNN, batch 32, then whole
learning steps of DQN (``policy.data_parallel``) with that network and with CartPole's; gloo; every way in turn within
one run, the slower rank counts. Goal: our best takes no longer than torch's best.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

BATCH, SHAPE = 32, (4, 84, 84)
BACKWARD = "backward and averaging"
LEARNING = {"pong_dqn": 1, "cartpole_dqn": 20}  # whole learning steps, and how many for one backward of a round
# Overrides of the policy's config, and whether gradients may be in shared memory.
LEARNING_WAYS: dict[str, tuple[list[str], bool]] = {
    "ours, shared memory": ([], True),
    "ours, one all-reduce": ([], False),
    "torch DDP": (["policy.data_parallel=ddp"], False),
    "torch DDP, static graph": (["policy.data_parallel=ddp", "policy.ddp.static_graph=True"], False),
    "torch DDP, bp_update_sync=False": (["policy.bp_update_sync=False"], False),
    "no averaging": ([], False),
}


def make_ways(channels_last: bool) -> dict[str, Callable[[], float]]:
    """Each way's timed step, in seconds: clear the gradients, go backward, average. The forward pass is not counted."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    from ding_lite.utils.ranks.flat_parameters import FlatParameters
    from tests.benchmarks.networks import q_body

    torch.manual_seed(0)
    layout = torch.channels_last if channels_last else torch.contiguous_format
    obs = torch.rand(BATCH, *SHAPE).to(memory_format=layout)
    reference = q_body("pong_dqn").to(memory_format=layout)  # type: ignore[call-overload]

    def timed(forward: Any, clear: Callable[[], None], average: Callable[[], None]) -> Callable[[], float]:
        def step() -> float:
            loss = forward(obs).square().mean()
            start = time.perf_counter()
            clear()
            loss.backward()
            average()
            return time.perf_counter() - start

        return step

    def torch_way(**options: Any) -> Callable[[], float]:
        model = DistributedDataParallel(copy.deepcopy(reference), **options)
        return timed(model, model.zero_grad, lambda: None)

    def our_way(**options: Any) -> Callable[[], float]:
        model = copy.deepcopy(reference)
        flat = FlatParameters(model, **options)
        return timed(model, flat.zero_grad, flat.average_grad)

    alone = copy.deepcopy(reference)
    return {
        "torch DDP": torch_way(),
        "torch DDP, bucket views": torch_way(gradient_as_bucket_view=True),
        "ours, shared memory": our_way(share_memory=True),
        "ours, flat": our_way(),
        "backward alone": timed(alone, alone.zero_grad, lambda: None),
    }


def make_learning_steps(task_name: str) -> dict[str, Callable[[], float]]:
    """Each way's timed learning step of DQN on one batch, in seconds: loss, backward, average, check, Adam, target."""
    import torch

    from ding_lite.config import compile_config
    from ding_lite.policy import DQNPolicy
    from ding_lite.utils.ranks import machine_group as groups
    from tests.benchmarks.networks import LogitNetwork
    from tests.benchmarks.settings import TASKS

    task = TASKS[task_name]
    shape = SHAPE if task.pong else (4,)
    size, draw = task.batch_size, torch.randn
    batch = {
        **{key: (draw(size, *shape) * 50).byte() if task.pong else draw(size, *shape) for key in ("obs", "next_obs")},
        "action": torch.randint(2, (size,)),
        "reward": draw(size),
        "done": torch.rand(size) < 0.1,
        "value_gamma": torch.full((size,), task.gamma),
    }
    main = dict(policy=task.policy_config() | {"multi_gpu": True})
    create = dict(env=dict(env_id="CartPole-v1"), policy=dict(type="dqn"))

    create_memory = groups.create_memory

    def make_step(name: str, overrides: list[str], shared: bool) -> Callable[[], float]:
        cfg = compile_config((main, create), model_given=True, overrides=overrides)
        groups.create_memory = create_memory if shared else lambda length: None
        policy = DQNPolicy(cfg.policy, LogitNetwork(task_name))
        if name == "no averaging":
            policy._optimizer.flat.average_grad = lambda: None  # type: ignore[method-assign]

        def step() -> float:
            start = time.perf_counter()
            policy.learn(batch)
            return time.perf_counter() - start

        return step

    return {name: make_step(name, *options) for name, options in LEARNING_WAYS.items()}


def measure(ways: dict[str, Callable[[], float]], rounds: int, steps: int) -> dict[str, list[float]]:
    """Return the slower rank's median seconds of a step, by way and round; three rounds warm up."""
    import torch

    times: dict[str, list[float]] = {name: [] for name in ways}
    for round_number in range(rounds + 3):
        for name, step in ways.items():
            own = torch.tensor([step() for _ in range(steps)]).median()
            torch.distributed.all_reduce(own, torch.distributed.ReduceOp.MAX)
            if round_number >= 3:
                times[name].append(own.item())
    return times


def worker(args: argparse.Namespace) -> None:
    """One rank."""
    import torch

    from ding_lite.utils.ranks.collectives import get_rank
    from ding_lite.utils.ranks.context import DDPContext

    torch.set_num_threads(1)
    with DDPContext():
        found = {BACKWARD: measure(make_ways(args.channels_last), args.rounds, args.steps)}
        for task_name, factor in LEARNING.items():
            found[task_name] = measure(make_learning_steps(task_name), args.rounds, args.steps * factor)
        if get_rank() == 0:
            Path(args.worker).write_text(json.dumps(found))
        # torch's DistributedDataParallel must go before the group: as its last owner it can wait for a thread for ever.
        gc.collect()


def report(title: str, times: dict[str, list[float]]) -> None:
    """Print the table, and the ratio of the best ways round by round."""
    print(f"\n| {title} | milliseconds, median | quartiles |\n|---|---|---|")
    for name, values in times.items():
        low, middle, high = (1000 * q for q in statistics.quantiles(values, n=4))
        print(f"| {name} | {middle:.2f} | {low:.2f}-{high:.2f} |")
    best = {
        side: min((name for name in times if name.startswith(side)), key=lambda name: statistics.median(times[name]))
        for side in ("ours", "torch")
    }
    ratios = [ours / theirs for ours, theirs in zip(times[best["ours"]], times[best["torch"]], strict=True)]
    ratio = statistics.median(ratios)
    print(f"\n{best['ours']} / {best['torch']}: {ratio:.2f} of the time, round by round (goal: 1 or less)")


def main() -> None:
    """Start the ranks and print what they found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=25, help="each round times every way in turn")
    parser.add_argument("--steps", type=int, default=5, help="steps of one way in a round")
    parser.add_argument("--channels-last", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        worker(args)
        return
    import tempfile

    from tests.distributed.launcher import launch

    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "times.json")
        words = ["-m", "tests.benchmarks.gradient_averaging", *sys.argv[1:], "--worker", str(result)]
        done = launch(words, nproc=args.ranks, timeout=600, fresh=True)
        if not result.exists():
            raise SystemExit(f"no result (exit status {done.returncode}):\n{done.stderr[-2000:]}")
        for name, times in json.loads(result.read_text()).items():
            report(name if name == BACKWARD else f"learning step, {name}", times)


if __name__ == "__main__":
    main()
