"""Worker processes: light, replaced when they fail, never waited for in vain, and gone whatever ends the run."""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import re
import signal
import subprocess
import sys
import textwrap
import time
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

from ding_lite.envs import create_vector_env, subprocess_env
from ding_lite.envs.returned import EnvError
from ding_lite.envs.subprocess_env import SubprocessVectorEnv
from tests.distributed.launcher import ROOT
from tests.envs.test_vector_env import env_config
from tests.toys import Toy

DIE, HANG, RAISE, HOLD, STOP, END, EXIT = range(1, 8)


class MoodyEnv(Toy):
    """Observes its process and the steps of its episode, and obeys an action that asks it to fail.

    `sick`: cannot be closed ("close"), built ("build") or reset ("reset", or while a file of that name exists). Where
    it is a file's name, another file tells that it was closed.
    """

    observation_space = Dict({"pid": Box(0, 1e9, (), np.float64), "steps": Box(0, 1e9, (2,), np.float32)})
    action_space = Discrete(9)

    def __init__(self, sick: str = "") -> None:
        self.sick = sick
        if sick == "build":
            raise FileNotFoundError("no such ROM:\n pong.bin")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.count = 0
        if self.sick == "reset":
            raise ArithmeticError("the pole\nis on fire")
        if os.path.isabs(self.sick) and os.path.exists(self.sick):
            os.remove(self.sick)
            os.kill(os.getpid(), signal.SIGKILL)
        return self.observe(), {"seed": -1 if seed is None else seed, "options": str(options)}

    def play(self, action: int) -> Any:
        if action == DIE:
            os.kill(os.getpid(), signal.SIGKILL)
        elif action == HANG:
            time.sleep(600)
        elif action == RAISE:
            raise ArithmeticError("the pole\nis on fire")
        elif action == HOLD:
            ctypes.PyDLL(None).sleep(600)  # native code that keeps Python's lock
        elif action == STOP:
            os.kill(os.getpid(), signal.SIGSTOP)
        elif action == EXIT:
            sys.exit(3)
        return 1.0, action == END

    def close(self) -> None:
        if self.sick == "close":
            time.sleep(600)
        if os.path.isabs(self.sick):
            Path(f"{self.sick}.closed").touch()

    def observe(self) -> Any:
        return {"pid": np.array(os.getpid(), np.float64), "steps": np.full(2, self.count, np.float32)}


def workers(
    num_envs: int = 3, timeout: float = 20.0, sick: str = "", max_retry: int = 3
) -> tuple[SubprocessVectorEnv, list[int]]:
    env = SubprocessVectorEnv([partial(MoodyEnv, sick)] * num_envs, timeout, max_retry)
    return env, pids_of(env.reset()[0])


def pids_of(obs: dict[str, np.ndarray]) -> list[int]:
    return [int(pid) for pid in obs["pid"]]


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


