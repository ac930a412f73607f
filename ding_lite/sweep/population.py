"""Population-based training (Jaderberg et al. 2017, arXiv:1711.09846): values of keys that change while runs learn.

Every member of a population is a run with values of its own. After each round of training, the runs are compared by
their last evaluations. One of the worst fifth takes over what one of the best fifth has learned (exploit), and its
values, changed at random (explore): each is multiplied by 0.8 or 1.2 or, with probability 0.25, drawn anew.

A round ends with a checkpoint of each run. What a run has learned is the `policy` and the `LEARNING_PARTS` of its
checkpoint: networks, targets, optimizers and statistics, copied to the bit. Environments, replay buffer, random
generators, counts and records stay those of the run that takes them over.
"""

from __future__ import annotations

import json
import math
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from ding_lite.config import save_config
from ding_lite.launch.run_process import LOOK_PERIOD, SeparateRuns, passing_signals_on, run_all
from ding_lite.results.groups import short_value, shorten
from ding_lite.results.run import RETURN, Evaluations
from ding_lite.results.table import Table, show_number
from ding_lite.sweep.outcome import BEST, DIGITS, WIDTH
from ding_lite.sweep.plan import SweepPlan
from ding_lite.sweep.study import Distribution, Value, check_problem
from ding_lite.utils.checkpoint.file import atomic_file, read_checkpoint, save_checkpoint
from ding_lite.utils.checkpoint.run_directory import has_checkpoint, new_name, read_result
from ding_lite.utils.checkpoint.store import CheckpointStore
from ding_lite.utils.directory_lock import is_active, lock_directory, read_json, unlock_directory
from ding_lite.utils.logger import console
from ding_lite.utils.registry import LEARNING_PARTS, ConfigError, UserError

MEMBERS = 8  # default of --trials
SHARE = 0.2  # share of the members that take over policies, and of those that give theirs
FACTORS = (0.8, 1.2)  # by one of which a number is multiplied
RESAMPLED = 0.25  # probability that a value is drawn anew instead
LEARNED = ("policy", *LEARNING_PARTS)  # parts of a checkpoint
STATE, TABLE = "population.json", "population.csv"
STRUCTURE = ("policy.model.", "policy.type", "env.")  # keys that decide which networks there are
COUNTS = {"max_env_step": "env_step", "max_train_iter": "iteration"}  # what a schedule counts, by the limit


@dataclass
class Member:
    """A run of the population.

    Attributes:
        seed: the run's seed.
        values: those of the current round.
        directory: the run's directory; empty before its start.
        history: the values with which its policy has learned in the rounds before.
        score: the last evaluation of the round before; None: the run has failed, or has not begun.
        source: the number of the member whose policy it takes over before the current round.
    """

    seed: int
    values: dict[str, Value]
    directory: str = ""
    history: list[dict[str, Value]] = field(default_factory=list)
    score: float | None = None
    source: int | None = None
    # Of the current round:
    words: Sequence[str] = ()  # command line of its run
    process: Any = None
    failure: str = ""

    def state(self) -> dict[str, Any]:
        """Return what is saved."""
        return {key: value for key, value in vars(self).items() if key not in ("words", "process", "failure")}


