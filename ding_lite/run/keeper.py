"""Keeping a run alive: its directory, checkpoints, resuming, signals, result and exit status."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Any

import torch

from ding_lite.config import changed_values, save_config
from ding_lite.envs.spaces import spec_state
from ding_lite.policy import Policy
from ding_lite.policy.checkpointed import load_to_act
from ding_lite.run.reporter import RunReporter
from ding_lite.run.setup import RunSetup
from ding_lite.torch_utils import NonFiniteError
from ding_lite.utils.checkpoint.file import CheckpointError, load_checkpoint, to_arrays
from ding_lite.utils.checkpoint.origin import record_origin
from ding_lite.utils.checkpoint.run_directory import (
    changed_machines,
    check_exp_dir,
    claim_exp_dir,
    open_exp_dir,
    release_exp_dir,
)
from ding_lite.utils.checkpoint.store import CheckpointStore, Loaded, load_file
from ding_lite.utils.directory_lock import ended_before_learning
from ding_lite.utils.disk import explaining
from ding_lite.utils.ranks.collectives import all_gather_object, get_rank, get_world_size, on_rank_0
from ding_lite.utils.ranks.heartbeat import heartbeat
from ding_lite.utils.ranks.interrupt import InterruptGuard, shared_guard
from ding_lite.utils.registry import LEARNING_PARTS, ConfigError
from ding_lite.utils.seed import random_state, set_random_state
from ding_lite.utils.tree import tree_map
from ding_lite.worker import ReplayBuffer

LOCAL = ("collector", "learner", *LEARNING_PARTS)  # parts that have a state of each rank
LONG_TRAINED = 10**10  # env steps, if a policy is given without them: it explores as at the end of its training


class RunKeeper(AbstractContextManager[Any]):
    """Saves and resumes a run.

    The constructor loads what an earlier run has learned into the policy. `resume` restores the other parts after they
    are built. Every method is collective: all ranks must call it.

    Attributes:
        reporter: the run's records.
        saved_iter: learner iteration of the last attempt to save; -1: none.
        guard: says whether this rank was asked to end.
    """

    def __init__(self, setup: RunSetup, policy: Policy, axis: str) -> None:
        self._policy, self._setup, self._hook = policy, setup, setup.cfg.policy.learn.learner.hook
        self._whole = setup.whole.policy
        self._changes: list[str] = []  # values that were changed since the run began
        self.saved_iter = -1
        self._saved: tuple[int, ...] = ()  # counts of the newest checkpoint, see `_moment`; empty: none
        self._resumes: bool = on_rank_0(lambda: setup.cfg.policy.learn.resume_training)
        self._allow_lost: bool = on_rank_0(lambda: setup.cfg.policy.learn.get("allow_lost_replay", False))
        with ExitStack() as stack:
            self._loaded = self._load_given()
            resume = self._resumes and not self._hook.load_ckpt_before_run
            self._exp_dir, self._goes_on = open_exp_dir(setup.cfg.exp_name, resume)
            stack.callback(release_exp_dir, self._exp_dir)
            self._root = os.path.abspath(self._exp_dir)  # a callback may change the current directory
            with explaining(f"Cannot write into '{self._exp_dir}'", "make room, or change exp_name"):
                self.reporter = stack.enter_context(RunReporter(setup.whole, self._exp_dir, axis))
            self._store = CheckpointStore(self._path("ckpt"), self._hook.keep_ckpt)
            if changed := changed_machines(self._exp_dir):
                self.reporter.info(changed)
            newest = self._load_newest() if self._goes_on else None
            self._store.fix_directory()
            self._loaded = newest or self._loaded
            if get_rank() == 0:
                self._save_config(begins=newest is None)
                device = torch.cuda.get_device_name(policy.device) if policy.device.type == "cuda" else "cpu"
                record_origin(self._exp_dir, device=device, processes=get_world_size())
            self.guard = shared_guard.get() or stack.enter_context(InterruptGuard(get_rank()))
            self._stack = stack.pop_all()

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    def _path(self, *parts: str) -> str:
        """Return a path in the run's directory: as that was named, or absolute if the current directory has changed."""
        moved = os.path.abspath(self._exp_dir) != self._root
        return os.path.join(self._root if moved else self._exp_dir, *parts)

    def _save_config(self, begins: bool) -> None:
        """Write the config of a new run; for a resumed one, remember what it changes."""
        path, setup = self._path("total_config.py"), self._setup
        if begins:
            with explaining(f"Cannot write into '{self._exp_dir}'", "make room, or change exp_name"):
                save_config(setup.whole, path, setup.pipeline, **setup.limits)
            return
        with suppress(ConfigError):  # the file may be gone or edited
            self._changes = changed_values(path, setup.whole, setup.limits)

    # Loading.

    def _load_given(self) -> Loaded | None:
        """Load the model of `load_ckpt_before_run`; return the checkpoint if the run continues from it."""
        path = self._hook.load_ckpt_before_run
        if not path:
            return None
        loaded = load_file(path, allow_lost=self._allow_lost, needs=self._find_parts) if self._resumes else None
        load_policy(self._policy, loaded.state if loaded else load_checkpoint(path), path, with_optimizer=self._resumes)
        return loaded

    def _load_newest(self) -> Loaded | None:
        """Load the directory's newest valid checkpoint into the policy and return it; None: start anew."""
        if not self._store.has_checkpoints():
            if self._resumes and not on_rank_0(lambda: ended_before_learning(self._exp_dir)):
                raise CheckpointError(f"'{self._exp_dir}' has no checkpoint to resume from: start a new run.")
            on_rank_0(lambda: claim_exp_dir(self._exp_dir))
            self.reporter.begin_again()
            return None
        loaded = self._store.load_newest(self._allow_lost, self._find_parts)
        for reason in loaded.skipped:
            self.reporter.warning(reason)
        load_policy(self._policy, loaded.state, loaded.name, with_optimizer=True)
        return loaded

    def resume(
        self,
        parts: Mapping[str, Any],
        replay: ReplayBuffer | None,
        counts: Callable[[], Mapping[str, int]],
        on_save: Callable[[str], None],
    ) -> None:
        """Register the parts to save from now on; if a run continues, restore them and the random states.

        `parts` are the learner, collector and evaluator, and the callbacks and `LEARNING_PARTS` if there are any. Their
        `state_dict` is the same on all ranks.
        """
        self._parts, self._replay, self._counts, self._on_save = parts, replay, counts, on_save
        loaded, self._loaded = self._loaded, None
        if loaded is None:
            return
        for name in ("learner", "collector", "evaluator"):
            parts[name].load_state_dict(loaded.state[name])
        for name in LEARNING_PARTS:
            load_learning_part(name, parts.get(name), loaded.state, loaded.name)
        if "callbacks" in parts and "callbacks" in loaded.state:
            parts["callbacks"].load_state_dict(loaded.state["callbacks"])
        local_state = self._own_state(loaded)
        if replay is not None and local_state is not None and "replay" in local_state:
            replay.load_state_dict(local_state["replay"])
        self.saved_iter, self._saved = parts["learner"].train_iter, self._moment()
        on_rank_0(lambda: claim_exp_dir(self._exp_dir))
        self.reporter.resume(loaded.state["record"], loaded.name, counts(), self._goes_on)
        if self._changes:  # total_config.py has the values that the run began with
            self.reporter.info(f"changed: {', '.join(self._changes)}")
        if local_state is None:
            self.reporter.warning("The checkpoint has no replay buffer and no environments: episodes start anew.")
            for name, value in to_arrays(loaded.state["collector"].get("attributes", {})).items():
                parts["collector"].set_attr(name, value)
            return
        self._resume_rank(local_state)

    def _find_parts(self, parts: int, lost: Collection[int]) -> list[int]:
        """Return which parts of a checkpoint this rank needs if it is dealt anew."""
        from ding_lite.worker.dealing import find_parts  # noqa: PLC0415

        return find_parts(get_rank(), get_world_size(), parts, lost, self._num_streams())

    def _num_streams(self) -> int:
        """Return the number of this run's actors or, if there are none, of its collecting environments."""
        return self._whole.collect.get("actors", 0) or self._setup.total("env.collector_env_num")

    def _own_state(self, loaded: Loaded) -> dict[str, Any] | None:
        """Return this rank's state, dealt anew if another number of ranks saved the checkpoint; None: it has none."""
        if loaded.local_state is None and not loaded.of_ranks:
            return None
        from ding_lite.worker.dealing import check_streams, count_streams, deal, find_streams  # noqa: PLC0415

        before, now = len(loaded.of_ranks), get_world_size()
        states = dict(enumerate(loaded.of_ranks)) if loaded.of_ranks else {get_rank(): loaded.local_state}
        counts: dict[int, int] = {}
        for each in all_gather_object({part: count_streams(state) for part, state in states.items() if state}):
            counts |= each
        self._check_actors(next(state["collector"] for state in states.values() if state), counts, loaded.lost)
        if not loaded.of_ranks:
            return loaded.local_state
        rows = None if self._replay is None else self._replay.ring.num_rows
        number, size = self._num_streams(), self._whole.learn.batch_size
        check_streams(counts, before, number, now)
        dealt = deal(loaded.of_ranks, loaded.lost, get_rank(), now, number, rows, self._setup.cfg.seed, loaded.name)
        streams = find_streams(before, loaded.lost, number) if any(counts.values()) else []
        name = "actors" if self._whole.collect.get("actors") else "environments"
        what = f"a step of all learns from {now * size} samples instead of {before * size}"
        if self._whole.get("divide"):
            what = f"they share {f'{number} {name} and ' * bool(streams)}batches of {size}"
        if now != before:
            self.reporter.info(f"{now} rank(s) continue a run of {before}: {what}.")
        lost = [n for n, stream in enumerate(streams) if stream.lost]
        if lost and get_rank() == 0:
            self.reporter.warning(
                f"Parts of the checkpoint are lost: {name} {lost} of 0 to {number - 1} begin anew, with copies of the "
                "replay of others."
            )
        return dealt

    def _check_actors(self, saved: dict[str, Any], counts: Mapping[int, int], lost: Sequence[int]) -> None:
        """Raise `CheckpointError` if the saved run had another number of actors, or actors of other environments.

        `saved` is the state of one of its collectors, and `counts` are the streams of all ranks that are not lost.
        """
        wanted, num_envs = self._whole.collect.get("actors", 0), self._setup.cfg.env.collector_env_num
        number = sum(counts.values()) if "actors" in saved else 0
        if number != wanted and not (lost and 0 < number < wanted):
            raise CheckpointError(
                f"The checkpoint has {number} actors, and this run has {wanted}: set policy.collect.actors={number}."
            )
        if number and saved["num_envs"] != num_envs:
            raise CheckpointError(
                f"The actors of the checkpoint have {saved['num_envs']} environments each, and those of this run "
                f"{num_envs}: set env.collector_env_num={saved['num_envs']}."
            )

    def _resume_rank(self, state: dict[str, Any]) -> None:
        """Restore this rank's state, except the replay buffer's."""
        self._policy.load_local_state_dict(state["collect_mode"])
        lost, *_ = [self._parts[name].load_local_state_dict(state[name]) for name in LOCAL if name in self._parts]
        if broken := [number for number in lost if number not in state.get("lost", ())]:
            self.reporter.warning(
                f"Environments {broken} are not deterministic or cannot be restored: they start new episodes, and the "
                "run will differ from one that was never stopped."
            )
        set_random_state(state["random"])
        if lost and self._replay is not None and "replay" in state:  # the rows stored next do not follow the newest
            obs = tree_map(lambda obs_N: obs_N[lost], state["collector"]["env"]["obs"])
            self._replay.truncate(torch.tensor(lost), obs)

    # Saving.

    def _state_dict(self) -> dict[str, Any]:
        """Return the state that is the same on all ranks."""
        own = {"policy": self._policy.state_dict(), "record": self.reporter.state_dict()}
        parts = {name: part.state_dict() for name, part in self._parts.items()}
        return {**own, "env_spec": spec_state(self._setup.spec), **parts}

    def _local_state_dict(self) -> dict[str, Any]:
        """Return this rank's state; its large tensors are not copies."""
        state = {"random": random_state(), "collect_mode": self._policy.local_state_dict()}
        state |= {name: self._parts[name].local_state_dict() for name in LOCAL if name in self._parts}
        if self._replay is not None and self._hook.save_replay_buffer:
            state["replay"] = self._replay.state_dict()
        return state

    def _moment(self) -> tuple[int, ...]:
        """Return counts of which at least one changes whenever the state does."""
        learner, collector, evaluator = (self._parts[name] for name in ("learner", "collector", "evaluator"))
        return learner.train_iter, collector.envstep, evaluator.eval_count

    def save(self) -> bool:
        """Write a checkpoint of all ranks, unless the newest is up to date; return False if writing failed."""
        on_rank_0(lambda: check_exp_dir(self._exp_dir))
        moment = self._moment()
        if moment == self._saved:
            return True
        heartbeat("save")
        self.saved_iter, local_state = self._parts["learner"].train_iter, self._local_state_dict()
        reason = self._store.save(
            self.saved_iter, self._state_dict(), local_state, keep_parts="replay" not in local_state
        )
        self._saved = () if reason else moment
        return self._report(reason, "ckpt_last.pth.tar")

    def save_best(self) -> None:
        """Write the checkpoint of the best evaluation so far."""
        on_rank_0(lambda: check_exp_dir(self._exp_dir))
        self._report(self._store.save_best(self._state_dict()), "ckpt_best.pth.tar")

    def _report(self, reason: str | None, name: str) -> bool:
        """Return whether a checkpoint was written; call `on_save` if it was, and print the reason if it was not."""
        if reason is not None:
            self.reporter.warning(f"{reason} Training continues.")
        else:
            self._on_save(self._path("ckpt", name))
        return reason is None

    def save_batch(self, error: NonFiniteError) -> NonFiniteError:
        """Save the batch whose loss or gradient is not finite; return the error, which then names the file."""
        return error.saved(self._path("nonfinite", f"iteration_{error.iteration}.rank_{get_rank()}.pth.tar"))

    # The end.

    def finish(self, stop_reason: str) -> int | str:
        """Write the last checkpoint and the result; return the exit status: 0, or what `SystemExit` takes."""
        signum = 0
        if stop_reason == "interrupted":
            signum = max(all_gather_object(self.guard.signum or 0)) or signal.SIGINT
        saved = self.save()
        checkpoint = self._path("ckpt", "ckpt_last.pth.tar") if saved else ""
        self.reporter.end(stop_reason, signum, dict(self._counts()), self._parts["evaluator"].best_return, checkpoint)
        heartbeat("")  # from now on the caller's work does not count as a hang
        if not saved:
            return "The last checkpoint was not saved."
        return 128 + signum if signum else 0


