"""What a learner iteration consists of, and ranks that sleep through it: for `scale_model`.

    python -m tests.benchmarks.scale_steps --task NAME

trains a task for seconds in the current directory and writes a `Step` into the file `step`.
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import math
import statistics
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from easydict import EasyDict
from torch import Tensor, nn

from tests.distributed.launcher import ROOT

WAYS: dict[str, dict[str, Any]] = {  # keys of `policy`
    "flat": {"data_parallel": "flat"},
    "ddp": {"data_parallel": "ddp", "ddp": {}},
    "ddp, 1 MiB": {"data_parallel": "ddp", "ddp": {"bucket_cap_mb": 1.0}},
    "ddp, fp16": {"data_parallel": "ddp", "ddp": {"comm_hook": "fp16"}},
    # Its all-reduces follow each other in gloo's thread; that of unused parameters would come between them.
    "ddp, powersgd": {"data_parallel": "ddp", "ddp": {"comm_hook": "powersgd", "find_unused_parameters": False}},
}
PONG = (
    *("dizoo/atari/pong_dqn_ddp_config.py", "policy.random_collect_size=300", "policy.learn.batch_size=32"),
    *("policy.learn.update_per_collect=4", "env.max_episode_steps=200", "env.collector_max_episode_steps=200"),
    "policy.eval.evaluator.eval_after=0",
)
TASKS = {  # config, what differs, learner iterations, and steps of a whole evaluation for one that is measured
    "mlp": (
        (
            *("dizoo/classic_control/cartpole/config/cartpole_dqn_config.py", "policy.model.dueling=False"),
            *("policy.model.encoder_hidden_size_list=256,256", "policy.model.head_layer_num=0"),
        ),
        *(1000, 1),
    ),
    "nature": (
        (*PONG, "policy.model.encoder.layer_norm=False", "policy.model.encoder_hidden_size_list=32,64,64,512"),
        *(120, 10),
    ),
    "impala": (
        (*PONG, "policy.model.encoder=impala", "policy.model.encoder_hidden_size_list=16,32,32,256"),
        *(40, 10),
    ),
}


Spans = dict[str, list[tuple[float, float]]]  # begin and end of each call of a method


class Step(NamedTuple):
    """One learner iteration of a task on one rank, in seconds.

    Attributes:
        collect, evaluation, checkpoint: shares of one iteration.
        ready: when the gradient of each parameter is there, after the beginning of backward.
        shapes: of the parameters.
        env_steps: of one iteration.
        iterations: between two collects.
    """

    collect: float
    forward: float
    backward: float
    update: float
    evaluation: float
    checkpoint: float
    ready: list[float]
    shapes: list[list[int]]
    env_steps: float
    iterations: int

    @property
    def alone(self) -> float:
        """Seconds of an iteration without other ranks."""
        return sum(self[:6])

    @property
    def sizes(self) -> list[int]:
        """Bytes of the parameters."""
        return [4 * math.prod(shape) for shape in self.shapes]


def watched_run(name: str) -> tuple[Any, Spans, list[tuple[int, float]]]:
    """Train a task, and return its policy, when methods ran, and when the gradient of which parameter was there."""
    from ding_lite.config import read_pair
    from ding_lite.entry import serial_pipeline
    from ding_lite.policy import Policy
    from ding_lite.run.keeper import RunKeeper
    from ding_lite.torch_utils.optimizer_step import OptimizerStep
    from ding_lite.worker.collector import SampleCollector
    from ding_lite.worker.evaluator import Evaluator

    (path, *words), iterations, _ = TASKS[name]
    spans: Spans = defaultdict(list)
    marks: list[tuple[int, float]] = []

    def watch(owner: Any, method: str, key: str) -> None:
        original = getattr(owner, method)

        @functools.wraps(original)
        def timed(*args: Any, **kwargs: Any) -> Any:
            begin = time.process_time()  # of the only thread that computes: others' work does not count
            result = original(*args, **kwargs)
            spans[key].append((begin, time.process_time()))
            return result

        setattr(owner, method, timed)

    create: Any = OptimizerStep.__init__

    def create_with_hooks(step: OptimizerStep, *args: Any, **kwargs: Any) -> None:
        create(step, *args, **kwargs)
        for index, parameter in enumerate(step.flat.parameters):
            parameter.register_post_accumulate_grad_hook(
                lambda _, index=index: marks.append((index, time.process_time()))
            )

    setattr(OptimizerStep, "__init__", create_with_hooks)  # noqa: B010  (a type checker sees another signature)
    watch(SampleCollector, "collect", "collect")
    watch(Policy, "learn", "learn")
    watch(Tensor, "backward", "backward")
    watch(OptimizerStep, "_update", "update")
    watch(Evaluator, "eval", "evaluation")
    watch(RunKeeper, "save", "checkpoint")
    overrides = ["exp_name=run", "env.stop_value=None", "policy.cuda=False", "policy.multi_gpu=False", *words]
    pair = read_pair(ROOT / path)
    return serial_pipeline(pair, seed=0, max_train_iter=iterations, overrides=overrides), spans, marks


def measure_step(name: str) -> Step:
    """Train for seconds in the current directory, and measure."""
    policy, spans, marks = watched_run(name)
    shapes = [list(parameter.shape) for parameter in policy._optimizer.flat.parameters]
    mark_BP = np.array(sorted(marks, key=lambda mark: mark[0])).reshape(len(shapes), -1, 2)[:, :, 1].T
    ready_BP = mark_BP - np.array([begin for begin, _ in spans["backward"]])[:, None]
    half = {key: [end - begin for begin, end in calls[len(calls) // 2 :]] for key, calls in spans.items()}
    begins = np.array([begin for begin, _ in spans["learn"]])
    cfg, each = policy._cfg, policy._cfg.learn.update_per_collect
    learn = float(np.median(np.diff(begins)[len(begins) // 2 :]))  # with sampling; most follow another one at once
    seconds = {key: statistics.median(values) for key, values in half.items()}
    return Step(
        collect=seconds["collect"] / each,
        forward=learn - seconds["backward"] - seconds["update"],
        backward=seconds["backward"],
        update=seconds["update"],
        evaluation=TASKS[name][2] * seconds["evaluation"] / cfg.eval.evaluator.eval_freq,
        checkpoint=seconds["checkpoint"] / cfg.learn.learner.hook.save_ckpt_after_iter,
        ready=np.median(ready_BP[len(ready_BP) // 2 :], axis=0).tolist(),
        shapes=shapes,
        env_steps=cfg.collect.n_sample / each,
        iterations=each,
    )


# The ranks, which sleep while they would compute


class Layer(torch.autograd.Function):
    """A parameter of a network whose backward pass takes some time, and gives ones as the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, parameter: Tensor, seconds: float) -> Tensor:
        ctx.shape, ctx.seconds = parameter.shape, seconds
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        time.sleep(ctx.seconds)
        return grads[0], torch.ones(()).expand(ctx.shape), None


