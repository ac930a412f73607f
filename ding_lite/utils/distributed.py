"""Several processes as one run: joining the group that a launcher describes, and the collectives that training needs.

Without a launcher, or with one process, there is no group and every function here is a cheap identity.
"""

from __future__ import annotations

import atexit
import copy
import faulthandler
import numbers
import os
import re
import sys
import textwrap
import threading
import traceback
from datetime import timedelta
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
import torch.distributed as dist

# Its default arguments hold the group that exists when it is imported, as creating an optimizer does. Imported late, it
# would keep the group alive after destroy_process_group(), and the interpreter's end would abort now and then.
import torch.distributed.nn.functional
from easydict import EasyDict
from torch import Tensor, nn

from ding_lite.utils.registry import ConfigError, UserError

EXIT_GRACE = 5.0  # seconds that a failed rank gets to clean up before it is ended
ALIGN_BYTES = 64  # every parameter starts on this boundary inside its flat tensor, for vectorised kernels
PIECES = 2  # collectives per bucket: gloo works on two at a time


class Launch(NamedTuple):
    """What a launcher told this process."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    addr: str
    port: int


def _slurm_environment() -> dict[str, str]:
    """SLURM's variables under the names that torch's launchers use; what cannot be told is empty."""
    env = os.environ
    size = env.get("SLURM_STEP_NUM_TASKS") or env.get("SLURM_NTASKS", "1")
    nodes = env.get("SLURM_STEP_NODELIST") or env.get("SLURM_JOB_NODELIST", "")
    per_node = env.get("SLURM_STEP_TASKS_PER_NODE") or env.get("SLURM_TASKS_PER_NODE", size)
    first = re.fullmatch(r"([\w.-]+)(?:\[(\w+)[^\]]*\])?(?:,.*)?", nodes)  # node[01-04,07] or node01,node02
    return {
        "RANK": env["SLURM_PROCID"],
        "WORLD_SIZE": size,
        "LOCAL_RANK": env.get("SLURM_LOCALID", ""),
        # "2(x3),1": three nodes with two tasks, one with one. The largest, as all ranks must choose the same backend.
        "LOCAL_WORLD_SIZE": str(max(map(int, re.findall(r"\b\d+", per_node)), default=1)),
        "MASTER_ADDR": env.get("MASTER_ADDR") or (first[1] + (first[2] or "") if first else ""),
        "MASTER_PORT": env.get("MASTER_PORT") or str(20000 + int(env.get("SLURM_JOB_ID", 0)) % 20000),
    }


def read_launch() -> Launch | None:
    """Read what torch's launchers, or else SLURM, put into the environment; None if this is the only process.

    Raises:
        SystemExit: if the variables are incomplete or contradict each other.
    """
    env = dict(os.environ)
    if not any(name in env for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")):
        if "SLURM_PROCID" not in env:
            return None
        env = _slurm_environment()
    elif env.get("RANK") and env.get("WORLD_SIZE"):  # started by hand, on one machine
        env = {"LOCAL_RANK": env["RANK"], "LOCAL_WORLD_SIZE": env["WORLD_SIZE"], **env}
    if env.get("WORLD_SIZE") == "1" and env.get("RANK") in (None, "0"):
        return None
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT")
    rank, size, local_rank, local_size, port = (
        int(env[name]) if env.get(name, "").isdecimal() else -1 for name in names
    )
    if 0 <= rank < size and 0 <= local_rank < local_size and port >= 0 and env.get("MASTER_ADDR"):
        return Launch(rank, size, local_rank, local_size, env["MASTER_ADDR"], port)
    got = ", ".join(f"{name}={env[name]}" if env.get(name) else f"{name} unset" for name in (*names, "MASTER_ADDR"))
    raise SystemExit(
        "launch environment: expected RANK < WORLD_SIZE, LOCAL_RANK < LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, "
        f"got {got}. Start with torchrun, python -m torch.distributed.launch or srun, or unset them for one process."
    )


def get_rank() -> int:
    """Return this process's number among all, 0 without a group."""
    return dist.get_rank() if dist.is_initialized() else 0


def get_world_size() -> int:
    """Return the count of processes, 1 without a group."""
    return dist.get_world_size() if dist.is_initialized() else 1


def get_backend() -> str:
    """Name of what carries the collectives, 'one process' without a group."""
    return dist.get_backend() if dist.is_initialized() else "one process"


def get_local_rank() -> int:
    """Return this process's number among those of its machine, 0 without a group."""
    launch = read_launch() if dist.is_initialized() else None
    return launch.local_rank if launch else 0


