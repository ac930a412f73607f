"""Trains several runs in this process in step, each with its own directory, records and end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tqdm import tqdm

from ding_lite.policy import Policy
from ding_lite.run.callbacks import Callback, WatchedRun
from ding_lite.together.hub import Program
from ding_lite.together.meeting import Meeting
from ding_lite.utils.checkpoint.run_directory import last_exp_dir
from ding_lite.utils.logger import console, label
from ding_lite.utils.ranks.collectives import get_rank
from ding_lite.utils.ranks.interrupt import InterruptGuard, shared_guard


@dataclass
class RunState(Callback):
    """One of the runs, as far as it is.

    Attributes:
        name: what messages call it.
        directory: its directory; empty before it has started.
        policy: what its pipeline returned; None before its end, and after an error.
        error: what ended it, if that was an error or a signal.
        progress: env steps and newest evaluation, in words.
    """

    name: str
    directory: str = ""
    policy: Policy | None = None
    error: BaseException | None = None
    progress: str = ""
    evaluation: str = ""

    def on_start(self, run: WatchedRun) -> None:
        """Note the directory: this run has opened one, and no other has yet."""
        self.directory = last_exp_dir()

    def after_collect(self, run: WatchedRun, figures: Mapping[str, float]) -> None:
        """Note the env steps."""
        self.progress = f"{tqdm.format_sizeof(run.counts()['envstep'])}{self.evaluation}"

    def after_evaluation(self, run: WatchedRun, info: Mapping[str, Any]) -> None:
        """Note the mean return."""
        self.evaluation = f" eval {info['return_mean']:.1f}"


def train_together(
    runs: Mapping[str, Callable[..., Policy]],
    on_progress: Callable[[Sequence[RunState]], None] = lambda states: None,
    on_end: Callable[[RunState], None] = lambda state: None,
) -> list[RunState]:
    """Carry out runs in step and return their states, in their order. A collective call.

    Where their networks have the same structure, they are computed together. A run that fails does not end the others.
    Ctrl-C interrupts all of them.

    Args:
        runs: by name, functions that call a pipeline with the `callbacks` that they are given, and return its policy.
        on_progress: called after each round of the hub, which is often, with the states of all runs.
        on_end: called when a run has ended.
    """
    states = [RunState(name) for name in runs]
    meeting = Meeting(len(runs))

    def carry_out(run: Callable[..., Policy], state: RunState, member: Callback) -> Policy:
        label.set(state.name)
        return run(callbacks=[state, member])

    def end(number: int, program: Program) -> None:
        states[number].policy, states[number].error = program.result, program.error
        on_end(states[number])

    def round_ended() -> None:
        on_progress(states)
        if (line := meeting.describe()) and get_rank() == 0:
            console(line)

    meeting.hub.on_round = round_ended
    with InterruptGuard(get_rank()) as guard:
        token = shared_guard.set(guard)
        try:
            pairs = zip(runs.values(), states, strict=True)
            meeting.run([partial(carry_out, run, state) for run, state in pairs], end)
        finally:
            shared_guard.reset(token)
    return states
