"""The parts of a run, where its samples come from, and what its loop calls: evaluate, collect, learn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from ding_lite.entry.keeper import RunKeeper
from ding_lite.entry.reporter import describe_collecting
from ding_lite.entry.reward import Rewarded, add_reward_model
from ding_lite.entry.setup import RunSetup
from ding_lite.policy import Policy
from ding_lite.utils.allocator import keep_freed_memory
from ding_lite.utils.dist.collectives import allreduce_data
from ding_lite.utils.dist.interrupt import InterruptGuard
from ding_lite.utils.dist.ranks import get_rank, get_world_size
from ding_lite.worker import Learner, ReplayBuffer

LIMITS = {"max_env_step": "envstep", "max_train_iter": "train_iter", "train_epoch": "epoch"}  # and what they count


@dataclass(frozen=True)
class Source:
    """What makes samples, and what an `Experiment` has to know about it.

    Attributes:
        collector: has `envstep, episode_count, interrupted` and the state methods of `SampleCollector`.
        lines: of the start-up summary.
        total: where the run ends, in env steps, or in learner iterations if nothing is played.
        limits: of the run, beside those of its setup.
        counts: returns counts for result.json, beside those of every run.
        figures: returns figures since the last record with their tags, such as `data/epoch`, the same on all ranks.
        learning: returns a `with` block in which the samples are learned from.
        rewarded: the policy with its reward model, if it has one.
    """

    collector: Any
    lines: Mapping[str, str]
    total: int
    limits: Mapping[str, int] = field(default_factory=dict)
    counts: Callable[[], Mapping[str, int]] = dict
    figures: Callable[[], Mapping[str, float]] = dict
    learning: Callable[[], AbstractContextManager[Any]] = nullcontext
    rewarded: Rewarded | None = None


def play(setup: RunSetup, policy: Policy, guard: InterruptGuard, stack: ExitStack) -> Source:
    """Return a source whose environments this rank plays; `stack` closes them."""
    rewarded = add_reward_model(setup, policy) if "reward_model" in setup.cfg else None
    mode = (rewarded or policy).collect_mode
    collector = setup.create_collector(mode, get_rank(), lambda: guard.requested, stack)
    lines, total = describe_collecting(setup.cfg, "a rank", get_world_size()), setup.limits["max_env_step"]
    if rewarded is None:
        return Source(collector, lines, total)
    return Source(collector, lines, total, figures=rewarded.figures, rewarded=rewarded)


class Experiment(AbstractContextManager[Any]):
    """The parts of one run, alike on every rank; a context that closes them and saves what was learned.

    Args:
        setup: what to run.
        create_source: builds where samples come from; by default this rank plays.
        axis: the count of curves and progress: 'envstep', or 'train_iter' if nothing is played.

    Attributes:
        policy, collector, evaluator, learner: the parts.
        stop_reason: why the run ended; empty while it runs.
    """

    def __init__(
        self,
        setup: RunSetup,
        create_source: Callable[[RunSetup, Policy, InterruptGuard, ExitStack], Source] = play,
        axis: str = "envstep",
    ) -> None:
        self._setup, self.stop_reason = setup, ""
        self._enough = False  # whether the replay buffers of all ranks hold a batch
        keep_freed_memory()
        self.policy = setup.create_policy(get_rank(), "policy")
        with ExitStack() as stack:
            self._keeper = keeper = stack.enter_context(RunKeeper(setup, self.policy, axis))
            self._reporter = keeper.reporter
            self._source = source = create_source(setup, self.policy, keeper.guard, stack)
            self.collector = source.collector
            options = (lambda: keeper.guard.requested, keeper.reporter.evaluating, stack)
            self.evaluator = setup.create_evaluator(self.policy.eval_mode, *options)
            hook = setup.cfg.policy.learn.learner.hook
            self.learner = Learner(
                (source.rewarded or self.policy).learn_mode,
                hook.log_show_after_iter,
                self._on_log,
                hook.check_ranks_after_iter,
            )
            model = source.rewarded and source.rewarded.model
            keeper.resume(self.learner, self.collector, self.evaluator, self.counts, model)
            self._reporter.begin(self.policy, source.lines, setup.spec, self.counts()[axis], source.total)
            self._stack = stack.pop_all()

    def create_replay_buffer(self) -> ReplayBuffer:
        """Return this rank's replay buffer: a resumed run's, or one with `policy.random_collect_size` steps in it."""
        replay = self._setup.create_replay_buffer(self.policy.device)
        is_new, collected = self.learner.train_iter == 0, 0
        if self._keeper.resume_replay(replay):  # of all random steps if a signal cut them short
            collected = self.collector.envstep // get_world_size()
        while collected < self._setup.cfg.policy.get("random_collect_size", 0) and not self.collector.interrupted:
            samples, figures = self.collector.collect(random=is_new)
            replay.push(samples)
            collected += int(figures["env_step"]) // get_world_size()
        return replay

    def counts(self) -> dict[str, int]:
        """Return the counts of all ranks."""
        counts = {"envstep": self.collector.envstep, "train_iter": self.learner.train_iter}
        return counts | {"episode_count": self.collector.episode_count, **self._source.counts()}

    # What the loop calls.

    def finished(self) -> bool:
        """Return whether the run is over, for a reason that every rank sees alike."""
        if self.collector.interrupted:
            self.stop_reason = "interrupted"
        elif not self.stop_reason:
            counts, limits = self.counts(), {**self._setup.limits, **self._source.limits}
            reached = (key for key, count in LIMITS.items() if key in limits and counts[count] >= limits[key])
            self.stop_reason = next(reached, "")
        return bool(self.stop_reason)

    def evaluate(self) -> bool:
        """Evaluate if this is due; return whether the stop value was reached."""
        if not self.evaluator.should_eval(self.learner.train_iter):
            return False
        stop_flag, info = self.evaluator.eval(self.learner.train_iter)
        if info:
            self._reporter.evaluation(info, self.counts())
            if info["best"]:
                self._keeper.save_best()
        if stop_flag:
            self.stop_reason = "stop_value"
        return stop_flag

    def collect(self) -> dict[str, Any]:
        """Play and return this rank's samples."""
        samples, figures = self.collector.collect()
        self._reporter.collect(figures, self.counts())
        return samples

    def sample(self, replay: ReplayBuffer) -> Iterable[dict[str, Any]]:
        """Return the batches that are due after a collect; none until the replay buffers of all ranks hold enough."""
        learn = self._setup.cfg.policy.learn
        if not self._enough:
            self._enough = allreduce_data(int(replay.count() >= learn.batch_size)) == get_world_size()
        return replay.batches(learn.batch_size, learn.update_per_collect) if self._enough else ()

    def learn(
        self, batches: Iterable[dict[str, Any]], update: Callable[[torch.Tensor, torch.Tensor], None] | None = None
    ) -> None:
        """Take a learner iteration on each batch, and save if this is due; `update` gets the new priorities."""
        with self._keeper.learning(), self._source.learning():
            self.learner.train(batches, update)

    def batches(self) -> Iterable[dict[str, Any]]:
        """Return this rank's next batches of a data set, until something else is due; none where an epoch ends."""
        self._reporter.learned(self.counts())
        return self.collector.batches(self._something_is_due)

    def _something_is_due(self) -> bool:
        at_limit = self.learner.train_iter >= self._setup.limits["max_train_iter"]
        return at_limit or self._keeper.save_is_due() or self.evaluator.should_eval(self.learner.train_iter)

    def _on_log(self, values: dict[str, float]) -> None:
        self._reporter.training(values, self._source.figures(), self.counts())

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        with self._stack:
            if error is not None:
                return
            if self.stop_reason != "interrupted" and self.evaluator.last_iter != self.learner.train_iter:
                self.evaluator.last_iter = -1  # due, whatever the frequency
                self.evaluate()
            status = self._keeper.finish(self.stop_reason)
        if status:
            raise SystemExit(status)
