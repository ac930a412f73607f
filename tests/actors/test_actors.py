"""Actors of Ray: the run is that without actors, or keeps its counts, and actors that fail are replaced."""

from __future__ import annotations

import glob
import ipaddress
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium
import pytest
import torch

from ding_lite.actors.actor_process import Actor, check_versions, pack
from ding_lite.actors.actors import LOST, check_reachable, connect, join_blocks
from ding_lite.entry import Callback, serial_pipeline, serial_pipeline_onpolicy
from ding_lite.run.setup import prepare_run
from ding_lite.utils import ConfigError, UserError
from ding_lite.utils.checkpoint.origin import library_versions
from ding_lite.worker.dealing import deal
from tests.distributed.launcher import find_marked, finish, run_forked, start
from tests.distributed.parity import take_columns
from tests.run.helpers import CONFIG, curves, pair, result
from tests.run.test_resume import PAIRS, SHORT, last_state
from tests.survival.common import differences, logged_iter, wait_until
from tests.worker.replay.history import History

cartpole_a2c_config, cartpole_pg_config = (
    import_module(f"dizoo.classic_control.cartpole.config.{name}")
    for name in ("cartpole_a2c_config", "cartpole_pg_config")
)
pendulum_sac_config = import_module("dizoo.classic_control.pendulum.config.pendulum_sac_config")

pytest.importorskip("ray")
SAC = [
    *("policy.random_collect_size=32", "policy.learn.batch_size=32", "policy.learn.update_per_collect=4"),
    *("policy.learn.learner.hook.log_show_after_iter=7", "policy.eval.evaluator.eval_freq=40"),
]
ALGORITHMS: dict[str, Any] = {name: (*PAIRS[name], SHORT[name]) for name in ("dqn", "r2d2", "ppo")}
REFUSED: dict[str, Any] = {
    name: (config, serial_pipeline_onpolicy, [])
    for name, config in (("a2c", cartpole_a2c_config), ("pg", cartpole_pg_config))
}
ALGORITHMS["sac"] = (pendulum_sac_config, serial_pipeline, SAC)


@pytest.fixture(scope="module", autouse=True)
def ray() -> Iterator[Any]:
    """Start Ray once: runs use an instance that is there."""
    with ExitStack() as stack:
        yield connect(4, 4, stack)


def train(name: str, folder: str, *overrides: str, **limits: Any) -> Path:
    config, pipeline, short = (ALGORITHMS | REFUSED)[name]
    limits = {"max_env_step": 256} | limits
    pipeline(
        (config.main_config, config.create_config),
        seed=0,
        overrides=(f"exp_name={folder}", *short, *overrides),
        **limits,
    )
    return Path(folder)


def whole_state(folder: Path, actor: bool = False) -> dict[str, Any]:
    """Return all that a checkpoint holds, with an actor's environments and memory in their usual places."""
    state = last_state(str(folder))
    own = state["local"]
    if actor:
        (seat,) = own["collector"]["actors"]
        own |= {"collector": seat["state"]["collector"], "collect_mode": seat["state"]["policy"]}
    return state


@pytest.mark.parametrize(
    "name", ["ppo", *(pytest.param(name, marks=pytest.mark.slow) for name in ("dqn", "r2d2", "sac"))]
)
def test_one_actor_without_lag_is_the_run_without_actors(name: str) -> None:
    alone = train(name, "alone")
    apart = train(name, "apart", "policy.collect.actors=1", "policy.collect.max_lag=0")
    assert not differences(whole_state(alone), whole_state(apart, actor=True))
    rows = [
        [{k: v for k, v in row.items() if not k.startswith("actors/")} for row in curves(f)] for f in (alone, apart)
    ]
    assert rows[0] == rows[1]


class Lags(Callback):
    """Notes the lag of every collect."""

    def __init__(self) -> None:
        self.lags: list[float] = []

    def after_collect(self, run: Any, figures: Any) -> None:
        self.lags.append(run.collector.figures()["actors/lag"])


# 5 iterations a collect: with 3 actors the lag would be 15; PPO's are 2 epochs of 2 x 64 / 32 minibatches.
@pytest.mark.parametrize(
    ("name", "actors", "max_lag", "largest"), [("dqn", 3, 10, 10), ("ppo", 2, 7, 0), ("ppo", 2, 8, 8)]
)
@pytest.mark.slow
def test_no_block_is_older_than_max_lag(name: str, actors: int, max_lag: int, largest: int) -> None:
    watch = Lags()
    words = (f"policy.collect.actors={actors}", f"policy.collect.max_lag={max_lag}", "env.stop_value=None")
    folder = train(name, "run", *words, max_env_step=1024, callbacks=[watch])
    assert max(watch.lags) == largest
    assert result(folder)["envstep"] == 1024