def get_local_world_size() -> int:
    """Return the count of processes on this machine, 1 without a group."""
    launch = read_launch() if dist.is_initialized() else None
    return launch.local_world_size if launch else 1


class DDPContext:
    """Joins the process group that the launcher describes, and leaves it at the end of the block.

    CPU tensors travel over gloo, CUDA tensors over nccl if every local rank has a GPU of its own, else over gloo too.
    A group that exists already is used and left alone. With one process nothing happens at all.

    A `UserError` inside the block ends the process with status 2, and only its message is printed. With several ranks,
    any other exception ends it too, with status 1: the traceback is printed with the rank in front of every line. That
    takes no more than `EXIT_GRACE` seconds, even if a collective is pending.

    Args:
        timeout: seconds that joining the group, or one collective, may take. None: the environment variable
            DING_LITE_TIMEOUT, else 600.

    Raises:
        SystemExit: with one line, if the environment is contradictory or the group does not come together.
    """

    def __init__(self, timeout: float | None = None) -> None:
        text = os.environ.get("DING_LITE_TIMEOUT", "600") if timeout is None else str(timeout)
        if not re.fullmatch(r"\d*\.?\d+|\d+\.", text) or float(text) == 0:
            raise SystemExit(f"time-out (DING_LITE_TIMEOUT): expected a number of seconds > 0, got {text!r}.")
        self.timeout = float(text)
        self._owner = False

    def __enter__(self) -> DDPContext:
        launch = None if dist.is_initialized() else read_launch()
        if launch is None:
            return self
        gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if gpus:
            torch.cuda.set_device(launch.local_rank % gpus)
        own_gpu = gpus >= launch.local_world_size and dist.is_nccl_available()
        os.environ.update(MASTER_ADDR=launch.addr, MASTER_PORT=str(launch.port))
        backend, timeout = "cpu:gloo,cuda:nccl" if own_gpu else "gloo", timedelta(seconds=self.timeout)
        try:
            dist.init_process_group(backend, timeout=timeout, world_size=launch.world_size, rank=launch.rank)
        except (RuntimeError, ValueError) as error:
            cause = (str(error).splitlines() or [type(error).__name__])[0]
            why = f"the {launch.world_size} ranks did not meet at {launch.addr}:{launch.port} within {self.timeout:g} s"
            advice = "See that each was started with the same MASTER_ADDR and MASTER_PORT and that none has died"
            if "EADDRINUSE" in str(error):
                why, advice = f"port {launch.port} is in use", "Choose another MASTER_PORT (--master_port)"
            raise SystemExit(f"[rank {launch.rank}] {why}. {advice}. ({cause})") from None
        self._owner = True
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not self._owner:
            if isinstance(error, UserError) and get_world_size() == 1:
                print(error, file=sys.stderr)
                raise SystemExit(2) from None
            return
        self._owner = False
        if error is None or (isinstance(error, SystemExit) and not error.code):
            dist.destroy_process_group()
            return
        # Leaving may wait for the peers of a pending collective. A C thread, which needs no GIL, is the last resort.
        self._null = open(os.devnull, "w")  # noqa: SIM115 (must stay open until the process has ended)
        faulthandler.dump_traceback_later(EXIT_GRACE, exit=True, file=self._null)
        status = {ConfigError: 2, KeyboardInterrupt: 130}.get(type(error), 1)
        if isinstance(error, SystemExit):
            status = error.code if isinstance(error.code, int) else 1
        elif not isinstance(error, KeyboardInterrupt):
            text = f"{error}\n" if isinstance(error, ConfigError) else "".join(traceback.format_exception(error))
            sys.stderr.write(textwrap.indent(text, f"[rank {get_rank()}] "))
            sys.stderr.flush()
        atexit.register(_end_process, status)
        leaving = threading.Thread(target=dist.destroy_process_group, daemon=True)
        leaving.start()
        leaving.join(EXIT_GRACE / 5)
        if not isinstance(error, SystemExit):
            raise SystemExit(status) from None


def _end_process(status: int) -> None:
    """End after everybody else's exit functions, but without freeing C++ objects, which may wait or abort."""
    atexit.unregister(_end_process)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(status)


