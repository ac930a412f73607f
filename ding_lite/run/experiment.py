"""The parts of a run, the source of its samples, and the methods that a training loop calls.

A loop, such as `serial_pipeline`, creates one `Experiment` and calls `finished`, `evaluate`, `collect`, `sample` and
`learn` on it. `RunKeeper` saves and resumes a run; the reporter writes messages and curves.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from ding_lite.policy import Policy
from ding_lite.run.callbacks import Callback, CallbackList
from ding_lite.run.keeper import RunKeeper
from ding_lite.run.setup import RunSetup
from ding_lite.run.summary import describe_collecting
from ding_lite.torch_utils import NonFiniteError
from ding_lite.torch_utils.data import Batch, Block
from ding_lite.utils.ranks.collectives import all_gather_object, allreduce_data, get_rank, get_world_size
from ding_lite.utils.ranks.heartbeat import cleaning_up, stop_requested
from ding_lite.utils.ranks.interrupt import InterruptGuard
from ding_lite.utils.registry import UserError
from ding_lite.worker import Learner, ReplayBuffer
from ding_lite.worker.learner import updates_after

# Each limit of a run, and the count that it bounds.
LIMITS = {"max_env_step": "envstep", "max_train_iter": "train_iter", "train_epoch": "epoch"}
UPDATES_BEFORE_PLAYING = 100  # learner iterations between two checks for evaluations, while data are learned from


@dataclass(frozen=True)
class Source:
    """The source of a run's samples, and what an `Experiment` needs to know about it.

    A source may play environments, read a data set, or receive samples from other processes.

    Attributes:
        collector: produces the samples. It has the attributes `envstep`, `episode_count` and `interrupted`, and the
            state methods, of `SampleCollector`.
        lines: lines of the start-up summary, as a name and its text.
        total: the count at which the run ends: env steps, or learner iterations if no environment is played.
        limits: limits of the run, in addition to those of its setup; the names are keys of `LIMITS`.
        counts: returns counts for result.json, in addition to those of every run.
        figures: returns the figures since the last record by their tags, such as `data/epoch`; the same on all ranks.
        learning: returns a context manager that is active while the policy learns.
        plays: whether the collector returns rollout blocks, for `Policy.to_samples`; otherwise it returns samples.
    """

    collector: Any
    lines: Mapping[str, str]
    total: int
    limits: Mapping[str, int] = field(default_factory=dict)
    counts: Callable[[], Mapping[str, int]] = dict
    figures: Callable[[], Mapping[str, float]] = dict
    learning: Callable[[], AbstractContextManager[Any]] = nullcontext
    plays: bool = True


class NoEnvironments:
    """Base class of collectors that own no environments; it has the attributes of `SampleCollector`.

    Attributes:
        reason: why `set_attr` is an error, and what to do instead.
    """

    reason = ""
    envstep = episode_count = 0
    interrupted = False

    def state_dict(self) -> dict[str, Any]:
        return {"envstep": self.envstep, "episode_count": self.episode_count, "attributes": {}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.envstep, self.episode_count = state["envstep"], state["episode_count"]

    def set_attr(self, name: str, values: Any) -> None:
        """Raise `UserError`, because this process has no environments to collect from."""
        raise UserError(f"run.collector.set_attr('{name}', ...): {self.reason}.")


def play(setup: RunSetup, policy: Policy, guard: InterruptGuard, stack: ExitStack) -> Source:
    """Return a source that collects by playing environments: in this process, or in actors if there are any."""
    if setup.cfg.policy.collect.actors:
        apart: Source = importlib.import_module("ding_lite.actors.actors").play_apart(setup, policy, guard, stack)
        return apart
    collector = setup.create_collector(policy, get_rank(), stop_requested, stack)
    num_envs_R = all_gather_object(setup.cfg.env.collector_env_num)
    policy.env_place = (sum(num_envs_R[: get_rank()]), sum(num_envs_R))
    lines = describe_collecting(setup.whole, "a rank", get_world_size())
    return Source(collector, lines, setup.limits["max_env_step"])


class Experiment:
    """Builds the parts of one run and offers the steps of a training loop as methods.

    All methods are collective: every rank calls the same ones in the same order. An experiment is a context manager. At
    its end it evaluates the final policy, saves the last checkpoint and closes the environments; after an error it only
    closes them.

    Args:
        setup: the checked config and everything else that describes the run.
        policy: the policy to train, see `policy_process`.
        create_source: builds the source of samples; by default environments are played.
        callbacks: what the user attached to the run.

    Its attributes are those of `WatchedRun`.

    Attributes:
        learning_parts: what learns beside the policy, by the name of its section, see `LearningPart`.
        stop_reason: why the run ended: 'interrupted', 'stop_value', 'callback', 'max_seconds' or a key of `LIMITS`;
            empty while it runs.

    Raises:
        ConfigError: the run continues one whose replay buffer does not fit the config.
        SystemExit: at the end of the context, if a signal interrupted the run or its last checkpoint was not saved.
    """

    def __init__(
        self,
        setup: RunSetup,
        policy: Policy,
        create_source: Callable[[RunSetup, Policy, InterruptGuard, ExitStack], Source] = play,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self._setup, self.policy, self.stop_reason = setup, policy, ""
        self._asked_to_stop = False  # True: a callback of this rank asked for it
        self._collected = 0  # env steps of all ranks in the last collect
        self._enough = False  # whether the replay buffer of every rank holds enough steps for a batch
        axis = "train_iter" if policy.learns_from == "dataset" else "envstep"  # of curves
        with ExitStack() as stack:
            self._keeper = keeper = stack.enter_context(RunKeeper(setup, policy, axis))
            self._reporter = keeper.reporter
            self._has_callbacks = bool(callbacks)  # equal on all ranks; trackers exist on rank 0 only
            self._callbacks = CallbackList([*callbacks, *setup.create_trackers(keeper.reporter, stack)])
            self.learning_parts = learning_parts = setup.create_learning_parts(policy)
            self._source = source = create_source(setup, policy, keeper.guard, stack)
            self.collector = source.collector
            self.evaluator = setup.create_evaluator(policy, stop_requested, keeper.reporter.evaluating, stack)
            self._replay = setup.create_replay_buffer(policy) if policy.learns_from == "replay" else None
            for part in learning_parts.values():
                part.connect(setup, policy, self._replay)
            hook = setup.cfg.policy.learn.learner.hook
            self.learner = Learner(
                policy,
                hook.log_show_after_iter,
                self._on_log,
                hook.get("check_ranks_after_iter", 0),
                self._on_update if callbacks else None,
                [network for part in learning_parts.values() for network in part.networks],
            )
            parts: dict[str, Any] = {"learner": self.learner, "collector": self.collector, "evaluator": self.evaluator}
            parts |= learning_parts
            parts |= {"callbacks": self._callbacks} if callbacks else {}
            keeper.resume(parts, self._replay, self.counts, self._on_save)
            begins, total = self.counts()[axis], source.total
            self._reporter.begin(policy, source.lines, setup.spec, begins, total, self._after_log)
            for callback in self._callbacks:
                callback.on_start(self)
            self._stack = stack.pop_all()

    def fill_replay_buffer(self) -> ReplayBuffer:
        """Return this rank's replay buffer, ready for learning.

        The buffer of a resumed run holds what was saved. Otherwise, the buffer is filled with
        `policy.random_collect_size` env steps, or sequences of `policy.unroll_len` steps. They are played with random
        actions, or with the policy's if its losses need what it predicted when it acted, as in DI-engine.
        """
        assert self._replay is not None
        replay, size = self._replay, self._setup.first_steps()
        at_random = self.learner.train_iter == 0 and "logit" not in self.policy.stored_outputs
        # A signal may have interrupted the random steps of a run that is resumed.
        collected = self.collector.envstep if replay.ring.places_in_use else 0
        while collected < size and not self.collector.interrupted:
            block, figures = self.collector.collect(random=at_random)
            replay.push(self._to_samples(block))
            collected += int(figures["env_step"])
        return replay

    def counts(self) -> dict[str, int]:
        """Return the counts of the run, summed over all ranks.

        Returns:
            `envstep` (env steps), `train_iter` (learner iterations), `episode_count` (collected episodes), and the
            counts of the source.
        """
        counts = {"envstep": self.collector.envstep, "train_iter": self.learner.train_iter}
        return counts | {"episode_count": self.collector.episode_count, **self._source.counts()}

    # The methods for callbacks.

    def log(self, figures: Mapping[str, float]) -> None:
        """Record figures of a callback, see `WatchedRun`."""
        self._reporter.figures(allreduce_data(dict(figures), "mean"), self.counts())

    def stop(self) -> None:
        """End the run for a callback, see `WatchedRun`."""
        self._asked_to_stop = True

    # The methods that a training loop calls.

    def finished(self) -> bool:
        """Return whether the run is over, and set `stop_reason` if it is. The answer is the same on every rank."""
        if self.collector.interrupted:
            self.stop_reason = "interrupted"
        elif not self.stop_reason:
            counts, limits = self.counts(), {**self._setup.limits, **self._source.limits}
            reached = (key for key, count in LIMITS.items() if key in limits and counts[count] >= limits[key])
            self.stop_reason = next(reached, "") or self._stopped_early()
        return bool(self.stop_reason)

    def _stopped_early(self) -> str:
        """Return 'callback' or 'max_seconds' if a callback or the clock of any rank says so, else an empty string."""
        limit = self._setup.cfg.max_seconds
        if limit is None and not self._has_callbacks:
            return ""
        late = limit is not None and self._reporter.seconds() >= limit
        votes = allreduce_data({"callback": int(self._asked_to_stop), "max_seconds": int(late)})
        return next((reason for reason, count in votes.items() if count), "")

    def evaluate(self) -> bool:
        """Evaluate the policy if an evaluation is due, and save it if it is the best so far.

        A run that begins writes its first checkpoint, `iteration_0`, after it.

        Returns:
            Whether the run is over: the mean return reached `env.stop_value`, a callback stopped it, or a signal
            interrupted the evaluation. A run that is resumed then begins with this evaluation.
        """
        train_iter = self.learner.train_iter
        if self.evaluator.should_eval(train_iter):
            with self._reporter.timed("evaluation"):
                result = self.evaluator.eval(train_iter)
            if self._record_evaluation(*result):
                return True
        if self._keeper.saved_iter < 0:
            self._keeper.save()
        return False

    def _record_evaluation(self, stop_flag: bool, info: dict[str, Any]) -> bool:
        """Record the result of `Evaluator.eval`, and return whether the run is over."""
        if not info:
            self.stop_reason = "interrupted"
            return True
        self._reporter.evaluation(info, self.counts())
        if info["best"]:
            self._keeper.save_best()
        for callback in self._callbacks:
            callback.after_evaluation(self, info)
        self.stop_reason = "stop_value" if stop_flag else self.stop_reason or self._stopped_early()
        return bool(self.stop_reason)

    def collect(self) -> Batch:
        """Collect once with the current policy; return this rank's samples, see `Policy.to_samples`."""
        with self._reporter.timed("acting"):
            block, figures = self.collector.collect()
        samples, self._collected = self._to_samples(block), int(figures["env_step"])
        self._reporter.collect(figures, self.counts(), getattr(self.collector, "env_seconds", 0.0))
        for callback in self._callbacks:
            callback.after_collect(self, figures)
        return samples

    def _to_samples(self, block: Block) -> dict[str, Any]:
        """Turn what the collector returned into samples, with the rewards of the reward model if there is one."""
        if "reward_model" in self.learning_parts:
            block = self.learning_parts["reward_model"].process(block)
        return self.policy.to_samples(block) if self._source.plays else block

    def plays(self, replay: ReplayBuffer) -> bool:
        """Return whether the policy has made its first updates on data that the replay buffer has read."""
        return self.learner.train_iter >= replay.first_updates

    def sample(self, replay: ReplayBuffer) -> Iterable[Batch]:
        """Return the batches to learn from after a collect, see `updates_after`, or before the policy plays.

        There are none until the replay buffer of every rank holds at least `policy.learn.batch_size` samples.

        Args:
            replay: this rank's replay buffer.
        """
        learn = self._setup.cfg.policy.learn
        if not self.plays(replay):
            number = min(replay.first_updates - self.learner.train_iter, UPDATES_BEFORE_PLAYING)
            return replay.batches(learn.batch_size, number)
        if not self._enough:
            self._enough = allreduce_data(int(replay.count() >= learn.batch_size)) == get_world_size()
        return replay.batches(learn.batch_size, updates_after(learn, self._collected)) if self._enough else ()

    def learn(
        self, batches: Iterable[Batch], update: Callable[[torch.Tensor, torch.Tensor], None] | None = None
    ) -> None:
        """Take one learner iteration on each batch, and save a checkpoint if one is due.

        Args:
            batches: dicts of `[B, ...]` tensors.
            update: called as `update(index, priority)` with the new priorities `[B]` of each batch, if the policy
                returns any.
        """
        try:
            with self._source.learning(), self._reporter.timed("learning"):
                self.learner.train(batches, update)
        except NonFiniteError as error:
            raise self._keeper.save_batch(error) from None
        if self._save_is_due():
            self._keeper.save()

    def _save_is_due(self) -> bool:
        every = self._setup.cfg.policy.learn.learner.hook.save_ckpt_after_iter
        return self.learner.train_iter - max(self._keeper.saved_iter, 0) >= every

    def batches(self) -> Iterable[Batch]:
        """Return the next batches of this rank from a data set, for runs that learn offline.

        They end if an evaluation or a checkpoint is due, or a limit is reached. There are none at the end of an epoch.
        """
        self._reporter.learned(self.counts())
        return self.collector.batches(self._something_is_due)

    def _something_is_due(self) -> bool:
        at_limit = self.learner.train_iter >= self._setup.limits["max_train_iter"]
        return at_limit or self._save_is_due() or self.evaluator.should_eval(self.learner.train_iter)

    def _on_log(self, values: dict[str, float]) -> None:
        figures = dict(self._source.figures())
        for name, part in self.learning_parts.items():
            figures |= {f"{name}/{key}": value for key, value in part.take_figures().items()}
        self._reporter.training(values, figures, self.counts())
        self._reporter.check(values, self.policy.alarms)

    def _on_update(self, output: Mapping[str, Any]) -> None:
        for callback in self._callbacks:
            callback.after_update(self, output)

    def _on_save(self, path: str) -> None:
        for callback in self._callbacks:
            callback.after_checkpoint(self, path)

    def _after_log(self, figures: Mapping[str, float]) -> None:
        for callback in self._callbacks:
            callback.after_log(self, figures)

    def _say_if_nothing_was_learned(self) -> None:
        """Warn if a run that was not interrupted ends without a learner iteration."""
        if self.learner.train_iter or self.stop_reason == "interrupted":
            return
        cause = f"it ended ({self.stop_reason}) after {self.counts()['envstep']} env steps"
        if self.stop_reason != "stop_value" and self._replay is not None and not self._enough:
            size = self._setup.cfg.policy.learn.batch_size
            cause += f", {self._replay.count()} samples in a rank's replay buffer, policy.learn.batch_size={size}"
        self._reporter.warning(f"This run learned nothing: {cause}.")

    def __enter__(self) -> Experiment:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        with cleaning_up(error), self._stack:
            if error is not None:
                return
            self._say_if_nothing_was_learned()
            if self.stop_reason != "interrupted" and self.evaluator.last_iter != self.learner.train_iter:
                self._record_evaluation(*self.evaluator.eval(self.learner.train_iter))
            status = self._keeper.finish(self.stop_reason)
            for callback in self._callbacks:
                callback.on_end(self)
        if status:
            raise SystemExit(status)
