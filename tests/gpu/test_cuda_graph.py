"""Functions that a GPU replays as CUDA graphs, in runs too; skipped where there is no GPU."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ding_lite.gpu.cuda_graph import WARM_UP, CudaGraphs
from ding_lite.policy import DQNPolicy
from ding_lite.torch_utils.networks import checksum_networks
from ding_lite.utils.tree import tree_map
from ding_lite.worker import PrioritizedReplayBuffer, ReplayBuffer, UniformReplayBuffer
from tests.policy.helpers import make_batch, make_cfg
from tests.run.helpers import run
from tests.worker.replay.history import History

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_a_replay_computes_what_the_function_does_without_calling_it() -> None:
    graphs, calls = CudaGraphs(), []

    def double(inputs: dict[str, Tensor]) -> Tensor:
        calls.append(inputs)
        return inputs["x"] * 2

    for number in range(6):
        x = torch.full((3,), float(number), device="cuda")
        assert graphs.run(double, {"x": x}).tolist() == [2.0 * number] * 3
    assert len(calls) == WARM_UP + 1
    assert graphs.run(double, {"x": torch.ones(2, device="cuda")}).tolist() == [2.0, 2.0], "another shape"
    assert graphs.run(double, {"x": x}, key="other").tolist() == [10.0] * 3


def test_a_function_that_decides_by_a_value_on_the_gpu_is_called_every_time() -> None:
    graphs = CudaGraphs()

    def absolute(x: Tensor) -> Tensor:
        return -x if x.sum() < 0 else x

    signs = [1.0, 1.0, 1.0, 1.0, -1.0, 1.0]
    assert [graphs.run(absolute, torch.full((1,), sign, device="cuda")).item() for sign in signs] == [1.0] * 6


def test_garbage_of_an_older_graph_is_not_freed_during_a_capture() -> None:
    class Garbage:
        """A graph that only the garbage collector frees."""

        def __init__(self) -> None:
            self.graphs, self.me = CudaGraphs(), self
            for _ in range(WARM_UP + 1):
                self.graphs.run(torch.neg, torch.ones(1, device="cuda"))

    def negate(x: Tensor) -> Tensor:
        holder.clear()
        _ = [[] for _ in range(10)]  # enough objects for the garbage collector to run
        return -x

    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(10):
            holder: list[Garbage] = []
            graphs = CudaGraphs()
            for _ in range(WARM_UP + 2):
                holder.append(Garbage())
                assert graphs.run(negate, torch.ones(1, device="cuda")).item() == -1.0
    finally:
        gc.set_threshold(*threshold)


def weights(*words: str, steps: int = 400) -> tuple[int, int]:
    policy = run("policy.cuda=True", *words, max_env_step=steps)
    return checksum_networks([policy.model])


def test_replay_in_the_memory_of_the_gpu_gives_the_same_batches(tmp_path: Path) -> None:
    runs = [
        weights(f"exp_name={tmp_path / device}", f"policy.other.replay_buffer.device={device}")
        for device in ("cpu", "cuda")
    ]
    assert runs[0] == runs[1]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("priority", [False, True])
def test_a_resumed_run_repeats_to_the_bit(tmp_path: Path, device: str, priority: bool) -> None:
    words = ["policy.deterministic=True", f"policy.other.replay_buffer.device={device}"]
    words += [f"policy.priority={priority}", f"policy.priority_IS_weight={priority}"]
    whole = weights(f"exp_name={tmp_path / 'whole'}", *words)
    weights(f"exp_name={tmp_path / 'parts'}", *words, steps=200)
    assert weights(f"exp_name={tmp_path / 'parts'}", *words, "policy.learn.resume_training=True") == whole


def test_a_learning_rate_that_changes_in_every_iteration_is_followed(tmp_path: Path) -> None:
    schedule = "{'type': 'linear', 'start': 1e-3, 'end': 1e-5, 'over': 200, 'by': 'iteration'}"
    words = [f"policy.learn.learning_rate={schedule}", "policy.deterministic=True"]
    runs = [weights(f"exp_name={tmp_path / graph}", *words, f"policy.cuda_graph={graph}") for graph in ("auto", "off")]
    assert runs[0] == runs[1]


class Reader(DQNPolicy):
    """Alternates two losses on one optimizer, which read what changes."""

    def _init_learn(self) -> None:
        super()._init_learn()
        self.mode, self.factors, self.offset = "mean", [1.0], None

    def _loss(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        loss, figures = super()._loss(batch)
        return (loss if self.mode == "mean" else -loss) * sum(self.factors) + (self.offset or 0.0), figures

    def _other(self, factor: float, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        return self._model(batch["obs"])["logit"].square().mean() * factor * (1 + self.iteration), {}

    def _forward_learn(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        loss = partial(self._other, 2.0) if self.iteration % 2 else self._loss
        return self._optimizer.step(loss, batch)


def test_losses_take_turns_and_follow_what_they_read() -> None:
    batch = tree_map(Tensor.cuda, make_batch(8))
    losses: list[list[float]] = []
    for graph in ("off", "auto"):
        torch.manual_seed(0)
        policy = Reader(make_cfg("cuda=True", f"cuda_graph={graph}"))
        changes = {8: ("mode", "minus"), 16: ("factors", [3.0]), 24: ("offset", 5.0), 32: ("mode", "mean")}
        losses.append([])
        for step in range(60):
            if step in changes:
                setattr(policy, *changes[step])
            if step == 40:
                policy.factors.append(1.0)
            losses[-1].append(policy.learn(batch)["total_loss"].item())
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    replayed = [graphs.func.__self__._recordings for graphs in policy._optimizer.gradient._known.values()]  # type: ignore[attr-defined]
    assert [len(recordings) for recordings in replayed] == [6, 0]  # the iteration changes in every step


def test_a_loss_that_reads_what_changes_in_every_step_is_called_in_every_step() -> None:
    class Counting(Reader):
        def _forward_learn(self, batch: dict[str, Any]) -> dict[str, Tensor]:
            return self._optimizer.step(partial(self._other, 1.0), batch)

        def _other(self, factor: float, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
            return self._model(batch["obs"])["logit"].mean() * 0 + self.iteration, {}

    policy, batch = Counting(make_cfg("cuda=True")), tree_map(Tensor.cuda, make_batch(8))
    assert [policy.learn(batch)["total_loss"].item() for _ in range(40)] == list(range(40))


@pytest.mark.parametrize("stack", [1, 4])
@pytest.mark.parametrize("kind", [UniformReplayBuffer, PrioritizedReplayBuffer])
def test_graphs_gather_the_batches_that_kernels_do(kind: Callable[..., ReplayBuffer], stack: int) -> None:
    batches: list[list[dict[str, Tensor]]] = []
    for graphs in (None, (CudaGraphs(), CudaGraphs())):
        history = History(num_envs=3, stack=stack)
        buffer = kind(300, num_envs=3, nstep=3, frame_stack=stack * (stack > 1), device="cuda", seed=1)
        buffer.graphs = graphs
        drawn = []
        for _ in range(40):  # the side table grows, and the ring is written more than once
            buffer.push(history.play(6))
            if buffer.count() >= 8:
                drawn += [tree_map(lambda leaf: leaf.clone(), batch) for batch in buffer.batches(8, 3)]
        batches.append(drawn)
    assert len(batches[0]) == len(batches[1]) > 50
    for eager, replayed in zip(*batches, strict=True):
        assert eager.keys() == replayed.keys()
        kept = ~eager["done"]  # the next observation is meaningless after the end
        assert torch.equal(eager.pop("next_obs")[kept], replayed.pop("next_obs")[kept])
        assert all(torch.equal(eager[key], replayed[key]) for key in eager)
