"""Actors: processes of Ray that play with the newest weights while the ranks learn.

A rank sends an actor weights and what else acting depends on, and gets a rollout block back. Ray starts the processes,
restarts those that die, and carries weights and blocks in its object store. It is the user's cluster or an instance of
the rank, of which nothing is left behind. Each rank has its own actors; their collector has the methods of
`SampleCollector`, so loops and workers do not know of them.

Shapes: T steps, N environments of an actor, K environments of which something is true.
"""

from __future__ import annotations

import copy
import functools
import glob
import logging
import math
import os
import secrets
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from ding_lite.actors.actor_process import Actor, pack
from ding_lite.policy import Policy
from ding_lite.policy.checkpointed import state_to_act
from ding_lite.run.experiment import NoEnvironments, Source
from ding_lite.run.setup import RunSetup
from ding_lite.run.summary import describe_collecting
from ding_lite.utils.checkpoint.file import to_arrays
from ding_lite.utils.key import get_key
from ding_lite.utils.ranks.collectives import allreduce_data, get_rank, get_world_size
from ding_lite.utils.ranks.heartbeat import heartbeat
from ding_lite.utils.ranks.interrupt import InterruptGuard, restoring_signals
from ding_lite.utils.ranks.launch_environment import set_variables
from ding_lite.utils.registry import ConfigError, UserError, load_extra
from ding_lite.utils.seed import random_state, set_random_state
from ding_lite.utils.tree import tree_map
from ding_lite.worker.collector import to_numpy
from ding_lite.worker.learner import updates_after

START_TIMEOUT = 300.0  # seconds that an actor may take to start, or `actor_timeout` if that is longer
LOOK_PERIOD = 1.0  # seconds between looks for actors that hang, while none has finished
logger = logging.getLogger(__name__)
ACTOR_BYTES = 180 * 2**20  # memory of an actor's process with a small network, most of which is torch
REACH_TIMEOUT = 10.0  # seconds until an address that does not answer counts as wrong
PREFIX = "ding_lite_ray_"  # begins the name of Ray's directory, which must be short because it holds sockets
MARK = "DING_LITE_RAY"  # environment variable of Ray's processes and those that they start: the path of its directory
LOST = "Ray has ended: its {name} was killed, or the machine has too little memory. The last checkpoint can be resumed."
# Read the name of Ray's log of the rank, then wait for a line, and remove the directory $1. If the rank ended without
# it, kill the processes whose environment has the line $2; print $3 if Ray itself ended the rank.
CLEAN_UP = """
read -r log
read -r line || {
  for process in /proc/[0-9]*; do
    if tr '\\0' '\\n' < $process/environ | grep -qxF "$2"; then kill -9 ${process#/proc/}; fi
  done
  if tail -n 1 "$log" | grep -q 'Terminate the process'; then echo "$3" >&3; fi
}
rm -rf "$1"
"""


@dataclass(eq=False)
class Seat:
    """What a rank knows of one of its actors."""

    index: int  # its number among the actors of all ranks
    handle: Any  # Ray's handle
    attempt: int = 0  # number of its failures since the run began or was resumed, at which it began anew
    failures: int = 0  # number of those since its last block
    stage: str = "build"  # the next request: 'answer' until Ray has restarted its process, 'build', 'play'
    state: dict[str, Any] | None = None  # from which its process continues; None: the environments start anew
    cut: Sequence[int] = ()  # the environments `[K]` whose episodes do not continue in the next block
    last_obs: Any = None  # the observations `[N, ...]` after its last block
    request: tuple[Any, ...] = ()  # what it is asked for, and the weights, see `Actor.play`
    ref: Any = None  # Ray's reference to its answer; None: it must be asked again
    begun: float = 0.0  # when it was asked
    answer: Any = None  # its answer to the last request; None: it has not arrived


class Rollout(NamedTuple):
    """What one actor, or all actors of an on-policy run, play with the same weights."""

    seats: list[Seat]
    version: int  # learner iterations before these weights


