"""What ranks conclude from their descriptions of themselves."""

from __future__ import annotations

import os

import pytest

from ding_lite.utils.ranks.meeting import (
    Peer,
    choose_backend,
    describe_process,
    describe_rank,
    describe_values,
    process_state,
)
from tests.survival.common import wait_until

NCCL = "cpu:gloo,cuda:nccl"


@pytest.mark.parametrize(
    ("gpus", "backend", "why"),
    [
        (["", ""], "gloo", ""),
        (["GPU-a", "GPU-b"], NCCL, ""),  # whether a process sees one of them, as in a container, or all
        (["GPU-a", "GPU-a"], "gloo", "ranks 0, 1 share a GPU"),
        (["GPU-a", "GPU-b", "GPU-b", "GPU-c"], "gloo", "ranks 1, 2 share a GPU"),
        (["GPU-a", "", "GPU-b"], "gloo", "a GPU on ranks 0, 2, no GPU on rank 1"),
    ],
)
def test_nccl_is_chosen_if_every_rank_of_every_machine_has_a_gpu_of_its_own(
    gpus: list[str], backend: str, why: str
) -> None:
    peers = [make_peer(rank)._replace(gpu=gpu) for rank, gpu in enumerate(gpus)]
    assert choose_backend(peers) == (backend, why)


def test_gloo_is_chosen_if_torch_lacks_nccl_somewhere() -> None:
    peers = [make_peer(rank)._replace(gpu=f"GPU-{rank}", nccl=rank != 1) for rank in range(3)]
    assert choose_backend(peers) == ("gloo", "torch was built without nccl on rank 1")


def make_peer(rank: int, **versions: str) -> Peer:
    return Peer(rank, 1, "", "host", "machine", versions=versions)


def test_values_are_listed_with_their_ranks() -> None:
    assert describe_values(["a", "a", "a", "b"]) == "a on ranks 0 to 2, b on rank 3"
    assert describe_values(list("abcdef")) == "a on rank 0, b on rank 1, c on rank 2, 3 other values elsewhere"


def test_a_process_that_has_ended_has_no_state_even_if_nobody_waited_for_it() -> None:
    own = describe_rank(3)
    assert (own.rank, own.pid, own.state) == (3, os.getpid(), "R")
    assert set(own.versions) == {"ding_lite", "torch", "numpy"}
    child = os.fork()
    if not child:
        os._exit(0)
    wait_until(lambda: not describe_process(0, child).state, None, 30)
    assert own._replace(pid=child, born=process_state(child)[1]).state == ""
    os.waitpid(child, 0)