def allreduce_data(data: Any, op: Literal["sum", "mean"] = "sum") -> Any:
    """Reduce a number, a tensor or a dict of them over all ranks, in one collective.

    Everything travels as float64: whole numbers are exact up to 2^53. Sums of whole numbers are whole (booleans are
    counted), means are floating. Every rank must pass the same keys and shapes. One process: `data` itself.
    """
    if op not in ("sum", "mean"):
        raise ValueError(f"allreduce_data: expected op 'sum' or 'mean', got {op!r}.")
    world_size = get_world_size()
    if world_size == 1 or (isinstance(data, dict) and not data):
        return data
    items = dict(sorted(data.items())) if isinstance(data, dict) else {"": data}  # one order on all ranks
    tensors = [torch.as_tensor(np.asarray(v) if isinstance(v, numbers.Real) else v) for v in items.values()]
    device = max((tensor.device for tensor in tensors), key=lambda device: device.type == "cuda")
    if dist.get_backend() == "nccl":  # a group of the user's own: it carries nothing else
        device = torch.device("cuda")
    packed = torch.cat([tensor.detach().reshape(-1).to(device, torch.float64) for tensor in tensors])
    dist.all_reduce(packed)
    if op == "mean":
        packed /= world_size
    new = {}
    for key, tensor, part in zip(items, tensors, packed.split([tensor.numel() for tensor in tensors]), strict=True):
        dtype = tensor.dtype if tensor.is_floating_point() else torch.int64 if op == "sum" else torch.float64
        value = part.view(tensor.shape).to(tensor.device, dtype)
        new[key] = value if isinstance(items[key], Tensor) else value.item()
    return {key: new[key] for key in data} if isinstance(data, dict) else new[""]


def broadcast_object_list(objects: list[Any], src: int = 0) -> None:
    """Replace the elements of `objects`, in place, by those of rank `src`. They are pickled: for trusted ranks only."""
    if get_world_size() > 1:
        dist.broadcast_object_list(objects, src=src)


def all_gather_object(value: Any) -> list[Any]:
    """Returns the values of all ranks, in the order of ranks. Only for trusted ranks: they are pickled."""
    values = [value] * get_world_size()
    if get_world_size() > 1:
        dist.all_gather_object(values, value)
    return values


def broadcast_module(module: nn.Module, src: int = 0) -> None:
    """Give every rank the parameters and buffers of rank `src`, in one collective per device."""
    tensors = [tensor.detach() for tensor in (*module.parameters(), *module.buffers())] if get_world_size() > 1 else []
    for device in sorted({tensor.device for tensor in tensors}, key=str):
        # As bytes, widest type first: then every slice is aligned for its type.
        group = sorted((t for t in tensors if t.device == device), key=lambda t: -t.element_size())
        chunks = [tensor.reshape(-1).view(torch.uint8) for tensor in group]
        packed = torch.cat(chunks)
        dist.broadcast(packed, src=src)
        for tensor, chunk in zip(group, packed.split([chunk.numel() for chunk in chunks]), strict=True):
            tensor.copy_(chunk.view(tensor.dtype).view(tensor.shape))


def to_ddp_config(cfg: dict[str, Any]) -> EasyDict:
    """Copy a single-process config with its batch size and collect sizes divided by the world size.

    Raises:
        ConfigError: if one of them is not a multiple of the world size.
    """
    new, size = EasyDict(copy.deepcopy(dict(cfg))), get_world_size()
    for section, key in (("learn", "batch_size"), ("collect", "n_sample"), ("collect", "n_episode")):
        values = new.get("policy", {}).get(section, {})
        value = values.get(key)
        if not isinstance(value, int):
            continue  # unset, or of a wrong type, which compiling the config reports
        if value % size:
            raise ConfigError(
                f"policy.{section}.{key}={value} is shared by {size} processes: expected a multiple of {size}, "
                f"such as {-(-value // size) * size}."
            )
        values[key] = value // size
    return new