def run_script(tmp_path: Path, body: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a user's script (no `__main__` guard) in a process group of its own, temporary files in `tmp_path`/tmp."""
    script = tmp_path / "train.py"
    (tmp_path / "tmp").mkdir()
    script.write_text(textwrap.dedent(body))
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]),
        "TMPDIR": str(tmp_path / "tmp"),
    }
    return subprocess.Popen(
        [sys.executable, str(script), *arguments],
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


@pytest.mark.parametrize(
    ("action", "cause"),
    [
        (DIE, r"died \(exit code -9\)"),
        (RAISE, r"raised ArithmeticError: the pole is on fire"),
        pytest.param(EXIT, r"raised SystemExit: 3", marks=pytest.mark.slow),
        pytest.param(HANG, r"did not answer within 1\.5 s.*step_timeout", marks=pytest.mark.slow),
        (HOLD, r"did not answer within 1\.5 s.*step_timeout"),
        pytest.param(STOP, r"did not answer within 1\.5 s.*step_timeout", marks=pytest.mark.slow),
    ],
    ids=["killed", "raises", "exits", "sleeps", "holds the GIL", "stopped"],
)
def test_a_failed_worker_costs_its_own_episode_and_nothing_else(
    action: int, cause: str, caplog: pytest.LogCaptureFixture
) -> None:
    env, pids = workers(timeout=1.5)
    env.step(np.zeros(3, np.int64))
    obs, reward, terminated, truncated, info = env.step(np.array([action, 0, END]))
    assert re.fullmatch(
        rf"Environment 0 {cause}.* it is restarted \(failure 1 in a row, env.manager.max_retry is 3\)\.",
        caplog.messages[0],
    )
    final_obs = info["final_obs"]
    assert (reward.tolist(), terminated.tolist(), truncated.tolist()) == ([0, 1, 1], [0, 0, 1], [1, 0, 0])
    assert gone(pids[0], 1)
    # SAME_STEP: the new worker has begun its next episode already
    assert (obs["steps"][:, 0].tolist(), pids_of(obs)[1:]) == ([0, 2, 0], pids[1:])
    assert pids_of(obs)[0] not in pids
    # what was seen before the failure, and the true end of an episode that ended well in the same step; both ours
    assert [final and final["steps"].tolist() for final in final_obs] == [[1, 1], None, [2, 2]]
    assert final_obs[0]["pid"] == pids[0]
    obs, reward, *_ = env.step(np.zeros(3, np.int64))
    assert (obs["steps"][:, 0].tolist(), reward.tolist()) == ([1, 3, 1], [1, 1, 1])
    env.close()


def test_too_many_failures_in_a_row_are_an_error_that_names_environment_and_cause() -> None:
    env, _ = workers(max_retry=2)
    for _ in range(2):
        obs = env.step(np.array([DIE, 0, 0]))[0]
    env.step(np.array([END, 0, 0]))  # an episode that ends well: the next failure is the first one again
    for _ in range(2):
        obs = env.step(np.array([DIE, 0, 0]))[0]
    obs = env.step(np.array([0, RAISE, END]))[0]  # each environment has its own count
    with pytest.raises(EnvError, match=r"^Environment 0 raised ArithmeticError: the pole is on fire \(failure 3 in a"):
        env.step(np.array([RAISE, 0, 0]))
    assert all(gone(pid, 1) for pid in pids_of(obs))
    env.close()


def test_a_worker_that_fails_in_reset_is_replaced_and_reset_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    poison = tmp_path / "poison"
    env, pids = workers(num_envs=2, sick=str(poison))
    poison.touch()
    obs, info = env.reset(seed=5, options={"reset_mask": np.array([False, True])})
    assert caplog.messages[0].startswith("Environment 1 died (exit code -9)")
    assert (pids_of(obs)[0], info["seed"].tolist()) == (pids[0], [0, 6])
    assert pids_of(obs)[1] not in pids
    env.close()
    assert (tmp_path / "poison.closed").exists(), "a worker that is well closes its environment"


@pytest.mark.parametrize(
    ("sick", "cause"),
    [("reset", "ArithmeticError: the pole is on fire"), ("build", r"FileNotFoundError: no such ROM: pong\.bin")],
)
def test_an_environment_that_never_starts_is_an_error(sick: str, cause: str) -> None:
    with pytest.raises(EnvError, match=rf"^Environment 0 raised {cause} \(failure 2 in a row, .*max_retry is 1\)\.$"):
        workers(sick=sick, max_retry=1)


def test_a_reset_starts_the_masked_environments_and_numbers_their_episodes() -> None:
    env, _ = workers(num_envs=2)
    _, info = env.reset(seed=[1, 2], options={"reset_mask": np.array([True, False]), "own": 3})
    assert info["seed"].tolist() == [1, 0]
    assert list(info["options"]) == [str({"own": 3, "episode": np.array([0, 0])}), None]
    env.step(np.array([END, 0]))
    _, _, _, truncated, info = env.step(np.array([0, DIE]))
    # environment 0 is in the episode after its first; environment 1, never seeded since, starts the one after its own
    assert (truncated.tolist(), info["options"][1]) == ([False, True], str({"episode": np.array([1, 1])}))
    assert list(env.reset()[1]["options"]) == [str({"episode": np.array([2, 2])})] * 2
    assert (
        list(env.reset(options={"episode": np.array([7, 8])})[1]["options"]) == [str({"episode": np.array([7, 8])})] * 2
    )
    env.close()


def test_a_step_that_was_interrupted_is_not_taken_for_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess_env, "CLOSE_GRACE", 600.0)
    env, pids = workers(num_envs=2)
    old = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    with pytest.raises(KeyboardInterrupt):
        env.step(np.array([HANG, 0]))
    signal.signal(signal.SIGALRM, old)
    with pytest.raises(EnvError, match="its last step or reset was interrupted"):
        env.step(np.zeros(2, np.int64))
    env.close(terminate=True)
    assert all(gone(pid, 0.5) for pid in pids)
    with pytest.raises(EnvError, match="is closed"):
        env.reset()