def load_policy(policy: Policy, state: dict[str, Any], name: str, with_optimizer: bool = False) -> None:
    """Load a checkpoint into a policy that learns: its model, or all `with_optimizer`; `name` is for messages."""
    with _fitting(name):
        _check_statistics(policy, state["policy"], name)
        learned = {key: value for key, value in state["policy"].items() if with_optimizer or key != "optimizer"}
        policy.load_state_dict(learned)


def load_learning_part(section: str, part: Any, state: dict[str, Any], name: str) -> None:
    """Load one of the `LEARNING_PARTS` of the checkpoint `name` into this run's, None if it has none."""
    if (part is None) != (section not in state):
        theirs, ours = ("a", "none") if part is None else ("no", "one")
        raise CheckpointError(
            f"Checkpoint '{name}' has {theirs} {section.replace('_', ' ')}, and this run has {ours}: give this run the "
            f"same create_config.{section}, or start a new one."
        )
    if part is not None:
        with _fitting(name):
            part.load_state_dict(state[section])


def load_model(policy: Policy, state: dict[str, Any], name: str) -> None:
    """Load a checkpoint's state, its `policy` or its model into a policy that only acts; `name` is for messages."""
    state = state.get("policy", state)
    with _fitting(name):
        _check_statistics(policy, state, name)
        load_to_act(policy, state if "model" in state else {"model": state})


def trained_env_steps(state: dict[str, Any]) -> int:
    """Return the env steps of all ranks before a checkpoint; `LONG_TRAINED` if it does not contain them."""
    return int(state.get("collector", {}).get("envstep", LONG_TRAINED))


def _check_statistics(policy: Policy, state: dict[str, Any], name: str) -> None:
    """Check that a policy and a checkpoint both normalise observations, or neither does."""
    found = "obs.mean" in state.get("normalizer", {})
    if found == (policy.normalizer.obs is not None):
        return
    if not found:
        raise CheckpointError(
            f"Checkpoint '{name}' has no statistics of observations, which env.norm_obs=True needs: its policy learned "
            "from unchanged observations. Set env.norm_obs=False."
        )
    raise CheckpointError(
        f"The policy of checkpoint '{name}' learned from normalised observations: set env.norm_obs=True."
    )


@contextmanager
def _fitting(name: str) -> Iterator[None]:
    """Return a context manager for loading the checkpoint `name`, whose errors say that it does not fit."""
    try:
        yield
    except CheckpointError:  # its message already says what is wrong
        raise
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        cause = " ".join(str(error).split())[:300]
        raise CheckpointError(f"Checkpoint '{name}' does not fit the config's policy and model: {cause}") from error