class FlatParameters:
    """All trainable parameters of a module, and their gradients, as views of one tensor each.

    An optimizer over `[flat.parameter]`, gradient clipping and the average over ranks then handle one tensor. Each
    parameter keeps its strides, so a channels_last model stays one. Gaps (less than `ALIGN_BYTES`) between them
    stay zero.

    A step is: `zero_grad()`, backward, `average_grad()`, clip, optimizer step. With `overlap` there must be exactly one
    backward pass in it, because averaging starts while it runs.

    Args:
        module: on its final device, with its final dtype; moving it later is an error.
        overlap: average the last layers' gradients during backward.
        bucket_bytes: least size of the gradients that are sent together with `overlap`.

    Attributes:
        parameter: the flat parameter `[P]`, whose `.grad` is the flat gradient.

    Raises:
        ValueError: if nothing is trainable, or dtypes or devices differ.
    """

    def __init__(self, module: nn.Module, overlap: bool = False, bucket_bytes: int = 1 << 20) -> None:
        self._params = [param for param in module.parameters() if param.requires_grad]
        kinds = sorted({f"{param.dtype} on {param.device}" for param in self._params})
        if len(kinds) != 1:
            raise ValueError(
                f"FlatParameters: expected trainable parameters of one dtype on one device, got "
                f"{', '.join(kinds) or 'none'}. Move the module first, or make one FlatParameters for each."
            )
        unit = max(1, ALIGN_BYTES // self._params[0].element_size())
        starts = [0]
        for param in self._params:
            starts.append(starts[-1] + -(-param.numel() // unit) * unit)
        self.parameter = nn.Parameter(self._params[0].data.new_zeros(starts[-1]))
        self.parameter.grad = self._grad = torch.zeros_like(self.parameter.data)
        self._views: list[tuple[Tensor, Tensor]] = []
        for param, start in zip(self._params, starts, strict=False):
            strides = torch.empty_like(param, device="meta").stride()  # its own if dense
            data, grad = (flat.as_strided(param.shape, strides, start) for flat in (self.parameter.data, self._grad))
            data.copy_(param.data)
            param.data, param.grad = data, grad
            self._views.append((data, grad))
        self._world_size, self._works = get_world_size(), list[dist.Work]()
        self._ready, self._launched = set[int](), 0  # parameters whose gradient is final; buckets on their way
        self._buckets: list[tuple[Tensor, set[int]]] = [(self._grad, set())]
        if overlap and self._world_size > 1:
            self._make_buckets(starts, bucket_bytes // self._grad.element_size())

    def _make_buckets(self, starts: list[int], least: int) -> None:
        """Cut the flat gradient into buckets, from its end, where backward begins, and hook every parameter."""
        self._buckets, stop = [], len(self._params)
        for index in reversed(range(stop)):
            if starts[stop] - starts[index] >= least or index == 0:
                self._buckets.append((self._grad[starts[index] : starts[stop]], set(range(index, stop))))
                stop = index
            self._params[index].register_post_accumulate_grad_hook(lambda _, index=index: self._on_ready(index))

    def _on_ready(self, index: int) -> None:
        if index in self._ready:
            raise RuntimeError(
                "FlatParameters: a second backward pass before average_grad(), while the first one's gradients are "
                "being averaged. Add the losses and call backward once, or use overlap=False (bp_update_sync=True)."
            )
        self._ready.add(index)
        # One fixed order on every rank: a bucket waits for those before it, even if it is ready sooner.
        while self._launched < len(self._buckets) and self._buckets[self._launched][1] <= self._ready:
            self._launch_next()

    def _launch_next(self) -> None:
        pieces = self._buckets[self._launched][0].chunk(PIECES)
        self._works += [dist.all_reduce(piece, async_op=True) for piece in pieces]
        self._launched += 1

    def _check(self) -> None:
        views = zip(self._params, self._views, strict=True)
        intact = all(param.grad is grad and param.data_ptr() == data.data_ptr() for param, (data, grad) in views)
        if not intact or self.parameter.grad is not self._grad:
            raise RuntimeError(
                "FlatParameters: a parameter or its gradient was replaced and is no view of the flat tensor any more. "
                "Use flat.zero_grad() instead of the optimizer's or the module's, and move the module before this."
            )

    def zero_grad(self) -> None:
        """Fill all gradients with zero, in place.

        Raises:
            RuntimeError: if a gradient was replaced, or an overlapped average was begun and not finished.
        """
        self._check()
        if self._ready:
            raise RuntimeError("FlatParameters: with overlap, call average_grad() after backward, before zero_grad().")
        self._grad.zero_()

    def average_grad(self) -> None:
        """Replace the gradients by their mean over all ranks; a parameter unused on a rank counts as zero there.

        Raises:
            RuntimeError: if a gradient was replaced, so that the optimizer would not see it.
        """
        self._check()
        if self._world_size == 1:
            return
        while self._launched < len(self._buckets):
            self._launch_next()
        for work in self._works:
            work.wait()
        self._grad.div_(self._world_size)
        self._works.clear()
        self._ready.clear()
        self._launched = 0

    def broadcast(self, src: int = 0) -> None:
        """Give every rank the parameters of rank `src`."""
        if self._world_size > 1:
            dist.broadcast(self.parameter.data, src=src)