@pytest.mark.parametrize("action", [HOLD, *(pytest.param(a, marks=pytest.mark.slow) for a in (0, HANG))])
def test_close_kills_what_does_not_close_in_time(monkeypatch: pytest.MonkeyPatch, action: int) -> None:
    monkeypatch.setattr(subprocess_env, "CLOSE_GRACE", 0.5)
    env, pids = workers(sick="close")
    for worker in env._workers:
        worker.pipe.send(("step", action))
    started = time.monotonic()
    env.close()
    assert time.monotonic() - started < 4
    assert all(gone(pid, 0.5) for pid in pids)


class SimulatorEnv(MoodyEnv):
    """Has a program of its own running, whose process id is the observation."""

    def observe(self) -> Any:
        if not self.count:
            self.program = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        return super().observe() | {"pid": np.array(self.program.pid, np.float64)}


def test_programs_that_an_environment_started_end_with_its_worker() -> None:
    env = SubprocessVectorEnv([SimulatorEnv] * 2, step_timeout=20)
    first = pids_of(env.reset()[0])
    second = pids_of(env.step(np.array([DIE, 0]))[0])
    assert gone(first[0], 2)
    assert not gone(first[1], 0)
    env.close()
    assert all(gone(pid, 2) for pid in second)


class DiceEnv(Toy):
    """Draws from the global generators of NumPy and Python: when it is built, at a reset, and in every step."""

    observation_space = Box(0, 1, (3,), np.float64)

    def __init__(self, cfg_env: Any) -> None:
        self.drawn = random.random()

    def play(self, action: Any) -> Any:
        return 0.0, random.random() < 0.2

    def observe(self) -> np.ndarray:
        return np.array([self.drawn, random.random(), np.random.random()])


def test_a_seed_gives_the_same_draws_from_global_generators_also_after_a_resume() -> None:
    cfg = env_config(manager={"type": "subprocess"})
    envs = [create_vector_env(cfg, 3, seed, True, builders=[DiceEnv] * 3) for seed in (5, 5, 6, 5)]
    with contextlib.ExitStack() as stack:
        for env in envs:
            stack.callback(env.close)
        played = [
            [env.reset()[0].copy(), *(env.step(np.zeros(3, np.int64))[0].copy() for _ in range(20))] for env in envs[:3]
        ]
        assert len(np.unique(played[0])) == 3 + 21 * 3 * 2, "all draws are different"
        np.testing.assert_array_equal(played[0], played[1])
        assert not np.isin(played[0], played[2]).any()
        _, _, restored_N = envs[3].load_state_dict(envs[0].state_dict())  # type: ignore[attr-defined]
        assert restored_N.all()
        after = [[env.step(np.zeros(3, np.int64))[0].copy() for _ in range(20)] for env in (envs[0], envs[3])]
        np.testing.assert_array_equal(after[0], after[1])


def test_workers_import_no_torch_and_take_environments_of_the_script_along(tmp_path: Path) -> None:
    """A script that imported torch, without a `__main__` guard and with an environment class of its own."""
    script = run_script(
        tmp_path,
        """
        import os, sys
        import torch
        import gymnasium, numpy as np
        from ding_lite.envs.subprocess_env import SubprocessVectorEnv

        PARENT = os.getpid()

        class Probe(gymnasium.Env):
            observation_space = gymnasium.spaces.Box(0, 1, (2,), np.float32)
            action_space = gymnasium.spaces.Discrete(2)
            def reset(self, *, seed=None, options=None):
                return np.array(["torch" in sys.modules, os.getpid() == PARENT], np.float32), {}

        env = SubprocessVectorEnv([Probe] * 2, step_timeout=30)
        print("in worker:", env.reset()[0].tolist(), sys.modules["__main__"].__file__.endswith("train.py"))
        env.close()
        """,
    )
    out, err = script.communicate(timeout=100)
    assert script.returncode == 0, err
    assert out.splitlines() == ["in worker: [[0.0, 0.0], [0.0, 0.0]] True"]


