"""torch's DistributedDataParallel in the place of our average: its options, on two real gloo processes.

That each policy takes the same step with it is in `test_parity`, numbers that are not finite in `test_nonfinite`.
"""

from __future__ import annotations

import json
import time
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ding_lite.gpu.data_parallel import OverlappedGradient
from ding_lite.policy import DQNPolicy
from ding_lite.utils import DDPContext, get_rank
from tests.distributed.launcher import launch
from tests.distributed.on_ranks import call_on_ranks
from tests.policy.helpers import make_batch, make_policy, parameter_hash

STEPS = 4
OPTIONS = {
    "flat": ["data_parallel=flat"],
    "ddp": [],
    "small_buckets": ["ddp.bucket_cap_mb=0.0001"],
    "unused": ["ddp.find_unused_parameters=True"],
    "static": ["ddp.static_graph=True"],
    "fp16": ["ddp.comm_hook=fp16"],
    "powersgd": ["ddp.comm_hook=powersgd"],
}

policies: dict[str, DQNPolicy] = {}  # of a rank, until its process has ended


class PartlyUsed(nn.Module):
    """Uses its second layer on rank 0 only."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(5, 3), nn.Linear(3, 3)

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        q_BA = self.first(obs)
        return {"logit": self.second(q_BA) if get_rank() == 0 else q_BA}


def create(*overrides: str, model: nn.Module | None = None) -> DQNPolicy:
    torch.manual_seed(get_rank())  # the policy makes the ranks alike
    return make_policy("multi_gpu=True", "data_parallel=ddp", *overrides, model=model)


def learn(policy: DQNPolicy) -> DQNPolicy:
    for step in range(STEPS):
        policy.learn(make_batch(8, 2 * step + get_rank()))
    return policy


def write_threads(path: Path) -> None:
    """Write which threads of gloo this process still has when it ends."""
    end = time.monotonic() + 5
    while (names := [name for name in thread_names() if "gloo" in name]) and time.monotonic() < end:
        time.sleep(0.01)  # an ended thread stays in the list for a moment
    path.write_text(json.dumps(names))


def thread_names() -> list[str]:
    return [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]


def run_all() -> dict[str, Any]:
    """Do everything on this rank; at the end, policies still own the group."""
    # finalizers that are left at exit run in reverse order, so this one runs after those of the policies
    weakref.finalize(run_all, write_threads, Path(f"threads{get_rank()}.json").absolute())
    policies.update({name: learn(create(*options)) for name, options in OPTIONS.items()})
    found: dict[str, Any] = {name: parameter_hash(policy.model) for name, policy in policies.items()}
    flat, fp16 = (policies[name]._optimizer.flat.parameter for name in ("flat", "fp16"))
    found["fp16_error"] = float((flat - fp16).abs().max() / flat.abs().max())
    found["wrapped"] = [
        name for name, policy in policies.items() if isinstance(policy._optimizer.gradient, OverlappedGradient)
    ]
    found["began_with"] = [name for name in thread_names() if "gloo" in name]
    return found


def fail() -> None:
    with DDPContext(timeout=30):
        learn(create(model=PartlyUsed()))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ddp")


@pytest.fixture(scope="module")
def found(folder: Path) -> list[dict[str, Any]]:
    return call_on_ranks(run_all, cwd=folder)


@pytest.mark.parametrize("name", OPTIONS)
def test_ranks_are_equal_to_the_bit_with_every_option(found: list[dict[str, Any]], name: str) -> None:
    assert found[0][name] == found[1][name]


@pytest.mark.parametrize("name", ["ddp", "small_buckets", "unused", "static"])
def test_the_step_is_that_of_our_average(found: list[dict[str, Any]], name: str) -> None:
    # halves are exact, so on two ranks a / 2 + b / 2 is (a + b) / 2 to the bit
    assert found[0][name] == found[0]["flat"]
    assert name in found[0]["wrapped"]
    assert "flat" not in found[0]["wrapped"]


def test_a_communication_hook_is_applied(found: list[dict[str, Any]]) -> None:
    assert found[0]["fp16"] != found[0]["flat"]
    assert 0 < found[0]["fp16_error"] < 1e-3  # 11 bits of a gradient, in steps of the learning rate, 0.001


def test_the_groups_threads_have_ended_before_the_interpreter_does(found: list[dict[str, Any]], folder: Path) -> None:
    assert all(each["began_with"] for each in found)
    assert [(folder / f"threads{rank}.json").read_text() for rank in range(2)] == ["[]", "[]"]


def test_a_parameter_that_a_rank_does_not_use_ends_the_job_with_the_option_to_set() -> None:
    done = launch(["-m", "tests.distributed.call", __name__, "fail"], timeout=60)
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if line.startswith("[rank 1]")]
    assert lines == [
        "[rank 1] policy.data_parallel='ddp': the loss does not use all parameters of the network. Set "
        "policy.ddp.find_unused_parameters=True."
    ]