def test_the_blocks_of_several_actors_are_the_block_of_all_their_environments() -> None:
    whole = History(6, 1).play(9)
    parts = [take_columns(whole, columns) for columns in (range(3), range(3, 6))]
    assert not differences(dict(sorted(whole.items())), dict(sorted(join_blocks(parts).items())))


RESUME = ("exp_name=parts", "policy.learn.resume_training=True")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dqn", "ppo"])
def test_a_resumed_run_with_one_actor_equals_the_whole_run(name: str) -> None:
    words = ("policy.collect.actors=1", "policy.collect.max_lag=0", "env.stop_value=None")
    whole = train(name, "whole", *words)
    train(name, "parts", *words, max_env_step=128)
    time.sleep(1.0)  # or TensorBoard gives the next file the same name
    assert not differences(whole_state(whole, True), whole_state(train(name, "parts", *words, *RESUME), True))


def played(folder: Path) -> Iterator[dict[str, torch.Tensor]]:
    """Yield what replay and rollouts on their way hold of each actor: columns `[T, N]`, from the oldest row on."""
    local = last_state(str(folder))["local"]
    ring = local["replay"]["ring"]
    for number, part in enumerate([ring, *ring["others"]]):
        assert part["size"] == part["cursor"]
        columns = {"episode_step": part["episode_step"], "traj_flag": part["columns"]["traj_flag"]}
        columns = {key: column.view(part["size"], -1) for key, column in columns.items()}
        if rollout := local["collector"]["actors"][number]["rollout"]:
            block, lost = rollout["answer"]["block"], rollout["answer"]["lost"]
            columns["traj_flag"][-1, lost] = True  # as when the block arrives
            columns = {key: torch.cat([column, block[key]]) for key, column in columns.items()}
        yield columns


@pytest.mark.slow
def test_episodes_go_on_when_a_run_with_lag_is_resumed() -> None:
    words = ("policy.collect.actors=2", "env.stop_value=None", "policy.random_collect_size=0")
    for more, limit in (((), 256), (RESUME, 512)):
        folder = train("dqn", "parts", *words, *more, max_env_step=limit)
        assert result(folder)["envstep"] == limit
        time.sleep(1.0)
    actors = list(played(folder))
    assert sum(len(columns["traj_flag"]) for columns in actors) >= 512 // 8  # rows of 8 environments
    for columns in actors:
        step_TN, cut_TN = columns["episode_step"], columns["traj_flag"]
        assert torch.equal(step_TN[1:], torch.where(cut_TN[:-1], 0, step_TN[:-1] + 1))


@pytest.mark.slow
def test_actors_come_back_from_other_numbers_of_ranks() -> None:
    words = ("policy.collect.actors=4", "policy.priority=True", "env.norm_reward=True", "policy.collect.n_sample=16")
    whole = last_state(str(train("dqn", "run", *words)))["local"]
    assert sum(actor["rollout"] is not None for actor in whole["collector"]["actors"]) > 1
    states, rows = [whole], whole["replay"]["layout"]["num_rows"]
    for ranks, actors in ((2, [2, 2]), (4, [1, 1, 1, 1]), (3, [2, 1, 1]), (1, [4])):
        states = [deal(states, (), rank, ranks, 4, rows, 0, "iteration_1") for rank in range(ranks)]
        assert [len(state["collector"]["actors"]) for state in states] == actors
    assert not differences(states[0], whole)


class Faulty(gymnasium.Wrapper):
    """CartPole that dies, raises or hangs where a file of this name is; only once."""

    def __init__(self, cfg: dict[str, Any]) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))
        self.folder, self.left = Path(cfg["folder"]), 20

    def step(self, action: Any) -> Any:
        self.left -= 1
        for name in ("die", "raise", "hang") if self.left <= 0 else ():
            with suppress(FileNotFoundError):
                (self.folder / name).unlink()
                self.left = 20
                if name == "die":
                    os._exit(1)
                time.sleep(1000 if name == "hang" else 1 / 0)
        return super().step(action)


@pytest.mark.slow
def test_an_actor_that_dies_raises_or_hangs_is_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("die", "raise", "hang"):
        (tmp_path / name).touch()
    envs = (Faulty, [{"folder": str(tmp_path)}] * 2, [{"folder": "nowhere"}])
    words = ("exp_name=run", "policy.collect.actors=2", "policy.collect.actor_timeout=10")
    serial_pipeline(pair(), env_setting=envs, max_env_step=600, overrides=words)
    for columns in played(Path("run")):  # a new episode begins only where the one before is cut
        step_TN, cut_TN = columns["episode_step"], columns["traj_flag"]
        assert cut_TN[:-1][step_TN[1:] == 0].all()
    lines = [line for line in caplog.messages if line.startswith("Actor")]
    assert len(lines) == 3, lines
    for cause in (
        "its process died",
        "ZeroDivisionError: division by zero",
        "has not finished its rollout in 10 seconds",
    ):
        assert sum(cause in line for line in lines) == 1
    assert result(Path("run"))["envstep"] == 600


