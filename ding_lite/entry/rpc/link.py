"""Requests between one agent and its observers, over torch.distributed.rpc.

A request calls a method of the other process's service. Most are answered by its main thread (`ask`), where an error
ends the process like any other error. Requests that are part of distributed autograd are answered by a thread of rpc
(`ask_now`).
"""

from __future__ import annotations

import os
import queue
import warnings
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import rpc
from torch.futures import Future

from ding_lite.utils.ranks.heartbeat import read_seconds, waiting
from ding_lite.utils.ranks.launch_environment import set_variables
from ding_lite.utils.ranks.meeting import host_store

AGENT = 0  # its rank; all others are observers
TRANSPORTS = ["uv"]  # sockets; the shared-memory transport polls all the time and takes cores from environments


Request = tuple[str, tuple[Any, ...], Future[Any]]  # method, arguments, and the future of the answer


class _Here:
    """The state of this process for rpc's threads, which can only call functions of a module."""

    service: Any = None
    inbox: queue.SimpleQueue[Request | Future[Any] | Exception] = queue.SimpleQueue()  # read by the main thread


@rpc.functions.async_execution  # type: ignore[untyped-decorator]  # torch's has no hints
def _answer(method: str, args: tuple[Any, ...]) -> Future[Any]:
    answer: Future[Any] = Future()
    _Here.inbox.put((method, args, answer))
    return answer


def _answer_now(method: str, args: tuple[Any, ...]) -> Any:
    try:
        return getattr(_Here.service, method)(*args)
    except Exception as error:
        _Here.inbox.put(error)  # the main thread raises it, and the watchdog tells the others why it ends
        return dist.DistNetworkError(f"rpc: {_name(dist.get_rank())} has failed: {type(error).__name__}")


class RPCLink(AbstractContextManager[Any]):
    """This process's end of the connections to all others; a context that opens and closes them.

    Every rank of the group enters it, and they leave it together. If an error other than `SystemExit` ends a process,
    the others do not wait for it.

    Args:
        service: the object whose methods the other processes may call.
    """

    def __init__(self, service: Any) -> None:
        self._rank, self.observers = dist.get_rank(), range(1, dist.get_world_size())
        self._timeout = read_seconds("DING_LITE_TIMEOUT", "600")
        _Here.service, _Here.inbox = service, queue.SimpleQueue()

    def __enter__(self) -> RPCLink:
        # A separate store on a free port, because the launcher's store may hold addresses of an earlier attempt.
        addr, ports = os.environ.get("MASTER_ADDR", "localhost"), [0]
        if self._rank == AGENT:
            self._store = host_store(addr, 0, self._timeout)
            ports = [self._store.port]
        # With this variable, rpc joins a running store; otherwise it opens one, on a port that is chosen in advance.
        there = set_variables({"TORCHELASTIC_USE_AGENT_STORE": "True"})
        with carried(), there, warnings.catch_warnings():
            dist.broadcast_object_list(ports, src=AGENT)
            warnings.filterwarnings("ignore", "You are using a Backend", UserWarning)  # torch's own way to open rpc
            options = rpc.TensorPipeRpcBackendOptions(
                rpc_timeout=self._timeout, init_method=f"tcp://{addr}:{ports[0]}", _transports=TRANSPORTS
            )
            rpc.init_rpc(_name(self._rank), None, self._rank, len(self.observers) + 1, options)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or isinstance(error, SystemExit):
            with waiting():
                rpc.shutdown()
                dist.all_reduce(torch.zeros(1))  # the agent's store must exist until all ranks have left
            _Here.service = None

    def ask(self, rank: int, method: str, *args: Any) -> Future[Any]:
        """Return the future answer of that rank's main thread. It has no time limit while that rank makes progress."""
        return rpc.rpc_async(_name(rank), _answer, (method, args), timeout=0)

    def ask_now(self, rank: int, method: str, *args: Any) -> Future[Any]:
        """Return the future answer of one of that rank's rpc threads."""
        return rpc.rpc_async(_name(rank), _answer_now, (method, args))

    def requests(self, answers: Iterable[Future[Any]] = ()) -> Iterator[Request]:
        """Yield the requests to this process's main thread until all `answers` have arrived; without any, for ever."""
        expected, arrived = list(answers), 0
        for answer in expected:
            answer.add_done_callback(_Here.inbox.put)
        while arrived < len(expected) or not expected:
            with waiting():
                item = _Here.inbox.get()
            if isinstance(item, Exception):
                raise item
            if isinstance(item, tuple):
                yield item
            else:
                result(item)  # raises the error, if it is one
                arrived += 1


def result(answer: Future[Any]) -> Any:
    """Wait for an answer and return it.

    Raises:
        torch.distributed.DistNetworkError: the other process is lost or its method has failed.
    """
    with carried():
        value = answer.wait()
    if isinstance(value, dist.DistNetworkError):
        raise value
    return value


@contextmanager
def carried() -> Iterator[None]:
    """Return a context manager that marks a wait for others, and turns errors of rpc into `DistNetworkError`."""
    try:
        with waiting():
            yield
    except RuntimeError as error:
        raise dist.DistNetworkError(f"rpc: {str(error).partition(chr(10))[0]}") from error


def _name(rank: int) -> str:
    return "agent" if rank == AGENT else f"observer_{rank}"