class ActorCollector(NoEnvironments):
    """Lets this rank's actors play, and hands out the blocks that they have finished.

    With replay, `collect` returns the block of one actor. On-policy, it returns a block of the environments of all
    actors. An actor begins its next rollout as soon as its block is handed out, unless the block would then arrive with
    weights more than `max_lag` learner iterations old. For the same reason, an actor that is slow is waited for before
    others are handed out. Counts are those of the blocks that were handed out.
    """

    reason = "the environments belong to actors: set policy.collect.actors=0, or change env.kwargs"

    def __init__(self, setup: RunSetup, policy: Policy, guard: InterruptGuard, stack: ExitStack) -> None:
        collect, self._world_size = setup.cfg.policy.collect, get_world_size()
        number, on_policy = collect.actors // self._world_size, policy.learns_from == "collect"
        self._policy, self._guard, self._on_policy = policy, guard, on_policy
        self._max_retry, self._timeout = collect.max_retry, collect.actor_timeout
        self._max_lag = 0.0 if on_policy else math.inf
        self._max_lag = self._max_lag if collect.max_lag is None else collect.max_lag
        # With one actor that waits for the rank, and vice versa, both use the random numbers of one process.
        self._shares_random_state = number == 1 and self._max_lag == 0
        per_collect = (collect.n_sample or setup.cfg.env.collector_env_num) * setup.cfg.policy.get("unroll_len", 1)
        updates = updates_after(setup.cfg.policy.learn, per_collect * self._world_size)
        self._num_envs = setup.cfg.env.collector_env_num  # of an actor
        self._updates = math.inf if on_policy else float(updates)  # most learner iterations between two collects
        self._ray = connect(collect.actors, number, stack)
        self._job, self._weights, self._weights_version = self._ray.put(pack(setup, self._ray.cloudpickle)), None, -1
        remote = self._ray.remote(Actor).options(num_cpus=1, max_restarts=-1, max_task_retries=0)
        first = get_rank() * number
        self._count, self._seats = collect.actors, [Seat(first + i, remote.remote()) for i in range(number)]
        stack.callback(self._kill)
        self._idle = [self._seats] if on_policy else [[seat] for seat in self._seats]
        self._running: list[Rollout] = []  # in the order in which they began
        self._last: int | None = None  # learner iterations before the last collect
        self._sums: Any = Counter()

    def collect(self, random: bool = False) -> tuple[dict[str, Any], dict[str, float]]:
        """Return the next block and its figures, see `SampleCollector.collect`; a collective call."""
        heartbeat("collect")
        now = self._policy.iteration
        if self._on_policy and self._last is not None:
            self._updates = float(now - self._last)
        self._last = now
        while self._idle and self._is_in_time(len(self._running)):
            self._begin(self._idle.pop(0), random)
        rollout = self._take()
        block, figures = self._hand_out(rollout, now)
        self._idle.append(rollout.seats)
        while self._idle and self._is_in_time(len(self._running) + 1):
            self._begin(self._idle.pop(0), random)
        return block, figures

    def _is_in_time(self, collects: int) -> bool:
        """Return whether a rollout that begins now may be handed out after `collects` further collects."""
        return collects == 0 or self._max_lag == math.inf or collects * self._updates <= self._max_lag

    def _begin(self, seats: list[Seat], random: bool) -> None:
        """Let actors play with the newest weights."""
        self._check_ray()
        state, version = state_to_act(self._policy), self._policy.iteration
        model = state.pop("model")
        if version != self._weights_version:
            self._weights, self._weights_version = self._ray.put(tree_map(to_numpy, dict(model))), version
        request = {"numbers": state, "envstep": self.envstep, "random": random}
        request["random_state"] = random_state() if self._shares_random_state else None
        self._policy.begin_collect(self.envstep)  # counts, and sets the figures of the log
        for seat in seats:
            seat.request, seat.answer, seat.begun = (request, self._weights), None, time.monotonic()
            self._ask(seat)
        self._running.append(Rollout(seats, version))

    def _ask(self, seat: Seat) -> None:
        """Ask an actor for what it must do next."""
        place = {"index": seat.index, "count": self._count, "state": seat.state}
        place |= {"attempt": seat.attempt, "envstep": self.envstep}
        args = {"answer": (), "build": (self._job, place), "play": seat.request}
        seat.ref = getattr(seat.handle, seat.stage).remote(*args[seat.stage])

    def describe(self) -> str:
        """Return the line of the start-up summary."""
        line = f"{self._count} of Ray, {len(self._seats)} a rank"
        number = int(self._max_lag // self._updates) if self._max_lag < math.inf and not self._on_policy else math.inf
        if number < len(self._seats):
            line += f"; max_lag={self._max_lag} lets {number} of them play while the rank learns"
        return line

    # Waiting.

    def _take(self) -> Rollout:
        """Wait for a rollout that may be handed out now, the oldest if there are several, and remove it."""
        while True:
            eligible = self._eligible()
            for rollout in eligible:
                if self._look(rollout):
                    self._running.remove(rollout)
                    return rollout
            self._wait(eligible)

    def _eligible(self) -> list[Rollout]:
        """Return the running rollouts that may be handed out next without making another one too old."""
        now = self._policy.iteration
        for i, rollout in enumerate(self._running):
            if now - rollout.version + (0 if self._max_lag == math.inf else (i + 1) * self._updates) > self._max_lag:
                return self._running[: i + 1]
        return self._running

    def _wait(self, rollouts: Sequence[Rollout]) -> None:
        heartbeat("collect")
        seats = [seat for rollout in rollouts for seat in rollout.seats]
        if refs := [seat.ref for seat in seats if seat.answer is None and seat.ref is not None]:
            self._ray.wait(refs, num_returns=1, timeout=LOOK_PERIOD)
        else:
            time.sleep(LOOK_PERIOD)

    def _look(self, rollout: Rollout) -> bool:
        """Fetch what has arrived of a rollout, and ask restarted actors again; return whether it is complete."""
        self._check_ray()
        for seat in rollout.seats:
            if seat.answer is not None:
                continue
            now, limit = time.monotonic(), max(self._timeout, 0 if seat.stage == "play" else START_TIMEOUT)
            if seat.ref is None:
                self._ask(seat)
            elif self._ray.wait([seat.ref], timeout=0)[0]:
                self._fetch(seat)
            elif now - seat.begun > limit:
                self._ray.kill(seat.handle, no_restart=False)
                what = "finished its rollout" if seat.stage == "play" else "started"
                reason = f"it has not {what} in {limit:g} seconds (policy.collect.actor_timeout)"
                self._count_failure(seat, reason, "answer")
        return all(seat.answer is not None for seat in rollout.seats)

    def _check_ray(self) -> None:
        """Raise `RuntimeError` if a process has ended that this rank's Ray needs: Ray would end the rank silently."""
        for name, _ in self._ray._private.worker._global_node.dead_processes():
            if name in ("raylet", "gcs_server"):
                raise RuntimeError(LOST.format(name=name))

    def _fetch(self, seat: Seat) -> None:
        """Take an answer that has arrived, or an error in its place."""
        errors = self._ray.exceptions
        try:
            answer = self._ray.get(seat.ref)
        except errors.RayTaskError as error:
            if isinstance(error.cause, UserError):
                raise type(error.cause)(str(error.cause)) from None
            reason = f"{type(error.cause).__name__}: {' '.join(str(error.cause).split())[:200]}"
            self._count_failure(seat, reason, "build")
        except errors.RayError as error:
            died = isinstance(error, errors.RayActorError)
            if died and seat.stage == "answer":  # Ray refuses requests while it restarts a process
                seat.ref = None
            else:
                reason = "its process died" if died else f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
                self._count_failure(seat, reason, "answer")
        else:
            self._accept(seat, answer)

    def _accept(self, seat: Seat, answer: dict[str, Any] | None) -> None:
        """Store an actor's block, or let it play if it only answers that it is ready."""
        if answer is None:
            seat.stage, seat.begun = {"answer": "build", "build": "play"}[seat.stage], time.monotonic()
            self._ask(seat)
            return
        seat.answer, lost = answer, answer["lost"]
        if lost and seat.last_obs is not None:
            if not seat.failures:
                logger.warning("Actor %d: environments %s are not restored: they start new episodes.", seat.index, lost)
            seat.cut = lost
        seat.failures, seat.state = 0, None

    def _count_failure(self, seat: Seat, reason: str, stage: str) -> None:
        """Count and tell a failure of an actor, which goes on with `stage`, see `Seat`."""
        seat.ref, seat.begun, seat.stage = None, time.monotonic(), stage
        seat.failures += 1
        seat.attempt += 1
        if seat.failures > self._max_retry:
            raise UserError(f"Actor {seat.index} failed {seat.failures} times in a row. The last time, {reason}.")
        logger.warning(
            "Actor %d failed: %s. It is replaced, and its episodes are truncated (failure %d, at most %d in a row).",
            *(seat.index, reason, seat.failures, self._max_retry),
        )

    # What has arrived.

    def _hand_out(self, rollout: Rollout, now: int) -> tuple[dict[str, Any], dict[str, float]]:
        """Return the block of a complete rollout and the figures of all ranks, and count them."""
        answers = [seat.answer for seat in rollout.seats]
        blocks = [tree_map(lambda leaf: torch.from_numpy(leaf.copy()), answer["block"]) for answer in answers]
        for seat, block in zip(rollout.seats, blocks, strict=True):
            if len(seat.cut) and not self._on_policy:
                obs = tree_map(lambda leaf, seat=seat: leaf[list(seat.cut)], seat.last_obs)
                block["cut"] = {"env": torch.tensor(list(seat.cut)), "obs": obs}
            seat.cut, seat.last_obs, seat.answer = (), block["last_obs"], None
        if self._shares_random_state:
            set_random_state(answers[0]["random"])
        block = join_blocks(blocks)
        if not self._on_policy:
            block["actor"] = torch.tensor(self._seats.index(rollout.seats[0]))
        played: Any = Counter()
        for answer in answers:
            played.update(answer["figures"])
        self._sums.update(lag=now - rollout.version, blocks=1, seconds=played["duration"], env_step=played["env_step"])
        played["duration"] /= len(self._seats)  # they play at the same time
        total = allreduce_data({**played, "rank": 1, "interrupt": int(self._guard.requested)})
        self.envstep += int(total["env_step"])
        self.episode_count += int(total["episode"])
        self.interrupted = total["interrupt"] > 0
        total["duration"] /= total.pop("rank")
        return block, total

    def figures(self) -> dict[str, float]:
        """Return the means since the last call: the lag of a block, and the env steps that an actor plays a second."""
        sums = allreduce_data({"blocks": 0, "seconds": 0.0, "lag": 0, "env_step": 0, **self._sums})
        self._sums = Counter()
        if not sums["blocks"]:
            return {}
        pace = sums["env_step"] / max(sums["seconds"], 1e-9)
        return {"actors/lag": sums["lag"] / sums["blocks"], "actors/env_step_per_second": pace}

    # Checkpoints.

    def local_state_dict(self) -> dict[str, Any]:
        """Return the state of each of this rank's actors, and its running rollout, which is waited for.

        The `order` of a rollout is its place among those that are running, and `version` that of `Rollout`.
        """
        running: dict[Seat, dict[str, Any]] = {}
        for order, rollout in enumerate(self._running):
            while not self._look(rollout):
                self._wait([rollout])
            for seat in rollout.seats:
                block = tree_map(torch.from_numpy, tree_map(np.copy, seat.answer["block"]))
                running[seat] = {"order": order, "version": rollout.version, "answer": seat.answer | {"block": block}}
        own = [{"last_obs": seat.last_obs, "cut": list(seat.cut), "rollout": running.get(seat)} for seat in self._seats]
        actors = [{"state": self._ask_state(seat), **each} for seat, each in zip(self._seats, own, strict=True)]
        return {"actors": actors, "num_envs": self._num_envs}

    def _ask_state(self, seat: Seat) -> dict[str, Any] | None:
        """Return an actor's state; None if it has none, because it has not played or has just died."""
        played = seat.last_obs is not None or any(seat in rollout.seats for rollout in self._running)
        if seat.state is not None or not played:
            return seat.state
        with suppress(self._ray.exceptions.RayError):
            return self._ray.get(seat.handle.state.remote(), timeout=self._timeout)
        return None

    def load_local_state_dict(self, state: dict[str, Any]) -> list[int]:
        """Restore a state that `local_state_dict` returned; an actor restores its own when it plays next."""
        saved = dict(zip(self._seats, state["actors"], strict=True))
        for seat, own in saved.items():
            seat.state, seat.last_obs, seat.cut = own["state"], own["last_obs"], own["cut"]
            seat.attempt = int(seat.state is None and seat.last_obs is not None)
        running = [seats for seats in self._idle if all(saved[seat]["rollout"] for seat in seats)]
        for seats in sorted(running, key=lambda seats: saved[seats[0]]["rollout"]["order"]):
            self._idle.remove(seats)
            for seat in seats:
                answer = saved[seat]["rollout"]["answer"]
                seat.answer = answer | {"block": to_arrays(answer["block"])}
            self._running.append(Rollout(seats, saved[seats[0]]["rollout"]["version"]))
        return []

    def _kill(self) -> None:
        for seat in self._seats:
            with suppress(self._ray.exceptions.RayError):
                self._ray.kill(seat.handle)


def join_blocks(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the rollout blocks `[T, N, ...]` of several actors as one block of all their environments."""
    if len(blocks) == 1:
        return blocks[0]
    num_envs, total = blocks[0]["reward"].shape[1], sum(block["reward"].shape[1] for block in blocks)
    first = blocks[0].keys() - {"final_index", "final_obs", "last_obs"}
    joined = {key: tree_map(lambda *leaves: torch.cat(leaves, 1), *(block[key] for block in blocks)) for key in first}
    joined["last_obs"] = tree_map(lambda *leaves: torch.cat(leaves), *(block["last_obs"] for block in blocks))
    ended = [(i * num_envs, block) for i, block in enumerate(blocks) if "final_index" in block]
    if ended:
        places = [index // num_envs * total + index % num_envs + n for n, b in ended for index in [b["final_index"]]]
        place_K, order_K = torch.cat(places).sort()
        final = tree_map(lambda *leaves: torch.cat(leaves)[order_K], *(block["final_obs"] for _, block in ended))
        joined |= {"final_index": place_K, "final_obs": final}
    return joined


def play_apart(setup: RunSetup, policy: Policy, guard: InterruptGuard, stack: ExitStack) -> Source:
    """Return a source of rollout blocks that actors play, see `Experiment`."""
    count, ranks = setup.cfg.policy.collect.actors, get_world_size()
    if count % ranks:
        near = count // ranks * ranks
        raise ConfigError(
            f"policy.collect.actors={count} cannot be divided among {ranks} ranks: set it to "
            f"{f'{near} or ' * bool(near)}{near + ranks}."
        )
    n_sample = setup.cfg.policy.collect.n_sample or 0
    size = get_key(setup.cfg, "policy.other.replay_buffer.replay_buffer_size")
    if size is not None and n_sample > (part := size * ranks // count):
        raise ConfigError(
            f"policy.collect.n_sample={n_sample} exceeds an actor's part of the replay buffer, which is {part} of "
            f"policy.other.replay_buffer.replay_buffer_size={size}: enlarge the buffer."
        )
    collector = ActorCollector(setup, policy, guard, stack)
    sizes = copy.deepcopy(setup.cfg)
    sizes.policy.divide = False  # an actor has the sizes of its rank
    lines = {**describe_collecting(sizes, "an actor", count), "actors": collector.describe()}
    return Source(collector, lines, setup.limits["max_env_step"], figures=collector.figures)


def connect(actors: int, own: int, stack: ExitStack) -> Any:
    """Return the module `ray`, connected: to a running instance if there is one, else to a new one for this rank.

    Without RAY_ADDRESS, each rank starts an instance on its machine, which `stack` ends. `actors` is the number of all
    ranks, `own` that of this rank; `stack` disconnects.
    """
    stack.enter_context(set_variables(_variables()))
    ray = load_extra("ray", "ray", "policy.collect.actors")
    if ray.is_initialized():  # by the user's script
        _check_cpus(ray, actors)
        return ray
    ray._private.worker.listen_error_messages = lambda *args: None  # prints ten lines for an actor that dies
    logging.getLogger("ray").setLevel(logging.ERROR)
    quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False, "logging_level": logging.ERROR}
    address = os.environ.get("RAY_ADDRESS")
    if address:
        check_reachable(address)
    else:
        _check_memory(own)
        _close_to_others(ray, stack)
    folder, tell_log = stack.enter_context(_directory())
    if not address:
        own_instance = {"num_cpus": own, "num_gpus": 0, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
        quiet |= own_instance | {"_temp_dir": os.path.join(folder, "r")}  # Ray makes this one writable for everybody
    stack.callback(ray.shutdown)
    try:
        with restoring_signals(), set_variables({MARK: folder}):  # Ray replaces the handler of SIGTERM
            ray.init(address=address or "local", **quiet)
    except Exception as error:  # Ray raises this class itself, for instance if it does not start in time
        where = f"RAY_ADDRESS={address}" if address else "this machine"
        raise ConfigError(f"Ray cannot be used on {where}: {' '.join(str(error).split())[:200]}") from error
    tell_log(ray._private.worker._global_node.get_logs_dir_path())
    if address:
        _check_cpus(ray, actors)
    return ray


def _close_to_others(ray: Any, stack: ExitStack) -> None:
    """Let the instance that Ray starts listen on the loopback address only, and demand the token of `_variables`.

    Ray reads both settings when it is imported, which the user's script may have done. `stack` restores them.
    """
    if not hasattr(ray._raylet, "get_authentication_mode"):
        raise ConfigError(
            f"Ray {ray.__version__} lets every user of this machine in, because it has no tokens: pip install "
            "'ding_lite[ray]', which needs Ray 2.52 or newer."
        )
    ray._raylet.Config.initialize("")
    constants = ray._private.ray_constants
    stack.callback(setattr, constants, "ENABLE_RAY_CLUSTER", constants.ENABLE_RAY_CLUSTER)
    constants.ENABLE_RAY_CLUSTER = False


@functools.cache
def _variables() -> dict[str, str]:
    """Return the environment variables of Ray, some of which it sets itself and leaves behind."""
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_CLIENT_MODE": "0"}
    if "RAY_ADDRESS" in os.environ:
        return quiet
    # Only processes with this token can use the instance. Ray would leave one in the user's home.
    return quiet | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


def check_reachable(address: str) -> None:
    """Raise `ConfigError` if nothing listens at `host:port`. Ray would try for minutes, and then end the process."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdigit()):  # 'auto', for instance
        return
    try:
        socket.create_connection((host, int(port)), timeout=REACH_TIMEOUT).close()
    except OSError as error:
        raise ConfigError(
            f"RAY_ADDRESS={address} cannot be reached: {error.strerror or error}. Start Ray there by 'ray start "
            "--head', or unset RAY_ADDRESS to let the actors play on this machine."
        ) from None


def _check_memory(actors: int) -> None:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if actors * ACTOR_BYTES > total:
        raise ConfigError(
            f"policy.collect.actors: {actors} processes of a rank need {actors * ACTOR_BYTES / 2**30:.3g} GiB, but "
            f"this machine has {total / 2**30:.3g} GiB: set fewer, or RAY_ADDRESS to use a cluster."
        )


def _check_cpus(ray: Any, actors: int) -> None:
    cpus = int(ray.cluster_resources().get("CPU", 0))
    if cpus < actors:
        raise ConfigError(
            f"policy.collect.actors={actors}, but the Ray cluster has {cpus} CPUs, and each actor needs one: set at "
            f"most {cpus}, or add machines."
        )


@contextmanager
def _directory() -> Iterator[tuple[str, Callable[[str], None]]]:
    """Create a directory that only this user may enter, and a shell that removes it when this process has ended.

    Yield the directory, and a function that tells the shell where Ray's logs are. If this process was killed, the shell
    also kills Ray's processes, some of which would notice that only a minute later. They are those with the variable
    `MARK`; others, such as a user's `tail -f` of Ray's logs, go on.
    """
    path = os.path.realpath(tempfile.mkdtemp(prefix=PREFIX))
    rank = f"[rank {get_rank()}] " if get_world_size() > 1 else ""
    command = ["sh", "-c", f"exec 3>&2 2>/dev/null\n{CLEAN_UP}", "sh", path, f"{MARK}={path}"]
    command.append(f"{rank}{LOST.format(name='raylet')}")
    shell = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True, text=True
    )
    assert shell.stdin is not None

    def tell_log(folder: str) -> None:
        log = glob.glob(f"{glob.escape(folder)}/python-core-driver-*_{os.getpid()}.log")
        print(*log, file=shell.stdin, flush=True)

    try:
        yield path, tell_log
    finally:
        shell.communicate("\n\n")