class Population:
    """A population that this process trains. It is checked before anything starts.

    `starter` starts the runs and has the methods of `SeparateRuns`, which is used if it is None.
    """

    def __init__(self, plan: SweepPlan, starter: Any = None) -> None:
        self._plan, self._rounds = plan, plan.args.rounds
        number = plan.args.trials or MEMBERS
        check_options(plan, number)
        self._starter = starter or SeparateRuns(plan.args, plan.folder, number)
        problem = {**plan.problem, "members": number, "rounds": self._rounds}
        saved = read_json(plan.folder / STATE)
        check_problem(plan.folder.name, saved.get("problem", {}), json.loads(json.dumps(problem)))
        rng = self._generator(0)
        seeds = range(plan.seeds[0], plan.seeds[0] + number)
        drawn = [{key: draw(kind, rng) for key, kind in plan.space.items()} for _ in seeds]
        fresh = [Member(seed, values) for seed, values in zip(seeds, drawn, strict=True)]
        self.members = [Member(**each) for each in saved.get("members", [])] or fresh
        # `_begins`: the round begins, so policies may still have to be taken over.
        self._round, self._begins = saved.get("round", 0), saved.get("begins", True)
        self._rows: list[list[Any]] = saved.get("rows", [])
        self._problem = problem

    def run(self) -> int:
        """Train the rounds that are left, write the outcome, and return the exit status."""
        self._plan.folder.mkdir(parents=True, exist_ok=True)
        with _locked(self._plan.folder), passing_signals_on(self._processes) as signalled:
            while self._round < self._rounds and not self._is_solved():
                if self._begins:
                    self._take_over()
                try:
                    self._train(signalled)
                finally:
                    for process in self._processes():
                        process.close()
                unfinished = [each for each in self.members if not each.failure and not self._has_reached(each)]
                if signalled() or unfinished:
                    console("The population was interrupted: repeat the command to continue.")
                    return 128 + (signalled() or signal.SIGTERM)
                self._compare()
        self._report()
        return 0

    # The rounds.

    def _processes(self) -> list[Any]:
        return [member.process for member in self.members if member.process]

    @property
    def _mark(self) -> int:
        """The count at which the current round ends."""
        return self._marks()[self._round]

    def _marks(self) -> list[int]:
        return [self._plan.limit * (part + 1) // self._rounds for part in range(self._rounds)]

    def _has_reached(self, member: Member) -> bool:
        """Return whether a run has reached the end of the round, or its goal."""
        result = read_result(member.directory) if member.directory else {}
        reason = result.get("stop_reason", "interrupted")
        return reason == "stop_value" or (reason != "interrupted" and result.get(self._plan.axis, 0) >= self._mark)

    def _is_solved(self) -> bool:
        begun = [each.directory for each in self.members if each.directory]
        return any(read_result(directory).get("stop_reason") == "stop_value" for directory in begun)

    def _take_over(self) -> None:
        """Let members take over the policies of others, as the comparison before has decided."""
        for member in self.members:
            if member.source is not None:
                copy_policy(self.members[member.source].directory, member.directory)
        self._begins = False
        self._save()

    def _train(self, signalled: Callable[[], int]) -> None:
        """Train all runs to the end of the round."""
        plan, runs = self._plan, list[Member]()
        for number, member in enumerate(self.members):
            member.process, member.failure = None, ""
            while os.path.isdir(member.directory) and is_active(member.directory):  # a killed process's run still saves
                time.sleep(LOOK_PERIOD)
            if self._has_reached(member):
                continue
            limit = {plan.limit_name: self._mark}
            if has_checkpoint(member.directory):
                member.words = plan.resume(member.directory, {**member.values, **limit})
            else:
                member.directory = new_name(str(plan.folder / f"member_{number:04}"))
                member.words = plan.train(member.directory, member.seed, member.values, **limit)
            runs.append(member)
        self._save()

        def note_end(member: Member) -> None:
            interrupted = signalled() or read_result(member.directory).get("stop_reason") == "interrupted"
            if member.process.status and not interrupted:
                member.failure = member.process.last_line()
                console(f"member {self.members.index(member)} failed: {member.failure}")

        run_all(runs, self._starter, signalled, note_end, lambda active: None)

    def _compare(self) -> None:
        """Compare the members after a round, and decide who takes over from whom in the next one."""
        for member in self.members:
            records = Evaluations(Path(member.directory)).read()
            values = [record[RETURN] for record in records if record.get(RETURN) is not None]
            member.score = values[-1] if values and not member.failure else None
        order = sorted(range(len(self.members)), key=lambda number: -_known(self.members[number].score))
        best, worst = _best_and_worst(order, [number for number in order if self.members[number].score is None])
        if not best:
            raise UserError(f"All members failed, the first one with: {self.members[0].failure}")
        for number, member in enumerate(self.members):
            row = [self._round + 1, self._mark, number, member.score, member.source]
            self._rows.append([*row, *member.values.values()])
        self._round, self._begins = self._round + 1, True
        if self._round < self._rounds:
            self._choose(best, worst)
        taken = ", ".join(f"{number} from {self.members[number].source}" for number in worst)
        leader = self.members[order[0]]
        said = f"round {self._round} of {self._rounds}: member {order[0]} leads with {show_number(leader.score)}"
        console(said + f"; policies are taken over: {taken}" * (self._round < self._rounds))
        self._save()

    def _choose(self, best: Sequence[int], worst: Sequence[int]) -> None:
        """Give the worst members sources and values of their own."""
        rng, before = self._generator(self._round), [dict(member.values) for member in self.members]
        histories = [[*member.history, values] for member, values in zip(self.members, before, strict=True)]
        for number, member in enumerate(self.members):
            member.source, member.history = None, histories[number]
            if number in worst:
                source = best[int(rng.integers(len(best)))]
                if not has_checkpoint(member.directory):
                    raise UserError(f"Member {number} failed before its first checkpoint: {member.failure}")
                member.source, member.history = source, histories[source]
                kinds = self._plan.space
                member.values = {key: explore(value, kinds[key], rng) for key, value in before[source].items()}

    def _generator(self, number: int) -> np.random.Generator:
        """Return the random generator of the choices before a round."""
        return np.random.default_rng([abs(self._plan.seeds[0]), number])

    def _save(self) -> None:
        members = [member.state() for member in self.members]
        state = {"problem": self._problem, "round": self._round, "begins": self._begins, "members": members}
        with atomic_file(str(self._plan.folder / STATE)) as file:
            file.write(json.dumps(state | {"rows": self._rows}, indent=1).encode())

    # The outcome.

    def _report(self) -> None:
        """Print the members, and write all rounds and the best config."""
        plan, keys = self._plan, list(self._plan.space)
        order = sorted(range(len(self.members)), key=lambda number: -_known(self.members[number].score))
        rows = [
            [
                str(number),
                show_number(self.members[number].score),
                *(short_value(value, DIGITS) for value in self.members[number].values.values()),
            ]
            for number in order
        ]
        right = frozenset(range(2 + len(keys)))
        print(Table(["member", "score", *shorten(keys)], rows, right).text(WIDTH))
        header = ["round", self._plan.axis, "member", "score", "source", *keys]
        cells = [["" if value is None else str(value) for value in row] for row in self._rows]
        (plan.folder / TABLE).write_text(Table(header, cells, frozenset()).csv() + "\n", encoding="utf-8")
        best = self.members[order[0]]
        cfg = self._best_config(best)
        save_config(cfg, plan.folder / BEST, "", **plan.limits)
        print(f"best: member {order[0]} with {show_number(best.score)}, {best.directory}")
        print(f"{plan.folder / BEST} trains from the start with the values that its policy has learned with")

    def _best_config(self, best: Member) -> Any:
        """Return a config with the values that a member's policy has learned with, as schedules if they may be any."""
        plan, values = self._plan, dict(best.values)
        name = f"exp_name={plan.folder.name}_best"
        for key, kind in plan.space.items():
            numbers = [each[key] for each in (*best.history, best.values)]
            if isinstance(kind, FloatDistribution) and len(set(numbers)) > 1:
                by = COUNTS[plan.limit_name]
                schedule: Any = {"type": "piecewise", "points": step_points(self._marks(), numbers), "by": by}
                try:
                    plan.compile({**values, key: schedule}, name)
                except ConfigError:  # this number is read once
                    continue
                values[key] = schedule
        return plan.compile(values, name)


def check_options(plan: SweepPlan, number: int) -> None:
    """Check what a population of a number of members needs."""
    if not plan.limit:
        raise ConfigError(
            "--sampler pbt compares runs at parts of their limit: give max_env_step=N, or max_train_iter=N."
        )
    if number < 2 or plan.args.rounds < 2 or plan.args.rounds > plan.limit:
        raise ConfigError(
            f"--sampler pbt needs two members (--trials) and two rounds or more, got {number} and {plan.args.rounds}."
        )
    if len(plan.seeds) > 1:
        raise ConfigError("--sampler pbt takes one seed: its members have this one and those that follow it.")
    if plan.args.storage:
        raise ConfigError("--sampler pbt has no database, because one process trains all members: leave out --storage.")
    for key in plan.space:
        if key.startswith(STRUCTURE):
            raise ConfigError(
                f"--sampler pbt cannot vary {key}, because members take over the policies of others: use another "
                "--sampler for this key."
            )


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Return a context manager in which no other process trains the population."""
    try:
        lock = lock_directory(folder)
    except BlockingIOError:
        raise UserError(f"Another process trains the population in '{folder}': wait for it, or stop it.") from None
    try:
        yield
    finally:
        unlock_directory(lock)


def _known(score: float | None) -> float:
    """Return a score as a number to sort by; one that is missing, or not a number, comes last."""
    return -math.inf if score is None or math.isnan(score) else score


def _best_and_worst(order: Sequence[int], failed: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the best and the worst of numbers in the order of their scores; those that failed are among the worst."""
    number = max(round(SHARE * len(order)), 1)
    best = [each for each in order[:number] if each not in failed]
    return best, [each for each in order if each in failed or (each in order[-number:] and each not in best)]


def copy_policy(source: str, into: str) -> None:
    """Let the newest checkpoint of the run in a directory have learned what that of another run has."""
    learned, _ = read_checkpoint(os.path.join(source, "ckpt", "ckpt_last.pth.tar"))
    folder = os.path.join(into, "ckpt")
    state, record = read_checkpoint(os.path.join(folder, "ckpt_last.pth.tar"))
    schedules = state["policy"]["schedules"]  # counts
    state |= {part: learned[part] for part in LEARNED if part in state}
    state["policy"] = {**state["policy"], "schedules": schedules}
    save_checkpoint(os.path.join(folder, f"{record['name']}.pth.tar"), state, record)
    CheckpointStore(folder, keep=0)  # opening the store makes ckpt_last a name of this file again


def draw(kind: Distribution, rng: np.random.Generator) -> Value:
    """Return a random value; of a range with `log`, one whose logarithm is uniform."""
    if isinstance(kind, CategoricalDistribution):
        return kind.choices[int(rng.integers(len(kind.choices)))]
    if kind.log:
        value = math.exp(rng.uniform(math.log(kind.low), math.log(kind.high)))
    elif kind.step:
        value = kind.low + kind.step * int(rng.integers(round((kind.high - kind.low) / kind.step) + 1))
    else:
        value = rng.uniform(kind.low, kind.high)
    return round(value) if isinstance(kind, IntDistribution) else float(value)


def explore(value: Value, kind: Distribution, rng: np.random.Generator) -> Value:
    """Return a value near another: a neighbouring choice, or 0.8 or 1.2 times a number; sometimes any value.

    A number with a step changes by at least one step.
    """
    if rng.random() < RESAMPLED:
        return draw(kind, rng)
    up = bool(rng.integers(2))
    if isinstance(kind, CategoricalDistribution):
        place = kind.choices.index(value) + (1 if up else -1)
        return kind.choices[min(max(place, 0), len(kind.choices) - 1)]
    assert isinstance(value, int | float)
    changed = value * FACTORS[up]
    if kind.step:
        changed = value + (1 if up else -1) * max(round(abs(changed - value) / kind.step), 1) * kind.step
    changed = min(max(changed, kind.low), kind.high)
    return round(changed) if isinstance(kind, IntDistribution) else float(changed)


def step_points(marks: Sequence[int], numbers: Sequence[Any]) -> list[list[Any]]:
    """Return the points of a schedule that has `numbers[i]` until the count `marks[i]`, and the last one after it."""
    points = [[0, numbers[0]]]
    for mark, (before, after) in zip(marks, pairwise(numbers), strict=False):
        points += [[mark - 1, before], [mark, after]] if before != after else []
    return points
