"""What a run says and leaves behind: the start-up summary, figures, checkpoints, the result."""

from __future__ import annotations

import os
import time
from collections import Counter
from contextlib import AbstractContextManager, ExitStack
from typing import Any, ClassVar

import torch
from easydict import EasyDict

from ding_lite.envs import EnvSpec
from ding_lite.policy import Policy
from ding_lite.utils.checkpoint.run_directory import open_exp_dir, release_exp_dir
from ding_lite.utils.dist.ranks import get_backend, get_rank, get_world_size
from ding_lite.utils.logger import ExperimentLogger
from ding_lite.utils.progress import Progress


class RunReporter(AbstractContextManager):
    """The experiment directory and the terminal of one run; both are rank 0's, the methods are called on every rank.

    Attributes:
        exp_dir: the same on every rank; a new directory, unless the run goes on.
        goes_on: the directory is that of a run which goes on, as the config or a restarted launcher asks for.
    """

    axis: ClassVar[str] = "envstep"  # what TensorBoard draws everything over

    def __init__(self, cfg: EasyDict, limits: dict[str, int]) -> None:
        self._cfg, self._limits = cfg, limits
        self._start = time.time()
        self._eval_info: dict[str, Any] = {}
        self._return_mean: float | None = None
        self._collected: Counter[str] = Counter()  # sums since they were last logged
        learn = cfg.policy.learn
        resume = learn.resume_training and not learn.learner.hook.load_ckpt_before_run
        self.exp_dir, self.goes_on = open_exp_dir(cfg.exp_name, resume)
        self._stack = ExitStack()
        self._stack.callback(release_exp_dir, self.exp_dir)
        self._logger = self._stack.enter_context(ExperimentLogger(self.exp_dir, get_rank(), self.axis))

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    def path(self, *parts: str) -> str:
        """Return a path inside the experiment directory."""
        return os.path.join(self.exp_dir, *parts)

    def begin(self, policy: Policy, spec: EnvSpec, envstep: int, train_iter: int) -> None:
        """Say what runs where, in global and per-rank figures, and start the progress display at these counts."""
        self._progress = self._stack.enter_context(self._create_progress(envstep, train_iter))
        cfg, say = self._cfg, self._logger.info
        for note in cfg.get("notes", []):
            say(f"note: {note}")
        if cfg.policy.cuda and not torch.cuda.is_available():
            say("policy.cuda=True, but no GPU is available: training on the CPU.")
        parameters = sum(parameter.numel() for parameter in policy.model.parameters())
        lines = {
            "experiment": f"{cfg.policy.type} on {cfg.env.env_id or cfg.env.type}, seed {cfg.seed}",
            "device": f"{policy.device}, {torch.get_num_threads()} thread(s) a rank, {cfg.policy.precision}",
            "ranks": f"{get_world_size()} ({get_backend()})",
            **self._source_lines(),
            "observation": f"{spec.observation_space}",
            "parameters": f"{parameters:,}",
            "results": self.exp_dir,
        }
        say("\n".join(f"{key:>12}  {value}" for key, value in lines.items()))

    def _create_progress(self, envstep: int, train_iter: int) -> Progress:
        total = self._limits["max_env_step"]
        return Progress(total if total < 1e10 else None, get_rank() == 0, self._logger.info, envstep)

    def _source_lines(self) -> dict[str, str]:
        """Return the summary's lines about where samples come from."""
        cfg, world, n_env = self._cfg, get_world_size(), self._cfg.env.collector_env_num
        learn, collect, unroll_len = cfg.policy.learn, cfg.policy.collect, cfg.policy.get("unroll_len", 1)
        collected, unit = (collect.get("n_sample") or n_env) * unroll_len, "env steps"
        if "n_episode" in collect:
            collected, unit = collect.n_episode, "episodes"
        updates = f"{learn.get('epoch_per_collect', 1)} epochs a collect"
        if "update_per_collect" in learn:
            updates = f"{learn.update_per_collect} updates a collect"
        return {
            "batch": f"{learn.batch_size} a rank, {learn.batch_size * world} global, {updates}",
            "collect": f"{collected} {unit} a rank, {collected * world} global",
            "environments": f"{n_env} a rank ({cfg.env.manager.type}), {n_env * world} global; "
            f"{cfg.env.evaluator_env_num} evaluate",
        }

    def warning(self, message: str) -> None:
        """Say something that the user should act on."""
        self._logger.warning(message)

    def state_dict(self) -> dict[str, Any]:
        return {
            "collected": dict(self._collected),
            "return_mean": self._return_mean,
            "eval_return_mean": self._eval_info.get("return_mean"),
            "seconds": time.time() - self._start,
            "metrics_position": self._logger.position(),
        }

    def resume(self, state: dict[str, Any], name: str, envstep: int, train_iter: int) -> None:
        """Go on from what `state_dict` returned at the checkpoint `name`; what was logged later is dropped."""
        self._collected, self._return_mean = Counter(state["collected"]), state["return_mean"]
        self._eval_info = {"return_mean": state["eval_return_mean"]}
        self._start -= state["seconds"]
        if self.goes_on:
            step = {"envstep": envstep, "train_iter": train_iter}[self.axis]
            self._logger.resume(state["metrics_position"], step)
        self._logger.info(f"resumed from {name}: {self._moment(envstep, train_iter)}")

    def collect(self, figures: dict[str, float], envstep: int, train_iter: int) -> None:
        """Add what a collect counted, and show progress."""
        self._collected.update(figures)
        if figures["episode"]:
            self._return_mean = figures["return"] / figures["episode"]
        self._progress.update(envstep, train_iter, self._return_mean)

    def training(self, losses: dict[str, float], envstep: int, train_iter: int) -> None:
        """Log the losses, and what was collected since the last time."""
        values = {f"train/{key}": value for key, value in losses.items()} | self._source_values()
        self._logger.scalars(values, envstep, train_iter)

    def _source_values(self) -> dict[str, float]:
        """Return figures of where samples came from since the last time."""
        sums, self._collected = self._collected, Counter()
        values = {}
        if sums["duration"]:
            values["collect/env_step_per_second"] = sums["env_step"] / sums["duration"]
        if sums["episode"]:
            values["collect/return_mean"] = sums["return"] / sums["episode"]
            values["collect/length_mean"] = sums["length"] / sums["episode"]
        return values

    def evaluation(self, info: dict[str, Any], envstep: int, train_iter: int) -> None:
        """Log and say what an evaluation found."""
        self._eval_info = info
        figures = {f"eval/{key}": value for key, value in info.items() if key not in ("returns", "best")}
        self._logger.scalars(figures, envstep, train_iter)
        self._logger.info(
            f"evaluation at {self._moment(envstep, train_iter)}: return {info['return_mean']:.2f} +- "
            f"{info['return_std']:.2f} over {len(info['returns'])} episodes"
        )

    def end(self, stop_reason: str, signum: int, counts: dict[str, int], best_return: float, saved: bool) -> None:
        """Write result.json and say how the run ended; `signum` is the signal that interrupted it, or 0."""
        result = {
            "stop_reason": stop_reason,
            "signal": signum,
            **counts,
            "eval_return_mean": self._eval_info.get("return_mean"),
            "eval_return_best": best_return,
            "seconds": round(time.time() - self._start, 3),
            "world_size": get_world_size(),
            "seed": self._cfg.seed,
        }
        self._logger.write_result(result)
        self._progress.close()
        self._logger.info(
            f"ended ({stop_reason}) at {self._moment(counts['envstep'], counts['train_iter'])}; best evaluation return "
            f"{best_return:.2f}; "
            + (f"checkpoint {self.path('ckpt', 'ckpt_last.pth.tar')}" if saved else "THE LAST CHECKPOINT WAS NOT SAVED")
        )

    def _moment(self, envstep: int, train_iter: int) -> str:
        return f"env step {envstep}, iteration {train_iter}"