class Sleeper(nn.Module):
    """A network with the parameters of a task, and its `step`, which sleeps `slower` times as long as it computes."""

    def __init__(self, step: Step, way: str, slower: float) -> None:
        from ding_lite.gpu.data_parallel import OverlappedGradient
        from ding_lite.torch_utils.gradient import EagerGradient
        from ding_lite.torch_utils.nonfinite import StepCheck
        from ding_lite.utils.ranks.flat_parameters import FlatParameters

        super().__init__()
        self.layers = nn.ParameterList([torch.zeros(shape) for shape in step.shapes])
        self._waits = [slower * seconds for seconds in gaps(step)]
        self._before, self._after = slower * (step.collect + step.forward), slower * step.update
        cfg = EasyDict(multi_gpu=True, **WAYS[way])
        self.flat = FlatParameters(self, share_memory=way == "flat")
        self._gradient = (EagerGradient if way == "flat" else OverlappedGradient)(
            self, cfg, self.flat, StepCheck("stop", self)
        )
        if way == "ddp, powersgd" and isinstance(self._gradient, OverlappedGradient):
            self._gradient._held = self._gradient._create()
            self._gradient._held[1]._comm_hooks[0][1].start_powerSGD_iter = 2  # torch compresses from the 1000th on

    def forward(self, batch: Any) -> tuple[Tensor, dict[str, Tensor]]:
        x = torch.zeros(1, requires_grad=True)
        for parameter, seconds in zip(self.layers, self._waits, strict=True):
            x = Layer.apply(x, parameter, seconds)  # type: ignore[no-untyped-call]  # torch's
        return x.sum(), {}

    def step(self) -> float:
        """Return the seconds of an iteration."""
        from ding_lite.utils.ranks.collectives import allreduce_data

        begin = time.perf_counter()
        time.sleep(self._before)
        allreduce_data(1)  # the counts of a collect
        loss, _ = self._gradient.function(self.forward)({})
        self._gradient.compute(loss, weight=1.0)
        time.sleep(self._after)
        return time.perf_counter() - begin


def gaps(step: Step) -> list[float]:
    """Return what backward takes before the gradient of each parameter is there, after that of the next one."""
    return [max(mine - following, 0.0) for mine, following in zip(step.ready, [*step.ready[1:], 0.0], strict=True)]


def run_rank(folder: Path) -> None:
    """Carry out the cases of a plan; rank 0 asks for links and writes the seconds of each."""
    from ding_lite.utils.ranks.collectives import get_rank
    from ding_lite.utils.ranks.context import DDPContext

    torch.set_num_threads(1)
    plan = json.loads((folder / "plan").read_text())
    with DDPContext(timeout=600):
        for number, (link, slower, what, way, repeats) in enumerate(plan):
            if get_rank() == 0:
                (folder / "next").write_text(json.dumps([link, slower]))
                (folder / "next").rename(folder / "link")
            time.sleep(0.3)  # until the relay has read it
            dist.barrier()
            network = None if isinstance(what, int) else Sleeper(Step(*what), way, slower)
            data = torch.zeros(what // 4) if isinstance(what, int) else None
            times = []
            for _ in range(repeats + 3):
                dist.barrier()
                begin = time.perf_counter()
                seconds = network.step() if network else (dist.all_reduce(data), time.perf_counter() - begin)[1]
                times.append(seconds / slower)
            if get_rank() == 0:
                (folder / f"found{number}").write_text(json.dumps(times[3:]))
            del network
            gc.collect()  # torch's DistributedDataParallel must go before the group


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", choices=TASKS)
    parser.add_argument("--rank", metavar="DIR")
    args, _ = parser.parse_known_args()
    if args.rank:
        run_rank(Path(args.rank))
    else:
        Path("step").write_text(json.dumps(measure_step(args.task)))


if __name__ == "__main__":
    main()
