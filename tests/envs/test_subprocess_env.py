"""Worker processes: light, quiet on Ctrl-C, and never waited for in vain."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from ding_lite.envs.subprocess_env import SubprocessVectorEnv

DIE, HANG, RAISE = 1, 2, 3


class MoodyEnv(gymnasium.Env):
    """Obeys an action that asks it to die, hang or raise; with `sick="close"` it cannot be closed."""

    observation_space = Box(0, 1e9, (1,), np.float64)
    action_space = Discrete(4)

    def __init__(self, sick: str = "") -> None:
        self.sick = sick

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        return np.array([os.getpid()], np.float64), {}

    def step(self, action: int):
        if action == DIE:
            os.kill(os.getpid(), signal.SIGKILL)
        if action == HANG:
            time.sleep(600)
        if action == RAISE:
            raise ArithmeticError("the pole is on fire")
        return np.array([os.getpid()], np.float64), 0.0, False, False, {}

    def close(self) -> None:
        if self.sick == "close" and multiprocessing.parent_process():  # gymnasium makes one in the parent, too
            time.sleep(600)


def workers(num_envs: int = 3, timeout: float = 20.0, sick: str = "") -> tuple[SubprocessVectorEnv, list[int]]:
    env = SubprocessVectorEnv([partial(MoodyEnv, sick)] * num_envs, step_timeout=timeout)
    return env, [int(pid) for pid in env.reset()[0][:, 0]]


def gone(pid: int, timeout: float = 10.0) -> bool:
    """Whether the process ends (or is only a zombie of its parent) within `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def run_script(tmp_path: Path, body: str) -> subprocess.Popen:
    """Start a user's script (no `__main__` guard) in a process group of its own."""
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(body))
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    }
    return subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=env,
    )


def test_each_environment_has_a_process_of_its_own_that_close_ends() -> None:
    env, pids = workers()
    assert len({os.getpid(), *pids}) == 4
    started = time.monotonic()
    env.close()
    assert time.monotonic() - started < 4, "workers that are well need no grace period"
    assert all(gone(pid, 0.5) for pid in pids)


def test_a_dead_worker_is_one_clear_error_and_the_others_are_stopped() -> None:
    env, pids = workers()
    started = time.monotonic()
    with pytest.raises(RuntimeError, match=r"Environment worker 1 \(exit code -9\) died"):
        env.step(np.array([0, DIE, 0]))
    assert time.monotonic() - started < 5
    assert all(gone(pid, 1) for pid in pids)
    env.close()


def test_a_worker_that_died_between_steps_is_noticed() -> None:
    env, pids = workers()
    os.kill(pids[2], signal.SIGKILL)
    assert gone(pids[2])
    with pytest.raises(RuntimeError, match=r"Environment worker 2 \(exit code -9\) died"):
        env.step(np.zeros(3, np.int64))


def test_a_stuck_worker_is_an_error_after_the_time_out() -> None:
    env, pids = workers(timeout=0.7)
    started = time.monotonic()
    with pytest.raises(RuntimeError, match=r"Environment worker 0, 2 gave no answer within 0\.7 s.*step_timeout"):
        env.step(np.array([HANG, 0, HANG]))
    assert 0.7 <= time.monotonic() - started < 5
    assert all(gone(pid, 1) for pid in pids)


@pytest.mark.filterwarnings("ignore::UserWarning")  # gymnasium shows the worker's traceback as one
def test_an_exception_in_an_environment_arrives_with_its_type_and_message() -> None:
    env, pids = workers()
    with pytest.raises(ArithmeticError, match="the pole is on fire"):
        env.step(np.array([0, 0, RAISE]))
    env.close()
    assert all(gone(pid, 1) for pid in pids)


def test_close_kills_what_does_not_close_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ding_lite.envs.subprocess_env.CLOSE_GRACE", 0.5)
    env, pids = workers(sick="close")
    started = time.monotonic()
    env.close()
    assert time.monotonic() - started < 4
    assert all(gone(pid, 0.5) for pid in pids)


def test_close_in_the_middle_of_a_step_does_not_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ding_lite.envs.subprocess_env.CLOSE_GRACE", 0.5)
    env, pids = workers()
    env.step_async(np.array([0, HANG, 0]))  # as when Ctrl-C arrives while waiting
    env.close()
    assert all(gone(pid, 0.5) for pid in pids)


def test_workers_import_no_torch_and_take_environments_of_the_script_along(tmp_path: Path) -> None:
    """A script that imported torch, without a `__main__` guard and with an environment class of its own."""
    script = run_script(
        tmp_path,
        """
        import sys
        import torch
        import gymnasium, numpy as np
        from ding_lite.envs.subprocess_env import SubprocessVectorEnv

        class Probe(gymnasium.Env):
            observation_space = gymnasium.spaces.Box(0, 1, (2,), np.float32)
            action_space = gymnasium.spaces.Discrete(2)
            def reset(self, *, seed=None, options=None):
                import multiprocessing
                return np.array(["torch" in sys.modules, multiprocessing.parent_process() is not None], np.float32), {}

        env = SubprocessVectorEnv([Probe] * 2, step_timeout=30)
        print("in worker:", env.reset()[0].tolist(), sys.modules["__main__"].__file__.endswith("train.py"))
        env.close()
        """,
    )
    out, err = script.communicate(timeout=100)
    assert script.returncode == 0, err
    assert out.splitlines() == ["in worker: [[0.0, 1.0], [0.0, 1.0]] True"]


WAITING = """
    import os, sys, time, signal
    import gymnasium, numpy as np
    from ding_lite.envs.subprocess_env import SubprocessVectorEnv

    class Pid(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(0, 1e9, (1,), np.float64)
        action_space = gymnasium.spaces.Discrete(2)
        def reset(self, *, seed=None, options=None):
            return np.array([os.getpid()], np.float64), {}
        def step(self, action):
            time.sleep(0.01)
            return np.array([os.getpid()], np.float64), 0.0, False, False, {}

    env = SubprocessVectorEnv([Pid] * 2, step_timeout=30)
    asked = []
    signal.signal(signal.SIGINT, lambda *_: asked.append(1))
    print(*(int(pid) for pid in env.reset()[0][:, 0]), flush=True)
    while not asked:
        env.step(np.zeros(2, np.int64))
    env.step(np.zeros(2, np.int64))
    env.close()
    print("closed", flush=True)
"""


def test_ctrl_c_reaches_the_parent_only(tmp_path: Path) -> None:
    script = run_script(tmp_path, WAITING)
    assert script.stdout is not None
    assert len(script.stdout.readline().split()) == 2
    os.killpg(script.pid, signal.SIGINT)  # what a terminal does: every process of the group gets it
    out, err = script.communicate(timeout=30)
    assert (script.returncode, out, err) == (0, "closed\n", "")


def test_no_worker_outlives_a_killed_parent(tmp_path: Path) -> None:
    script = run_script(tmp_path, WAITING)
    assert script.stdout is not None
    pids = [int(pid) for pid in script.stdout.readline().split()]
    script.kill()
    _, err = script.communicate(timeout=30)
    assert all(gone(pid) for pid in pids)
    assert "Traceback" not in err