@pytest.mark.slow
def test_an_actor_that_begins_anew_plays_episodes_of_its_own(ray: Any) -> None:
    setup = prepare_run(pair(), 0, overrides=("policy.collect.actors=1",), pipeline="serial_pipeline", limits={})
    job, actor, seeds = pack(setup, ray.cloudpickle), ray.remote(Actor).remote(), []
    for attempt, envstep in ((0, 0), (1, 64), (2, 64), (1, 128)):  # the last one after the run was resumed
        place = {"index": 0, "count": 1, "attempt": attempt, "envstep": envstep, "state": None}
        ray.get(actor.build.remote(job, place))
        seeds += ray.get(actor.state.remote())["collector"]["env"]["seed"].tolist()
    assert len(set(seeds)) == len(seeds) == 4 * setup.cfg.env.collector_env_num


def find_left(folder: str, mark: str) -> list[int]:
    """Return the processes that have a file below a folder open, or were started with a mark, see `start`."""
    found = set(find_marked(mark))
    for opened in glob.glob("/proc/[0-9]*/fd/*"):  # that of pathlib raises if a process ends meanwhile
        with suppress(OSError):  # it is closed, or another user's
            if os.readlink(opened).startswith(f"{folder}/"):
                found.add(int(opened.split("/")[2]))
    return sorted(found)


