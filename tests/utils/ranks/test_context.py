"""What one process can see: the launch environment, flat parameters, and that without a group all is an identity."""

from __future__ import annotations

import copy
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from ding_lite.utils.ranks.collectives import (
    allreduce_data,
    get_local_rank,
    get_local_world_size,
    get_rank,
    get_world_size,
    to_ddp_config,
)
from ding_lite.utils.ranks.context import DDPContext
from ding_lite.utils.ranks.flat_parameters import FlatParameters
from ding_lite.utils.ranks.launch_environment import Launch, allow_descriptors, read_launch
from ding_lite.utils.registry import UserError
from tests.distributed.launcher import LAUNCH_VARIABLES


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in list(os.environ):
        if name in LAUNCH_VARIABLES or name.startswith("SLURM_") or name == "DING_LITE_TIMEOUT":
            monkeypatch.delenv(name)
    yield
    assert not dist.is_initialized()


def set_all(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


TORCH = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
MASTER = {"MASTER_ADDR": "node1", "MASTER_PORT": "1234"}


def limits_after(world_size: int, before: tuple[int, int], **who: bool) -> str:
    """Return the limits of open files that a process has after it prepared for ranks, or the error."""
    begin, end = os.pipe()
    child = os.fork()
    if not child:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
            allow_descriptors(world_size, **{"hosts_store": False, **who})
            text = str(resource.getrlimit(resource.RLIMIT_NOFILE))
        except UserError as error:
            text = str(error)
        os.write(end, text.encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(end)
    with os.fdopen(begin) as pipe:
        return pipe.read()


def test_the_limit_of_open_files_rises_with_the_ranks_or_is_named() -> None:
    assert limits_after(2, (1024, 4096)) == "(1024, 4096)"
    assert limits_after(1000, (1024, 4096)) == "(1512, 4096)"  # 64 + 1000 + 448
    assert limits_after(1000, (1024, 4096), hosts_store=True) == "(3512, 4096)"  # two connections of each rank more
    assert limits_after(1000, (1024, 1100)) == "(1100, 1100)"
    assert limits_after(1000, (1024, 1024)).startswith(
        "open files: 1000 ranks need 1064 in one process, but the system allows 1024 (`ulimit -Hn`)."
    )
    assert limits_after(1000, (1024, 4096), launcher_hosts_store=True) == (
        "open files: torch's launcher needs 2064 for the store of 1000 ranks, but may have 1024. Run `ulimit -n 2064` "
        "before you start it."
    )


def test_no_launcher_is_one_process() -> None:
    with DDPContext() as context:
        assert context.timeout == 600
        assert (get_rank(), get_world_size(), get_local_rank(), get_local_world_size()) == (0, 1, 0, 1)
        assert not dist.is_initialized()


@pytest.mark.parametrize(
    ("nodes", "host"),
    [
        ("node1,node2", "node1"),
        ("gpu-[07-09,12]", "gpu-07"),
        ("n1-[03-05]", "n1-03"),
        ("a.b-c", "a.b-c"),
        ("n[3,5],m[1-2]", "n3"),
        ("a[1-2]b[3-4]", "a1b3"),
        ("tux[00-01]-eth,x", "tux00-eth"),
    ],
)
def test_slurm_gives_local_rank_and_first_host(monkeypatch: pytest.MonkeyPatch, nodes: str, host: str) -> None:
    set_all(monkeypatch, SLURM_PROCID="5", SLURM_NTASKS="7", SLURM_LOCALID="1", SLURM_JOB_ID="100041")
    set_all(monkeypatch, SLURM_STEP_ID="2", SLURM_JOB_NODELIST=nodes, SLURM_TASKS_PER_NODE="2(x3),1")
    assert read_launch() == Launch(5, 7, 1, 2, host, 22059)  # port: 20000 + (100041 + 2 * 1009) % 20000


# Three of a job's four nodes, two tasks each: what srun sets for the fourth task of `srun --nodes=3 --ntasks=6`.
STEP = {
    "SLURM_JOB_ID": "17",
    "SLURM_JOB_NODELIST": "node[01-04]",
    "SLURM_NTASKS": "6",
    "SLURM_TASKS_PER_NODE": "8(x4)",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "node[02-04]",
    "SLURM_STEP_NUM_TASKS": "6",
    "SLURM_STEP_TASKS_PER_NODE": "2(x3)",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
}


NO_NODES = {"SLURM_STEP_NODELIST": "", "SLURM_JOB_NODELIST": ""}
BATCH = {name: value for name, value in STEP.items() if "STEP" not in name}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        pytest.param(MASTER, None, id="an address alone"),
        pytest.param({"RANK": "0", "WORLD_SIZE": "1"}, None, id="one process"),
        pytest.param({**BATCH, "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}, None, id="a batch script, in any job"),
        pytest.param({**STEP, "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}, None, id="a shell that srun started"),
        pytest.param({**TORCH, **MASTER, "SLURM_PROCID": "7", "SLURM_NTASKS": "8"}, (3, 4, 1, 2, "node1", 1234),
                     id="torch's variables are read before SLURM's"),
        pytest.param({"RANK": "1", "WORLD_SIZE": "2", **MASTER}, (1, 2, 1, 2, "node1", 1234),
                     id="ranks started by hand are taken for one machine"),
        pytest.param(STEP, (3, 6, 1, 2, "node02", 20017), id="a step goes before its job"),
        pytest.param({**STEP, "MASTER_ADDR": "10.0.0.2", "MASTER_PORT": "99"}, (3, 6, 1, 2, "10.0.0.2", 99),
                     id="a given address goes before both"),
        pytest.param({**STEP, "SLURM_STEP_TASKS_PER_NODE": "6", "SLURM_STEP_NODELIST": "node02"},
                     (3, 6, 1, 6, "127.0.0.1", 20017), id="a step on one node meets on the loopback address"),
    ],
)  # fmt: skip
def test_what_a_launcher_says(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: Any) -> None:
    set_all(monkeypatch, **variables)
    assert read_launch() == (expected and Launch(*expected))


def test_lightnings_variables_are_no_launchers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    set_all(monkeypatch, LOCAL_RANK="1", NODE_RANK="0", WORLD_SIZE="2", MASTER_ADDR="localhost", MASTER_PORT="1234")
    with DDPContext():
        assert not dist.is_initialized()  # Lightning will make the group
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    assert (get_local_rank(), get_local_world_size()) == (1, 1)
    dist.destroy_process_group()


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"RANK": "4"}, "RANK=4, WORLD_SIZE=4"),
        ({"LOCAL_RANK": "2"}, "LOCAL_RANK=2, LOCAL_WORLD_SIZE=2"),
        ({"WORLD_SIZE": ""}, "WORLD_SIZE unset"),
        ({"RANK": ""}, "RANK unset"),
        ({"RANK": "-1"}, "RANK=-1"),
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE=two"),
        ({"MASTER_PORT": ""}, "MASTER_PORT unset"),
        ({"MASTER_PORT": "0"}, "MASTER_PORT=0"),
        ({"MASTER_ADDR": ""}, "MASTER_ADDR unset"),
        ({**dict.fromkeys((*TORCH, *MASTER), ""), **STEP, **NO_NODES}, "MASTER_ADDR unset"),
    ],
)
def test_a_wrong_environment_ends_with_one_line(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, str], word: str
) -> None:
    set_all(monkeypatch, **{**TORCH, **MASTER, **change})
    with pytest.raises(SystemExit) as end, DDPContext():
        pass
    assert word in str(end.value)
    assert "\n" not in str(end.value)


