"""The rank of this process, and the collectives that training needs; one process needs no group and pays little."""

from __future__ import annotations

import copy
import numbers
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from easydict import EasyDict
from torch import Tensor, nn

from ding_lite.utils.key import ConfigDict
from ding_lite.utils.ranks.heartbeat import waiting
from ding_lite.utils.ranks.launch_environment import read_launch
from ding_lite.utils.ranks.machine_group import SLOT, machine_group
from ding_lite.utils.registry import UserError

Value = TypeVar("Value")
_alone = 0  # number of nested `alone` contexts


def allreduce_data(data: Any, op: Literal["sum", "mean"] = "sum") -> Any:
    """Reduce a number, a tensor or a dict of them over all ranks, in one collective.

    All values are sent as float64, so integers are exact up to 2^53. Booleans count as 0 or 1.

    Args:
        data: what to reduce. Every rank must pass the same keys and shapes.
        op: 'sum' or 'mean'.

    Returns:
        The result in the structure of `data`. Sums of integers are integers; means are floats. With one process it is
        `data` itself.

    Raises:
        ValueError: `op` is neither.
    """
    if op not in ("sum", "mean"):
        raise ValueError(f"allreduce_data: expected op 'sum' or 'mean', got {op!r}.")
    world_size = get_world_size()
    if world_size == 1 or (isinstance(data, dict) and not data):
        return data
    items = dict(sorted(data.items())) if isinstance(data, dict) else {"": data}  # one order on all ranks
    tensors = [torch.as_tensor(np.asarray(v) if isinstance(v, numbers.Real) else v) for v in items.values()]
    packed = _sum(torch.cat([tensor.detach().reshape(-1).to(_place(tensors), torch.float64) for tensor in tensors]))
    if op == "mean":
        packed /= world_size
    new = {}
    for key, tensor, part in zip(items, tensors, packed.split([tensor.numel() for tensor in tensors]), strict=True):
        dtype = tensor.dtype if tensor.is_floating_point() else torch.int64 if op == "sum" else torch.float64
        value = part.view(tensor.shape).to(tensor.device, dtype)
        new[key] = value if isinstance(items[key], Tensor) else value.item()
    return {key: new[key] for key in data} if isinstance(data, dict) else new[""]


def _place(tensors: list[Tensor]) -> torch.device:
    """Return the device from which tensors are reduced: a GPU if a tensor is on one, or if the group has only nccl."""
    if dist.get_backend() == "nccl":
        return torch.device("cuda")
    devices = [torch.device("cpu"), *(tensor.device for tensor in tensors)]
    return max(devices, key=lambda device: device.type == "cuda")


def _sum(packed: Tensor) -> Tensor:
    """Return the sum of a float64 tensor `[K]` over all ranks, in shared memory where it is small and on the CPU."""
    if packed.device.type == "cpu" and packed.nbytes <= SLOT and machine_group().is_shared_somewhere:
        return torch.from_numpy(machine_group().sum(packed.numpy()))
    with waiting():
        dist.all_reduce(packed)
        await_gpu(packed)
    return packed


def await_gpu(tensor: Tensor) -> None:
    """Wait for what a collective does with a tensor of a GPU; call it inside `waiting`.

    nccl's calls return before the other ranks have come. The wait for these would be somewhere else, where it would
    count as a hang of this rank.
    """
    if tensor.is_cuda:
        torch.cuda.current_stream(tensor.device).synchronize()


def broadcast_object_list(objects: list[Any], src: int = 0) -> None:
    """Replace the elements of `objects`, in place, by those of rank `src`; pickled as in `all_gather_object`."""
    if get_world_size() > 1:
        objects[:] = machine_group().exchange(objects, src)[0]


def all_gather_object(value: Any) -> list[Any]:
    """Return the values of all ranks, in the order of ranks.

    They are pickled, and unpickled only if they come from this user's processes or are signed with the job's secret.
    Several machines without a secret trust all that can reach them.
    """
    return machine_group().exchange(value) if get_world_size() > 1 else [value]


def all_gather_tensor(own: Tensor) -> Tensor:
    """Return a tensor `[...]` of each of R ranks as one, `[R, ...]`; all ranks must pass the same shape and dtype."""
    table_R = own.new_zeros(get_world_size(), *own.shape)
    table_R[get_rank()] = own
    return allreduce_data(table_R)


def broadcast_module(module: nn.Module, src: int = 0) -> None:
    """Give every rank the parameters and buffers of rank `src`, in one collective per device."""
    tensors = [tensor.detach() for tensor in (*module.parameters(), *module.buffers())] if get_world_size() > 1 else []
    for device in sorted({tensor.device for tensor in tensors}, key=str):
        # All tensors are sent as bytes, widest type first, so that every slice is aligned for its type.
        group = sorted((t for t in tensors if t.device == device), key=lambda t: -t.element_size())
        chunks = [tensor.reshape(-1).view(torch.uint8) for tensor in group]
        packed = torch.cat(chunks)
        with waiting():
            dist.broadcast(packed, src=src)
            await_gpu(packed)
        for tensor, chunk in zip(group, packed.split([chunk.numel() for chunk in chunks]), strict=True):
            tensor.copy_(chunk.view(tensor.dtype).view(tensor.shape))


def on_rank_0(function: Callable[[], Value]) -> Value:
    """Call `function` on rank 0 and return its value on every rank, or raise its `UserError` or `SystemExit` there."""
    outcome: list[Any] = _attempt(function) if get_rank() == 0 else [None, None]
    broadcast_object_list(outcome)
    if outcome[1] is not None:
        raise outcome[1]
    return outcome[0]


def on_every_rank(function: Callable[[], Value]) -> list[Value]:
    """Call `function` on every rank and return all values, in the order of ranks.

    If it raises a `UserError` on a rank, every rank raises the first one; with several ranks, the message names it.
    """
    outcomes = all_gather_object(_attempt(function))
    for rank, (_, error) in enumerate(outcomes):
        if error is not None:
            raise type(error)(f"[rank {rank}] {error}") if get_world_size() > 1 else error
    return [value for value, _ in outcomes]


def _attempt(function: Callable[[], Any]) -> list[Any]:
    """Return `[value, None]` or `[None, error]`; the other ranks wait for either."""
    try:
        return [function(), None]
    except (UserError, SystemExit) as error:
        return [None, error]


@contextmanager
def alone() -> Iterator[None]:
    """Return a context manager in which this process counts as the only one, so that no call in it is a collective."""
    global _alone
    _alone += 1
    try:
        yield
    finally:
        _alone -= 1


def get_rank() -> int:
    """Return this process's global rank, 0 without a group."""
    return dist.get_rank() if dist.is_initialized() and not _alone else 0


def get_world_size() -> int:
    """Return the number of processes, 1 without a group."""
    return dist.get_world_size() if dist.is_initialized() and not _alone else 1


def get_local_rank() -> int:
    """Return this process's rank on its machine, 0 without a group."""
    launch = read_launch() if dist.is_initialized() else None
    return launch.local_rank if launch else int(os.environ.get("LOCAL_RANK") or 0)


def get_local_world_size() -> int:
    """Return the number of processes on this machine, 1 without a group."""
    launch = read_launch() if dist.is_initialized() else None
    return launch.local_world_size if launch else 1


def to_ddp_config(cfg: dict[str, Any]) -> EasyDict:
    """Return a copy of a single-process `main_config` with `policy.divide=True`: all ranks share its sizes."""
    new = ConfigDict(copy.deepcopy(dict(cfg)))
    new.policy = ConfigDict(new.get("policy", {}), divide=True)
    return new
