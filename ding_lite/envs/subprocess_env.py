"""Runs each environment in its own process, and replaces processes that fail; `worker_process` has their code.

gymnasium's AsyncVectorEnv cannot replace a single worker: a step needs the answers of all workers, and a killed worker
may still hold locks.
"""

from __future__ import annotations

import logging
import os
import pickle
import select
import socket
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import CloudpickleWrapper, batch_space, iterate

from ding_lite.envs.returned import EnvError
from ding_lite.envs.seeded_env import MixedInfos
from ding_lite.envs.worker_process import LOST, START_TIMEOUT, Nursery, share_observations
from ding_lite.utils.registry import UserError
from ding_lite.utils.seed import derive_seeds

CLOSE_GRACE = 5.0  # seconds that workers have to close their environments before they are killed
LONGEST_WAIT = 86400.0  # seconds; poll() accepts at most 24 days
logger = logging.getLogger(__name__)


class WorkerError(Exception):
    """A worker did not answer or reported an error; the message says which."""


@dataclass
class Worker:
    """The parent's data about a worker process."""

    pid: int  # its process id
    pipe: Connection  # connection to it
    poll: select.poll  # waits for data in the pipe
    fresh: bool = True  # whether it has not answered yet; it may still be building its environment


class SubprocessVectorEnv(MixedInfos):
    """A vector environment with one process per environment: SAME_STEP mode, observations in shared memory.

    A worker that dies, raises an error, or does not answer in time is replaced by a new one. The other environments are
    not affected. In that step, the episode of the failed environment is truncated with reward 0, `info["final_obs"]` is
    the last observation before the failure, and the new worker starts the next episode. An environment that fails in
    `reset` is reset again. Episodes are numbered as in `SeededEnv`.

    Args:
        env_fns: functions that each create one environment; they are called in the workers.
        step_timeout: seconds within which a worker must answer a step or a reset.
        max_retry: how many times in a row an environment may fail. An episode without a failure resets the count.
        seed: the global generators of Python and NumPy in the workers are seeded with numbers derived from it before
            the environments are built, and by `SeededEnv` before each episode.

    Raises:
        EnvError: any method raises it if an environment has failed more often, or raised a `UserError`; all workers are
            then stopped.
    """

    def __init__(
        self, env_fns: Sequence[Callable[[], gymnasium.Env]], step_timeout: float, max_retry: int = 3, seed: int = 0
    ) -> None:
        self.num_envs = len(env_fns)
        self._build_seeds = derive_seeds(seed, "build", n=self.num_envs)
        self._env_fns, self._step_timeout, self._max_retry = env_fns, step_timeout, max_retry
        self._failures = [0] * self.num_envs
        self._seeds: list[int | None] = [None] * self.num_envs
        self._attributes: list[dict[str, Any]] = [{} for _ in env_fns]  # what `set_attr` has set
        self._unstarted: set[int] = set()  # environments that have no episode, because `set_attr` replaced their worker
        self._episode_N = np.full(self.num_envs, -1, np.int64)
        self._busy = False
        self._memory = os.memfd_create("observations")
        self._nursery = Nursery(self._memory, CLOSE_GRACE)
        self._workers: list[Worker] = []
        try:
            self._workers.extend(self._start_worker(index) for index in range(self.num_envs))
            answers = self._insist(dict.fromkeys(range(self.num_envs), ("describe",)))
            self._set_spaces([answers[index] for index in range(self.num_envs)])
        except BaseException:
            self.close(terminate=True)
            raise

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start a new episode in every environment.

        Args:
            seed: one seed per environment, or one number to which the index of each environment is added.
            options: passed to the environments, except `reset_mask`, bool `[N]`: which environments to reset.
                `episode`, int `[N]`, gives the numbers of the episodes to start, see `SeededEnv`.
        """
        options = dict(options or {})
        mask_N = options.pop("reset_mask", np.ones(self.num_envs, np.bool_))
        if isinstance(seed, int | np.integer):
            seed = [int(seed) + i for i in range(self.num_envs)]
        next_N = options.pop("episode", self._episode_N + 1 if seed is None else np.zeros(self.num_envs, np.int64))
        self._episode_N = np.where(mask_N, next_N, self._episode_N)
        index_K = np.flatnonzero(mask_N).tolist()
        if seed is not None:
            self._seeds = [seed[i] if mask else self._seeds[i] for i, mask in enumerate(mask_N)]
        infos: dict[str, Any] = {}
        for i, info in self._start(index_K, options).items():
            infos = self._add_info(infos, info, i)
        return self.observations, infos

    def _start(self, index_K: list[int], options: dict[str, Any]) -> dict[int, dict[str, Any]]:
        """Start the episodes with the numbers in `self._episode_N` in these environments; return the `info` of each."""
        options = options | {"episode": self._episode_N}
        self._unstarted.difference_update(index_K)
        return self._insist({i: ("reset", self._seeds[i], options) for i in index_K})

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take one step in every environment; see the contract in `vector_env`."""
        action_N = enumerate(iterate(self.action_space, actions))
        answers = self._exchange({i: ("step", action) for i, action in action_N if i not in self._unstarted})
        reward_N = np.zeros(self.num_envs, np.float64)
        terminated_N, truncated_N = np.zeros((2, self.num_envs), np.bool_)
        infos: dict[str, Any] = {}
        for i, (reward_N[i], terminated_N[i], truncated_N[i], info) in answers.items():
            infos = self._add_info(infos, info, i)
            if terminated_N[i] or truncated_N[i]:
                self._failures[i] = 0
        lost = [i for i in range(self.num_envs) if i not in answers]
        truncated_N[lost] = True
        self._episode_N += terminated_N | truncated_N
        for i in lost:
            # a worker writes its observation at the end of a step, so this is still the previous one
            last = next(islice(iterate(self.observation_space, self.observations), i, None))
            infos = self._add_info(infos, {"final_obs": deepcopy(last)}, i)
        for i, info in self._start(lost, {}).items():
            infos = self._add_info(infos, info, i)
        return self.observations, reward_N, terminated_N, truncated_N, infos

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of the environments; a worker that fails here loses its episode in the next step."""
        if not isinstance(values, list | tuple):
            values = [values] * self.num_envs
        workers, attributes = list(self._workers), self._attributes
        self._attributes = [old | {name: value} for old, value in zip(attributes, values, strict=True)]
        answers = self._exchange({i: ("set_attr", name, value) for i, value in enumerate(values)})
        self._unstarted |= {i for i, worker in enumerate(workers) if worker is not self._workers[i]}
        for error in filter(None, answers.values()):
            self._attributes = attributes
            raise UserError(error)

    def close_extras(self, terminate: bool = False) -> None:
        """Make the workers close their environments, and kill those that have not done so within `CLOSE_GRACE`."""
        for worker in self._workers:
            if terminate:
                self._nursery.kill(worker.pid)
            worker.pipe.close()
        self._nursery.close()
        os.close(self._memory)

    def _set_spaces(
        self, described: list[tuple[gymnasium.Space[Any], gymnasium.Space[Any], dict[str, Any], str | None]]
    ) -> None:
        self.single_observation_space, self.single_action_space, metadata, self.render_mode = described[0]
        for i, (observation_space, action_space, *_) in enumerate(described):
            if (observation_space, action_space) != (self.single_observation_space, self.single_action_space):
                raise EnvError(
                    f"Environment {i} has other spaces than environment 0: {observation_space}, {action_space}; "
                    f"expected {self.single_observation_space}, {self.single_action_space}."
                )
        self.metadata = {**metadata, "autoreset_mode": AutoresetMode.SAME_STEP}
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.observations = share_observations(self.single_observation_space, self.num_envs, self._memory)

    def _start_worker(self, index: int) -> Worker:
        ours, theirs = socket.socketpair()
        ours.setblocking(True)
        theirs.setblocking(True)
        # time-outs for a worker that stops in the middle of a message
        timeval = struct.pack("ll", int(START_TIMEOUT + self._step_timeout), 0)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeval)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeval)
        with theirs:
            pid = self._nursery.fork(theirs.fileno())
        poll = select.poll()
        poll.register(ours, select.POLLIN)
        worker = Worker(pid, Connection(ours.detach()), poll)
        with suppress(*LOST):  # the first request reports it
            build = CloudpickleWrapper(self._env_fns[index])
            request = (index, self.num_envs, build, self._attributes[index], self._build_seeds[index])
            worker.pipe.send_bytes(pickle.dumps(request))
        return worker

    def _insist(self, requests: dict[int, tuple[Any, ...]]) -> dict[int, Any]:
        """Send requests until every environment has answered."""
        answers: dict[int, Any] = {}
        while missing := {i: request for i, request in requests.items() if i not in answers}:
            answers |= self._exchange(missing)
        return answers

    def _exchange(self, requests: dict[int, tuple[Any, ...]]) -> dict[int, Any]:
        """Return the answers that arrive within `step_timeout`, and replace the workers that do not answer."""
        if self.closed or self._busy:
            state = "closed" if self.closed else "unusable: its last step or reset was interrupted"
            raise EnvError(f"The environments cannot be used: the vector environment is {state}.")
        self._busy = True
        answers: dict[int, Any] = {}
        failures: dict[int, str] = {}
        started = time.monotonic()
        for i, request in requests.items():
            try:
                self._workers[i].pipe.send(request)
            except (*LOST, BlockingIOError):
                failures[i] = ""
        for i in [i for i in requests if i not in failures]:
            try:
                answers[i] = self._receive(self._workers[i], started)
            except WorkerError as error:
                failures[i] = str(error)
        for i, failure in failures.items():
            self._replace(i, failure)
        self._busy = False
        return answers

    def _receive(self, worker: Worker, started: float) -> Any:
        seconds = self._step_timeout + (START_TIMEOUT if worker.fresh else 0)
        left = min(max(0.0, started + seconds - time.monotonic()), LONGEST_WAIT)
        try:
            if not worker.poll.poll(left * 1000):
                raise WorkerError(
                    f"did not answer within {seconds:g} s: it is stuck, or env.manager.step_timeout is too short"
                )
            outcome, answer = worker.pipe.recv()
        except LOST:
            raise WorkerError("") from None
        except BlockingIOError:
            raise WorkerError("stopped in the middle of an answer") from None
        worker.fresh = False
        if outcome == "wrong":
            self.close(terminate=True)
            raise EnvError(answer)
        if outcome == "failed":
            raise WorkerError("raised " + " ".join(answer.split()))
        return answer

    def _replace(self, index: int, failure: str) -> None:
        """Kill a worker and start a new one for its environment; `failure` is empty if it has died."""
        worker = self._workers[index]
        worker.pipe.close()
        code = self._nursery.kill(worker.pid)
        failure = failure or f"died (exit code {code}): see its output above, and whether memory ran out"
        self._failures[index] += 1
        count = f"failure {self._failures[index]} in a row, env.manager.max_retry is {self._max_retry}"
        if self._failures[index] > self._max_retry:
            self.close(terminate=True)
            raise EnvError(f"Environment {index} {failure} ({count}).")
        logger.warning("Environment %d %s; it is restarted (%s).", index, failure, count)
        self._workers[index] = self._start_worker(index)