def test_time_out_argument_goes_before_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DING_LITE_TIMEOUT", "12.5")
    assert DDPContext().timeout == 12.5
    assert DDPContext(timeout=3).timeout == 3


@pytest.mark.parametrize("text", ["soon", "-1", "0", "nan", "inf", ""])
@pytest.mark.parametrize("variable", ["DING_LITE_TIMEOUT", "DING_LITE_DEAD_TIMEOUT"])
def test_a_wrong_time_out_is_refused(monkeypatch: pytest.MonkeyPatch, variable: str, text: str) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(SystemExit, match=f"{variable}.* got '{text}'"), DDPContext():
        pass


def test_a_group_of_somebody_else_is_used_and_kept(tmp_path: Path) -> None:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        with DDPContext():
            assert dist.is_initialized()
        with pytest.raises(KeyError), DDPContext():
            raise KeyError("passes through")
        assert dist.is_initialized()
    finally:
        dist.destroy_process_group()


def test_an_unknown_reduction_is_refused() -> None:
    with pytest.raises(ValueError, match="'sum' or 'mean', got 'max'"):
        allreduce_data(1, op="max")  # type: ignore[arg-type]


def test_a_config_whose_sizes_all_ranks_share_is_a_deep_copy() -> None:
    cfg: dict[str, Any] = {"policy": {"learn": {"batch_size": 32}}, "env": {"collector_env_num": 8}}
    before = copy.deepcopy(cfg)
    new = to_ddp_config(cfg)
    assert new == before | {"policy": before["policy"] | {"divide": True}}
    new.policy.learn.batch_size = 1
    assert cfg == before
    assert to_ddp_config({"exp_name": "x"}) == {"exp_name": "x", "policy": {"divide": True}}


def make_network() -> nn.Sequential:
    torch.manual_seed(0)
    layers = (nn.Conv2d(4, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 5), nn.Linear(5, 3))
    network = nn.Sequential(*layers)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in torch's hints
    return network


@pytest.mark.parametrize("culprit", ["module.zero_grad", "optimizer.zero_grad", "data"])
def test_a_replaced_gradient_or_parameter_is_noticed(culprit: str) -> None:
    network = make_network()
    flat = FlatParameters(network)
    if culprit == "module.zero_grad":
        network.zero_grad()
    elif culprit == "optimizer.zero_grad":
        torch.optim.SGD([flat.parameter], 0.1).zero_grad()
    else:
        network.get_parameter("0.weight").data = network.get_parameter("0.weight").data.clone()
    for method in (flat.zero_grad, flat.average_grad):
        with pytest.raises(RuntimeError, match=r"zero_grad\(\) of FlatParameters"):
            method()


def test_frozen_parameters_stay_apart() -> None:
    network = make_network()
    network[0].requires_grad_(False)
    flat = FlatParameters(network)
    flat.parameter.data.zero_()
    assert network.get_parameter("0.weight").count_nonzero() > 0
    assert network.get_parameter("3.weight").count_nonzero() == 0


def test_a_shared_parameter_is_one() -> None:
    network = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    network[1].weight = network[0].weight
    assert FlatParameters(network).parameter.numel() == 16 + 16  # the flag has 64 bytes of its own


def test_mixed_types_and_nothing_trainable_are_refused() -> None:
    mixed = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).double())
    with pytest.raises(ValueError, match=r"torch\.float32 on cpu, torch\.float64 on cpu"):
        FlatParameters(mixed)
    with pytest.raises(ValueError, match="got none"):
        FlatParameters(nn.ReLU())