WAITING = """
    import ctypes, os, subprocess, sys, time, signal
    import gymnasium, numpy as np
    from ding_lite.envs.subprocess_env import SubprocessVectorEnv

    class Pid(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(0, 1e9, (2,), np.float64)
        action_space = gymnasium.spaces.Discrete(2)
        def __init__(self):
            self.program = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        def observe(self):
            return np.array([os.getpid(), self.program.pid], np.float64)
        def reset(self, *, seed=None, options=None):
            return self.observe(), {}
        def step(self, action):
            time.sleep(0.01)
            if len(ARGV) > 1:
                os.write(1, b"stuck\\n")
            if "sleep" in ARGV:
                time.sleep(600)
            if "hold" in ARGV:
                ctypes.PyDLL(None).sleep(600)
            return self.observe(), 0.0, False, False, {}

    ARGV = sys.argv
    env = SubprocessVectorEnv([Pid] * 2, step_timeout=600)
    asked = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda *_: asked.append(1))
    print(*env.reset()[0].T.reshape(-1).astype(int), env._nursery._process.pid, flush=True)
    while not asked:
        env.step(np.zeros(2, np.int64))
    env.step(np.zeros(2, np.int64))
    env.close()
    print("closed", flush=True)
"""


@pytest.mark.parametrize(
    "number", [signal.SIGINT, *(pytest.param(s, marks=pytest.mark.slow) for s in (signal.SIGTERM, signal.SIGUSR1))]
)
def test_a_signal_to_everyone_is_the_parents_to_handle(tmp_path: Path, number: signal.Signals) -> None:
    script = run_script(tmp_path, WAITING)
    assert script.stdout is not None
    pids = [int(pid) for pid in script.stdout.readline().split()]
    for pid in pids[:2]:
        os.kill(pid, number)  # as a scheduler does, which signals every process of a job
    os.killpg(script.pid, number)  # as a terminal or a launcher does
    out, err = script.communicate(timeout=30)
    assert (script.returncode, out, err) == (0, "closed\n", "")


@pytest.mark.parametrize(
    ("state", "kill"), [("", os.killpg), ("hold", os.kill), pytest.param("sleep", os.kill, marks=pytest.mark.slow)]
)
def test_nothing_outlives_a_killed_parent(tmp_path: Path, state: str, kill: Any) -> None:
    script = run_script(tmp_path, WAITING, *filter(None, [state]))
    assert script.stdout is not None
    pids = [int(pid) for pid in script.stdout.readline().split()]
    assert len(pids) == 5
    assert not state or [script.stdout.readline(), script.stdout.readline()] == ["stuck\n"] * 2
    names = {name for pid in [script.pid, *pids] for name in files_of(pid) if name.startswith(("/dev/shm", "/tmp"))}
    kept = sorted(name for name in names if not name.startswith((sys.prefix, str(ROOT))))  # they may lie in /tmp too
    kill(script.pid, signal.SIGKILL)
    _, err = script.communicate(timeout=30)
    assert all(gone(pid) for pid in pids)
    assert err == ""
    assert kept == [], "a name that a SIGKILL would leave in the file system"
    assert list((tmp_path / "tmp").iterdir()) == []


def files_of(pid: int) -> set[str]:
    """Return the names of the files that a process has open or mapped, but for pytest's."""
    names: list[str] = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            names += [os.readlink(entry)] if int(entry.name) > 2 else []
    return {*names, *re.findall(r"/\S+$", Path(f"/proc/{pid}/maps").read_text(), re.MULTILINE)}


def test_environments_of_different_spaces_are_refused() -> None:
    makes = [partial(gymnasium.make, "CartPole-v1"), partial(gymnasium.make, "Acrobot-v1")]
    with pytest.raises(EnvError, match=r"^Environment 1 has other spaces than environment 0: .*; expected"):
        SubprocessVectorEnv(makes, step_timeout=20)
