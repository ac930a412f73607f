"""The output of a run: progress, figures, and the result; the summary at its start is in `summary`."""

from __future__ import annotations

import shlex
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import numpy as np
from easydict import EasyDict
from tqdm import tqdm

from ding_lite.envs import EnvSpec
from ding_lite.policy import Policy
from ding_lite.run.summary import PERIOD, forecast, summary_of
from ding_lite.utils.logger import COUNTS, ExperimentLogger, Progress
from ding_lite.utils.ranks.collectives import get_rank, get_world_size
from ding_lite.utils.registry import UserError

STILL = "evaluation: no episode ends and no observation changes"
STILL_ADVICE = (
    ": the policy repeats an action without effect. If the environment waits for another one, let it take that itself, "
    "as env.fire_reset of Atari does, or set policy.eval.eps above 0 if the policy has it. env.max_episode_steps ends "
    "such episodes."
)
PERIOD_OF_SHARES = 1.0  # seconds after which the end of a run says what took them
WORDS = {"envstep": ("step", "iteration"), "train_iter": ("iteration", "epoch")}  # limit -> words of the progress line


class RunReporter(AbstractContextManager[Any]):
    """Writes the terminal output and the files of one run. Every rank calls the methods, but only rank 0 writes."""

    def __init__(self, cfg: EasyDict, exp_dir: str, axis: str = "envstep") -> None:
        self.cfg, self.exp_dir, self.axis = cfg, exp_dir, axis
        self._start = time.monotonic()
        self._eval_info: dict[str, Any] = {}
        self._return_mean: float | None = None
        self._collected = Counter[str]()  # sums since they were last logged
        self._spent: defaultdict[str, float] = defaultdict(float)  # seconds of this process by what it did
        self._played = 0.0  # env steps of all ranks in these seconds
        self._alarmed: set[str] = set()
        self._stack = ExitStack()
        self._logger = self._stack.enter_context(ExperimentLogger(exp_dir, get_rank(), axis))

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    def begin(
        self,
        policy: Policy,
        source: Mapping[str, str],
        spec: EnvSpec,
        step: int,
        total: int,
        after_log: Callable[[Mapping[str, float]], None],
    ) -> None:
        """Print the summary and start the progress display, from `step` to `total` of the count `axis`."""
        self._after_log, self._policy = after_log, policy
        expected = self.cfg.env.get("expected_env_step") if self.axis == "envstep" else None
        self._expected = expected if expected and expected < total else None  # else the limit comes first
        limit = total if total < 1e10 else None
        progress = Progress(limit, get_rank() == 0, self.info, step, WORDS[self.axis], self._expected)
        self._progress = self._stack.enter_context(progress)
        for message in summary_of(self.cfg, policy, source, spec, self.exp_dir):
            self.info(message)

    def info(self, message: str) -> None:
        """Print a message."""
        self._logger.info(message)

    def warning(self, message: str) -> None:
        """Print a message that the user should act on."""
        self._logger.warning(message)

    def state_dict(self) -> dict[str, Any]:
        """Return what a resumed run needs to continue the records."""
        return {
            "collected": dict(self._collected),
            "return_mean": self._return_mean,
            "eval_return_mean": self._eval_info.get("return_mean"),
            "eval_return_best": self._eval_info.get("return_best"),
            "eval_info": self._eval_numbers(),
            "seconds": self.seconds(),
            "metrics_position": self._logger.position(),
        }

    def resume(self, state: dict[str, Any], name: str, counts: Mapping[str, int], goes_on: bool) -> None:
        """Continue the records of a run from the checkpoint `name`.

        If it `goes_on` in the same directory, what was recorded after the checkpoint is removed.
        """
        self._collected, self._return_mean = Counter(state["collected"]), state["return_mean"]
        self._eval_info = {key: state[f"eval_{key}"] for key in ("return_mean", "return_best")} | state["eval_info"]
        self._start -= state["seconds"]
        if goes_on:
            self._logger.resume(state["metrics_position"], counts[self.axis])
        self.info(f"resumed from {name}: {self._moment(counts)}")

    def begin_again(self) -> None:
        """Say that a run begins again that ended before its first checkpoint, and remove what it had recorded."""
        self._logger.resume(0, 0)
        self.warning("Restarted before the first checkpoint was written: the run starts from the beginning.")

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Return a context manager that adds its seconds to those that the run has spent on something."""
        start = time.monotonic()
        yield
        self._spent[what] += time.monotonic() - start

    def collect(self, figures: dict[str, float], counts: Mapping[str, int], env_seconds: float) -> None:
        """Add the figures of one collect, summed over ranks, which was `timed` as acting, and show progress.

        For `env_seconds` of it, the environments of this rank took their steps.
        """
        self._collected.update(figures)
        self._spent["environments"] += env_seconds
        self._spent["acting"] -= env_seconds
        self._played += figures["env_step"]
        if figures["episode"]:
            self._return_mean = figures["return"] / figures["episode"]
        env_step = counts["envstep"]
        self._progress.update(env_step, counts["train_iter"], {"return": self._return_mean, **self._eval_returns()})
        seconds, steps = self._progress.pace(env_step)
        if self._expected is None or not self._progress.learns or not steps or seconds < PERIOD:
            return
        if env_step < self._expected:  # said once, as soon as the rate is known
            self.info(forecast(self.cfg.env, self.exp_dir, env_step, steps / seconds))
        self._expected = None

    def learned(self, counts: Mapping[str, int]) -> None:
        """Show the progress of a run without environments."""
        self._progress.update(counts["train_iter"], counts["epoch"], self._eval_returns())

    def _eval_returns(self) -> dict[str, float | None]:
        return {"eval": self._eval_info.get("return_mean"), "best": self._eval_info.get("return_best")}

    def _eval_numbers(self) -> dict[str, float]:
        """Return the last evaluation's means of `env.info_keys`."""
        names = (f"info/{key}" for key in self.cfg.env.info_keys)
        return {name: self._eval_info[name] for name in names if name in self._eval_info}

    def training(self, values: Mapping[str, float], data: Mapping[str, float], counts: Mapping[str, int]) -> None:
        """Record training figures, and the means of what was collected since the last call.

        `values` are the learner's figures by name, `data` are the source's by tag.
        """
        tagged = {**{f"train/{key}": value for key, value in values.items()}, **data}
        sums, self._collected = self._collected, Counter()
        if sums["duration"]:
            tagged["collect/env_step_per_second"] = sums["env_step"] / sums["duration"]
        if sums["episode"]:
            tagged["collect/return_mean"] = sums["return"] / sums["episode"]
            tagged["collect/length_mean"] = sums["length"] / sums["episode"]
        for name in (f"info/{key}" for key in self.cfg.env.info_keys):
            if count := sums[f"{name}/episodes"]:
                tagged[f"collect/{name}"] = sums[name] / count
        self.figures(tagged, counts)

    def check(self, values: Mapping[str, float], alarms: Mapping[str, tuple[float, str]]) -> None:
        """Warn, once for each figure, if the learner's figures exceed limits, see `Policy.alarms`."""
        for name, (limit, advice) in alarms.items():
            if values.get(name, 0.0) > limit and name not in self._alarmed:
                self._alarmed.add(name)
                self.warning(f"{name} is {values[name]:.2f}, above {limit}: {advice}.")

    def figures(self, values: Mapping[str, float], counts: Mapping[str, int]) -> None:
        """Record figures by their tags, at the counts of the run.

        Raises:
            UserError: a figure has the name of a count, which it would replace in metrics.jsonl.
        """
        taken = next((name for name in COUNTS if name in values), "")
        if taken:
            raise UserError(f"'{taken}' is the name of a count: give your figure another one, such as 'mine/{taken}'.")
        self._logger.scalars(dict(values), counts["envstep"], counts["train_iter"], self.seconds())
        self._after_log(values)

    def evaluating(self, episodes: int, steps: int, still: bool) -> None:
        """Show the progress of an evaluation, see `Evaluator`."""
        number = self.cfg.env.n_evaluator_episode
        number += self.cfg.env.get("n_confirm_episode", 0) * (episodes >= number)
        self._progress.note(f"evaluating: {episodes} of {number} episodes, step {steps:,}")
        if still and STILL not in self._alarmed:
            self._alarmed.add(STILL)
            self.warning(f"{STILL} (step {steps:,}){STILL_ADVICE}")

    def evaluation(self, info: dict[str, Any], counts: Mapping[str, int]) -> None:
        """Record and print the result of an evaluation."""
        self._eval_info = info
        figures = {f"eval/{key}": value for key, value in info.items() if key not in ("returns", "best")}
        self.figures(figures, counts)
        self.info(
            f"{self._moment(counts)}: eval return {info['return_mean']:.2f} +- {info['return_std']:.2f}, best "
            f"{info['return_best']:.2f}{describe_numbers(self._eval_numbers())}\n"
            f"  {len(info['returns'])} episodes{describe_evaluation(self._policy)}, "
            f"after {tqdm.format_interval(self.seconds())}"
        )
        missing = [key for key in self.cfg.env.info_keys if f"info/{key}" not in info and key not in self._alarmed]
        self._alarmed.update(missing)
        for key in missing:
            self.warning(f"env.info_keys: no episode of this evaluation had info['{key}'] at its last step.")

    def end(self, stop_reason: str, signum: int, counts: dict[str, int], best_return: float, checkpoint: str) -> None:
        """Write result.json, and print how the run ended; `checkpoint` is empty if the last one was not saved."""
        result = {
            "stop_reason": stop_reason,
            "signal": signum,
            **counts,
            "eval_return_mean": self._eval_info.get("return_mean"),
            "eval_return_best": best_return,
            "eval_average": self.cfg.policy.eval.average,
            **{f"eval/{name}": value for name, value in self._eval_numbers().items()},
            "seconds": round(self.seconds(), 3),
            "world_size": get_world_size(),
            "precision": self._policy.precision,
            "seed": self.cfg.seed,
        }
        self._logger.write_result(result)
        self._progress.close()
        nproc = f" --nproc {get_world_size()}" * (get_world_size() > 1)
        can_go_on = checkpoint and stop_reason == "interrupted"
        self.info(
            f"ended ({stop_reason}) at {self._moment(counts)}\n"
            + (f"  best evaluation return {best_return:.2f}\n" if np.isfinite(best_return) else "")
            + describe_shares(self._spent, self._played)
            + (f"  checkpoint {checkpoint}" if checkpoint else "  THE LAST CHECKPOINT WAS NOT SAVED")
            + (f"\n  continue with ding_lite resume {shlex.quote(self.exp_dir)}{nproc}" if can_go_on else "")
        )

    def seconds(self) -> float:
        """Return the run's seconds so far, including those before it was resumed."""
        return time.monotonic() - self._start

    def _moment(self, counts: Mapping[str, int]) -> str:
        env_step = f"env step {counts['envstep']}, " if self.axis == "envstep" else ""
        return f"{env_step}iteration {counts['train_iter']}"


def describe_numbers(numbers: Mapping[str, float]) -> str:
    """Return the means of `env.info_keys` as text, to be appended to the return of an evaluation."""
    return "".join(f", {name.removeprefix('info/')} {value:.4g}" for name, value in numbers.items())


def describe_shares(spent: Mapping[str, float], env_steps: float) -> str:
    """Return a line with the pace of a run and the shares of its seconds, the largest first; empty if they are few."""
    total = sum(spent.values())
    if total < PERIOD_OF_SHARES:
        return ""
    pace = f"{env_steps / total:,.0f} env steps a second; " if env_steps else ""
    largest_first = sorted(spent.items(), key=lambda part: -part[1])
    shares = [f"{what} {seconds / total:.0%}" for what, seconds in largest_first if seconds >= 0.005 * total]
    return f"  {pace}{', '.join(shares)}\n"


def describe_evaluation(policy: Policy) -> str:
    """Return a note on the epsilon and the averaged weights of an evaluation, for its result; empty without both."""
    cfg = policy.current_config.eval
    notes = {"epsilon": cfg.get("eps"), "averaged weights, share of the newest": cfg.average}
    return "".join(f", {name} {value:.3g}" for name, value in notes.items() if value)