@pytest.mark.parametrize("killed", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_two_ranks_with_actors_learn_as_one_and_leave_nothing_even_if_one_is_killed(
    killed: bool, tmp_path: Path
) -> None:
    words = ["exp_name=run", *SHORT["dqn"], "policy.collect.actors=2", f"max_env_step={10**7 if killed else 512}"]
    words += ["policy.learn.learner.hook.check_ranks_after_iter=10", "env.stop_value=None"]
    words += ["--divide", "policy.collect.n_sample=16"]
    command = [sys.executable, "-m", "ding_lite", "-c", str(CONFIG), "--nproc", "2", *words]
    with tempfile.TemporaryDirectory(prefix="t") as folder, ExitStack() as stack:  # short: Ray's sockets are in it
        process = start(command, {"TMPDIR": folder}, tmp_path)
        mark = process.mark  # type: ignore[attr-defined]
        try:
            if killed:
                wait_until(lambda: logged_iter(tmp_path / "run") > 20, process, 250)
                (rank,) = [pid for pid in find_marked(mark) if _rank(pid, process.pid) == "1"]
                assert len(list(Path(folder).glob("ding_lite_ray_*"))) == 2
                logs = list(Path(folder).glob("ding_lite_ray_*/r/session_2*/logs/raylet.out"))
                stack.enter_context(reader := subprocess.Popen(["tail", "-f", *logs], stdout=subprocess.DEVNULL))
                stack.callback(reader.kill)
                os.kill(rank, signal.SIGKILL)
            process.wait(250)
            left = [reader.pid] if killed else []  # the user's own process goes on
            wait_until(lambda: find_left(folder, mark) == left and not [*Path(folder).glob("ding_lite_*")], seconds=250)
            assert not killed or reader.poll() is None
        finally:
            done = finish(process, 10)
    if killed:
        assert done.returncode == 1
        assert f"(pid {rank}) was killed by SIGKILL" in " ".join(done.stderr.split())
        return
    told = result(tmp_path / "run")
    assert (told["envstep"], told["world_size"], told["stop_reason"]) == (512, 2, "max_env_step")
    assert told["train_iter"] > 20
    command = [sys.executable, "-m", "ding_lite", "resume", "run", "max_env_step=1024"]
    done = finish(start([*command, "policy.collect.actors=3"], {}, tmp_path), 250)
    assert "The checkpoint has 2 actors, and this run has 3: set policy.collect.actors=2." in done.stderr
    done = finish(start(command, {}, tmp_path), 250)
    assert done.returncode == 0, done.stderr
    assert "1 rank(s) continue a run of 2: they share 2 actors and batches of 64." in done.stderr
    told = result(tmp_path / "run")
    assert (told["envstep"], told["world_size"]) == (1024, 1)
    for columns in played(tmp_path / "run"):
        step_TN, cut_TN = columns["episode_step"], columns["traj_flag"]
        assert torch.equal(step_TN[1:], torch.where(cut_TN[:-1], 0, step_TN[:-1] + 1))


def _rank(pid: int, launcher: int) -> str:
    """Return the rank of a process that a launcher has started; empty if it is none."""
    with suppress(OSError):  # it has ended
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        variables = dict(word.partition("=")[::2] for word in Path(f"/proc/{pid}/environ").read_text().split("\0"))
        return variables.get("RANK", "") if parent == launcher else ""
    return ""


def test_only_this_user_on_this_machine_reaches_ray(ray: Any) -> None:
    node = ray._private.worker._global_node
    folder = Path(node.get_session_dir_path()).parents[1]
    assert (folder.name[:14], folder.stat().st_mode & 0o777) == ("ding_lite_ray_", 0o700)
    assert len(f"{node.get_sockets_dir_path()}/plasma_store") <= 107  # bytes that the name of a socket may have
    assert ray._raylet.get_authentication_mode() == ray._raylet.AuthenticationMode.TOKEN
    own = {os.getpid(), *find_marked(str(folder), "DING_LITE_RAY")}
    addresses = {address for pid in own for address in listening(pid)}
    assert addresses == {ipaddress.ip_address("127.0.0.1")}


def listening(pid: int) -> Iterator[Any]:
    """Yield the addresses at which a process listens for connections."""
    inodes = set()
    for opened in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            inodes.add(os.readlink(opened))
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == "0A" and f"socket:[{inode}]" in inodes:
                words = [int(local[i : i + 8], 16) for i in range(0, len(local.partition(":")[0]), 8)]
                found = ipaddress.ip_address(b"".join(word.to_bytes(4, sys.byteorder) for word in words))
                yield getattr(found, "ipv4_mapped", None) or found


LOSE = """
import os, sys
from contextlib import ExitStack
from types import SimpleNamespace
from ding_lite.actors.actors import ActorCollector, connect

with ExitStack() as stack:
    ray = connect(1, 1, stack)
    (raylet,) = ray._private.worker._global_node.all_processes["raylet"]
    raylet.process.kill()
    raylet.process.wait()
    if sys.argv[1] == "notices":
        ActorCollector._check_ray(SimpleNamespace(_ray=ray))
    ray.put(bytes(10**6))  # ends the process in C++
"""


@pytest.mark.parametrize("who", ["notices", pytest.param("does not notice", marks=pytest.mark.slow)])
def test_a_rank_that_loses_ray_says_so(who: str) -> None:
    done = run_forked(["-c", LOSE, who], status=1)
    assert done.stderr.rstrip().endswith(LOST.format(name="raylet"))


def test_bad_input_gives_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def message(*overrides: str, name: str = "dqn") -> str:
        with pytest.raises(UserError) as error:
            train(name, "run", *overrides)
        return str(error.value)

    assert "actors=5, but the Ray cluster has 4 CPUs" in message("policy.collect.actors=5")
    large = [f"policy.{key}" for key in ("other.replay_buffer.replay_buffer_size=128", "collect.n_sample=64")]
    assert "n_sample=64 exceeds an actor's part of the replay buffer, which is 32 of" in message(
        "policy.collect.actors=4", *large
    )
    lagging = ("policy.collect.actors=1", "policy.collect.max_lag=3")
    assert "'a2c' is strictly on-policy" in message(*lagging, name="a2c")
    assert "'pg' learns from whole episodes" in message("policy.collect.actors=1", name="pg")
    with pytest.raises(UserError, match=r"has torch .* and that of the ranks has 1\.0: install the same"):
        check_versions(library_versions() | {"torch": "1.0"})
    with pytest.raises(ConfigError, match=r"RAY_ADDRESS=127\.0\.0\.1:1 cannot be reached"):
        check_reachable("127.0.0.1:1")
    train("dqn", "alone")
    words = ("exp_name=alone", "policy.learn.resume_training=True", "policy.collect.actors=2")
    assert "The checkpoint has 0 actors, and this run has 2: set policy.collect.actors=0." in message(*words)
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
    assert message("policy.collect.actors=1").startswith("policy.collect.actors needs the extra 'ray' (")


def test_environments_that_cannot_be_sent_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(build: Any) -> None:
        words = ("exp_name=run", "policy.collect.actors=1", "policy.collect.actor_timeout=60")
        serial_pipeline(pair(), env_setting=(build, [{}], [{}]), max_env_step=600, overrides=words)

    lock = threading.Lock()
    with pytest.raises(ConfigError, match=r"module tests\.actors\.test_actors.*cannot pickle '_thread.lock'"):
        run(lambda cfg: (lock, gymnasium.make("CartPole-v1"))[1])
    module = types.ModuleType("only_here")  # a module that the machine of an actor does not have
    monkeypatch.setitem(sys.modules, "only_here", module)
    exec("import gymnasium\ndef build(cfg):\n    return gymnasium.make('CartPole-v1')", vars(module))
    with pytest.raises(UserError, match=f"machine '{socket.gethostname()}' cannot import only_here"):
        run(module.build)
