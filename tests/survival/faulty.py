"""A CartPole that does harm to its run, or to its worker process, as soon as there is a checkpoint.

The environment variable FAULT says what (see `tests.survival.faults`). Importing this module in a rank starts a thread
that waits for the moment; the current directory holds the run in `run`, and the files by which both sides agree.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import re
import resource
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
from easydict import EasyDict

from ding_lite.envs import make_gymnasium
from ding_lite.utils.ranks.heartbeat import progress
from ding_lite.utils.registry import ENV_REGISTRY

FAULT = "DING_LITE_TEST_FAULT"
HAPPENED = "happened"  # file: when, and at which port the ranks meet
RANK = int(os.environ.get("RANK", 0))
_fault: dict[str, Any] = json.loads(os.environ.get(FAULT, "{}"))
_mine = RANK in _fault.get("ranks", ())
_armed = Path(f"armed.{RANK}")


class InjectedError(Exception):
    """What a user's code may raise."""


def _claim() -> bool:
    """Take one of the times that the fault happens in this rank, whichever attempt of the run, or process of it."""
    for count in range(_fault["times"]):
        try:
            os.close(os.open(f"claim.{RANK}.{count}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        Path(f"{HAPPENED}.{RANK}").write_text(f"{time.time()} {os.environ.get('MASTER_PORT', 0)}")
        Path(f"{HAPPENED}.{RANK}").rename(HAPPENED)
        return True
    return False


def _raise_exit() -> None:
    raise SystemExit(0)


def _raise_error() -> None:
    raise InjectedError("injected")


def _loop() -> None:
    while True:
        pass


def _keep_interpreter() -> None:
    re.match(r"(a+)+$", "a" * 60 + "b")


# What a step of an environment does.
STEPS: dict[str, Callable[[], Any]] = {
    "step: raise": _raise_error,
    "step: SystemExit": _raise_exit,
    "step: os._exit": lambda: os._exit(0),
    "step: sleep": lambda: time.sleep(600),
    "step: slow": lambda: time.sleep(8),
    "step: loop": _loop,
    "step: GIL": _keep_interpreter,
    "step: nan": lambda: None,
    "step: kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "step: stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
}


@ENV_REGISTRY.register("faulty")
class FaultyCartPole(gymnasium.Wrapper):
    """CartPole with a step that fails."""

    def __init__(self, cfg_env: EasyDict) -> None:
        super().__init__(make_gymnasium(cfg_env))

    def step(self, action: Any) -> Any:
        obs, reward, *rest = super().step(action)
        if _mine and _fault["do"] in STEPS and _armed.exists() and _is_stage() and _claim():
            STEPS[_fault["do"]]()
            if _fault["do"] == "step: nan":
                reward = float("nan")
        return obs, reward, *rest


def _is_stage() -> bool:
    """Whether the rank is at what the fault waits for; a worker process, which reports nothing, says yes."""
    return not progress.count or progress.stage == _fault["stage"]


# What the thread of a rank does.


def _interrupt_main() -> None:
    main = ctypes.c_ulong(threading.main_thread().ident or 0)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(main, ctypes.py_object(InjectedError))


def _flip() -> None:
    parameter = sys.modules["torch"].nn.Parameter  # the processes of environments have this file, but no torch
    for found in [found for found in gc.get_objects() if isinstance(found, parameter)]:
        found.data.view(-1)[0] += 1e-3


def _kill_nurseries() -> None:
    for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        os.kill(int(pid), signal.SIGKILL)


def _fill_disk(saves: int) -> None:
    """Let no file of this process grow beyond 4 KiB until so many checkpoints could not be written; 0: for ever."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    for _ in range(2 * saves):  # a save that begins, and the end of that
        while _is_stage():
            time.sleep(0.001)
        while not _is_stage():
            time.sleep(0.001)
    if saves:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _send(number: int) -> None:
    os.kill(os.getpid(), number)


def _forbid_writing() -> None:
    for path in ("run/ckpt", "run/log", "run"):
        os.chmod(path, 0o555)


ACTIONS: dict[str, Callable[[], Any]] = {
    "exception": _interrupt_main,
    "flip": _flip,
    "disk full for a while": lambda: _fill_disk(2),
    "disk full": lambda: _fill_disk(0),
    "delete": lambda: shutil.rmtree("run"),
    "read-only": _forbid_writing,
    "kill nurseries": _kill_nurseries,
    "nothing": lambda: None,
    **{number.name: partial(_send, number) for number in signal.Signals},
}


def _lurk() -> None:
    while not (os.path.exists("run/ckpt/ckpt_last.pth.tar") and _is_stage()):
        time.sleep(0.0002)
    if _fault["do"] in STEPS:
        _armed.touch()
    elif _claim():
        ACTIONS[_fault["do"]]()


if _mine and "torch" in sys.modules:  # not in a worker
    sys.setswitchinterval(1e-4)  # seconds; some stages are short
    threading.Thread(target=_lurk, daemon=True).start()
