"""From a config pair to the parts of a run, and what a run does beside its loop: stop, record, save, resume."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import torch
from torch import nn

from ding_lite.config import check_shapes, compile_config, save_config
from ding_lite.envs import check_env, create_vector_env, derive_seeds
from ding_lite.policy import Policy
from ding_lite.utils.allocator import keep_freed_memory
from ding_lite.utils.checkpoint import CheckpointError, load_checkpoint, save_checkpoint
from ding_lite.utils.distributed import (
    all_gather_object,
    get_backend,
    get_local_world_size,
    get_rank,
    get_world_size,
)
from ding_lite.utils.experiment import create_exp_dir
from ding_lite.utils.interrupt import InterruptGuard
from ding_lite.utils.logger import ExperimentLogger
from ding_lite.utils.progress import Progress
from ding_lite.utils.registry import BUFFER_REGISTRY, POLICY_REGISTRY
from ding_lite.utils.seed import random_state, set_random_state, set_seed
from ding_lite.worker import Evaluator, Learner, SampleCollector, UniformReplayBuffer


class Experiment(AbstractContextManager):
    """The parts of one run, built from a config pair, alike on every rank; a context that closes and records them.

    Attributes:
        cfg: the compiled config.
        exp_dir: where results go, the same on every rank.
        policy, collector, evaluator, learner: the parts.
        stop_reason: why the run ended; empty while it runs.
    """

    def __init__(
        self,
        input_cfg: Any,
        seed: int | None,
        env_setting: Sequence[Any] | None,
        model: nn.Module | None,
        max_train_iter: int,
        max_env_step: int,
        overrides: Sequence[str] = (),
    ) -> None:
        builders, counts = _read_env_setting(env_setting)
        self.cfg = cfg = compile_config(input_cfg, seed, model is not None, [*overrides, *counts])
        spec = check_env(cfg.env, builders[0])
        check_shapes(cfg, spec, model is not None)
        self._max_train_iter, self._max_env_step, self.stop_reason = max_train_iter, max_env_step, ""
        self._start, self._eval_info, self._return_mean = time.time(), {}, None
        self._collected: Counter[str] = Counter()  # sums since they were last logged
        rank, local_ranks = get_rank(), get_local_world_size()
        keep_freed_memory()
        set_seed(derive_seeds(cfg.seed, rank, "policy", n=1)[0])
        with ExitStack() as stack:
            self.policy = POLICY_REGISTRY.find(cfg.policy.type)(cfg.policy, model)
            hook, resume = cfg.policy.learn.learner.hook, cfg.policy.learn.resume_training
            path = hook.load_ckpt_before_run
            state = load_policy(self.policy, path, with_optimizer=resume) if path else None
            self.exp_dir = create_exp_dir(cfg.exp_name)
            self._logger = stack.enter_context(ExperimentLogger(self.exp_dir, rank))
            self._guard = stack.enter_context(InterruptGuard(rank))
            collector_env = create_vector_env(
                cfg.env, cfg.env.collector_env_num, cfg.seed, True, local_ranks, builders=builders[0]
            )
            stack.callback(collector_env.close)
            evaluator_env = None
            if rank == 0:
                limits = {"max_train_iter": max_train_iter, "max_env_step": max_env_step}
                save_config(cfg, os.path.join(self.exp_dir, "total_config.py"), **limits)
                evaluator_env = create_vector_env(
                    cfg.env, cfg.env.evaluator_env_num, cfg.seed, False, local_ranks, builders=builders[1]
                )
                stack.callback(evaluator_env.close)
            self._build_workers(collector_env, evaluator_env)
            self._frame_stack = spec.frame_stack
            if state and resume:
                self._resume(state)
            self._progress = stack.enter_context(
                Progress(max_env_step if max_env_step < 1e10 else None, rank == 0, self._logger.info, self.collector.envstep)
            )
            self._introduce(spec)
            self._stack = stack.pop_all()

    def _build_workers(self, collector_env: Any, evaluator_env: Any) -> None:
        cfg, policy, rank = self.cfg, self.policy, get_rank()
        n_env = cfg.env.collector_env_num
        seeds = derive_seeds(cfg.seed, rank, "collect", n=n_env)
        self.collector = SampleCollector(
            collector_env, policy.collect_mode, cfg.policy.collect.n_sample or n_env, seeds, lambda: self._guard.requested
        )
        self.evaluator = Evaluator(
            evaluator_env,
            policy.eval_mode,
            cfg.env.n_evaluator_episode,
            cfg.policy.eval.evaluator.eval_freq,
            cfg.env.stop_value,
            lambda count: derive_seeds(cfg.seed, "evaluate", count, n=cfg.env.evaluator_env_num),
            lambda: self._guard.requested,
        )
        hook = cfg.policy.learn.learner.hook
        self.learner = Learner(policy.learn_mode, hook.log_show_after_iter, self._record_training)
        self._saved_iter = 0

    def create_replay_buffer(self) -> UniformReplayBuffer:
        """Return this rank's replay buffer, filled with `policy.random_collect_size` steps (random ones in a new run)."""
        cfg = self.cfg
        options = {key: value for key, value in cfg.policy.other.replay_buffer.items() if key != "type"}
        replay = BUFFER_REGISTRY.find(cfg.policy.other.replay_buffer.type)(
            num_envs=cfg.env.collector_env_num,
            nstep=cfg.policy.nstep,
            gamma=cfg.policy.discount_factor,
            frame_stack=self._frame_stack,
            batch_device=self.policy.device,
            seed=derive_seeds(cfg.seed, get_rank(), "replay", n=1)[0],
            **options,
        )
        is_new, collected = self.learner.train_iter == 0, 0
        while collected < cfg.policy.random_collect_size and not self.collector.interrupted:
            samples, figures = self.collector.collect(random=is_new)
            replay.push(samples)
            collected += figures["env_step"] // get_world_size()
        return replay

    # What the loop calls.

    def finished(self) -> bool:
        """Return whether the run is over, for a reason that every rank sees alike."""
        if self.collector.interrupted:
            self.stop_reason = "interrupted"
        elif not self.stop_reason and self.collector.envstep >= self._max_env_step:
            self.stop_reason = "max_env_step"
        elif not self.stop_reason and self.learner.train_iter >= self._max_train_iter:
            self.stop_reason = "max_train_iter"
        return bool(self.stop_reason)

    def evaluate(self) -> bool:
        """Evaluate if it is due; return whether the stop value was reached."""
        if not self.evaluator.should_eval(self.learner.train_iter):
            return False
        stop_flag, info = self.evaluator.eval(self.learner.train_iter)
        if info:
            self._eval_info = info
            figures = {f"eval/{key}": value for key, value in info.items() if key not in ("returns", "best")}
            self._logger.scalars(figures, self.collector.envstep, self.learner.train_iter)
            self._logger.info(
                f"evaluation at env step {self.collector.envstep}, iteration {self.learner.train_iter}: return "
                f"{info['return_mean']:.2f} +- {info['return_std']:.2f} over {len(info['returns'])} episodes"
            )
            if info["best"]:
                self.save("ckpt_best")
        if stop_flag:
            self.stop_reason = "stop_value"
        return stop_flag

    def collect(self) -> dict[str, Any]:
        """Play and return this rank's samples."""
        samples, figures = self.collector.collect()
        self._collected.update(figures)
        if figures["episode"]:
            self._return_mean = figures["return"] / figures["episode"]
        self._progress.update(self.collector.envstep, self.learner.train_iter, self._return_mean)
        return samples

    def learn(self, replay: UniformReplayBuffer) -> None:
        """Take the iterations that are due after a collect, once there are enough samples, and save if that is due."""
        learn = self.cfg.policy.learn
        if replay.count() >= learn.batch_size:
            self.learner.train(replay.batches(learn.batch_size, learn.update_per_collect), replay.update)
        if self.learner.train_iter - self._saved_iter >= learn.learner.hook.save_ckpt_after_iter:
            self.save(f"iteration_{self.learner.train_iter}")
            self._saved_iter = self.learner.train_iter

    def _record_training(self, values: dict[str, float]) -> None:
        """Log the losses, and what was collected since the last time."""
        values = {f"train/{key}": value for key, value in values.items()}
        sums = self._collected
        if sums["duration"]:
            values["collect/env_step_per_second"] = sums["env_step"] / sums["duration"]
        if sums["episode"]:
            values["collect/return_mean"] = sums["return"] / sums["episode"]
            values["collect/length_mean"] = sums["length"] / sums["episode"]
            values["collect/episode_count"] = self.collector.episode_count
        self._logger.scalars(values, self.collector.envstep, self.learner.train_iter)
        sums.clear()

    # Beginning and end.

    def save(self, name: str) -> bool:
        """Write `ckpt/NAME.pth.tar` on rank 0 with the random states of all ranks; a collective call."""
        random_states = all_gather_object(random_state())
        if get_rank() != 0:
            return True
        state = {
            "policy": self.policy.learn_mode.state_dict(),
            "learner": self.learner.state_dict(),
            "collector": self.collector.state_dict(),
            "evaluator": self.evaluator.state_dict(),
            "random_states": random_states,
        }
        try:
            save_checkpoint(self._checkpoint_path(name), state)
        except CheckpointError as error:
            self._logger.warning(f"{error} Training goes on.")
            return False
        return True

    def _checkpoint_path(self, name: str) -> str:
        return os.path.join(self.exp_dir, "ckpt", f"{name}.pth.tar")

    def _resume(self, state: dict[str, Any]) -> None:
        for part in ("learner", "collector", "evaluator"):
            getattr(self, part).load_state_dict(state[part])
        self._saved_iter = self.learner.train_iter
        if get_rank() < len(state["random_states"]):
            set_random_state(state["random_states"][get_rank()])

    def _introduce(self, spec: Any) -> None:
        """Say what runs where, in global and per-rank figures."""
        cfg, world, say = self.cfg, get_world_size(), self._logger.info
        for note in cfg.get("notes", []):
            say(f"note: {note}")
        if cfg.policy.cuda and not torch.cuda.is_available():
            say("policy.cuda=True, but no GPU is available: training on the CPU.")
        batch, n_env = cfg.policy.learn.batch_size, cfg.env.collector_env_num
        n_sample = cfg.policy.collect.n_sample or n_env
        parameters = sum(parameter.numel() for parameter in self.policy.model.parameters())
        lines = {
            "experiment": f"{cfg.policy.type} on {cfg.env.env_id or cfg.env.type}, seed {cfg.seed}",
            "device": f"{self.policy.device}, {torch.get_num_threads()} thread(s) a rank, {cfg.policy.precision}",
            "ranks": f"{world} ({get_backend()})",
            "batch": f"{batch} a rank, {batch * world} global, {cfg.policy.learn.update_per_collect} iterations a collect",
            "collect": f"{n_sample} env steps a rank, {n_sample * world} global",
            "environments": f"{n_env} a rank ({cfg.env.manager.type}), {n_env * world} global; {cfg.env.evaluator_env_num} evaluate",
            "observation": f"{spec.observation_space}",
            "parameters": f"{parameters:,}",
            "results": self.exp_dir,
        }
        say("\n".join(f"{key:>12}  {value}" for key, value in lines.items()))

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        with self._stack:
            if error is not None:
                return
            if self.stop_reason != "interrupted" and self.evaluator.last_iter != self.learner.train_iter:
                self.evaluator.last_iter = -1  # due, whatever the frequency
                self.evaluate()
            saved = self.save("ckpt_last")
            result = {
                "stop_reason": self.stop_reason,
                "envstep": self.collector.envstep,
                "train_iter": self.learner.train_iter,
                "episode_count": self.collector.episode_count,
                "eval_return_mean": self._eval_info.get("return_mean"),
                "eval_return_best": self.evaluator.best_return,
                "seconds": round(time.time() - self._start, 3),
                "world_size": get_world_size(),
                "seed": self.cfg.seed,
            }
            self._logger.write_result(result)
            self._progress.close()
            self._logger.info(
                f"ended ({self.stop_reason}) at env step {self.collector.envstep}, iteration {self.learner.train_iter}; "
                f"best evaluation return {self.evaluator.best_return:.2f}; "
                + (f"checkpoint {self._checkpoint_path('ckpt_last')}" if saved else "THE LAST CHECKPOINT WAS NOT SAVED")
            )
        if not saved:
            raise SystemExit(1)
        if self.stop_reason == "interrupted":
            raise SystemExit(128 + (self._guard.signum or 2))


def load_policy(policy: Policy, path: str, with_optimizer: bool) -> dict[str, Any]:
    """Put a checkpoint's model, or all that learning needs, into a policy; return the whole checkpoint.

    Raises:
        CheckpointError: it cannot be read, or is another policy's or model's.
    """
    state = load_checkpoint(path)
    try:
        policy.learn_mode.load_state_dict(state["policy"] if with_optimizer else {"model": state["policy"]["model"]})
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        cause = " ".join(str(error).split())[:300]
        raise CheckpointError(f"Checkpoint '{path}' does not fit the config's policy and model: {cause}") from error
    return state


def _read_env_setting(env_setting: Sequence[Any] | None) -> tuple[tuple[Any, Any], list[str]]:
    """Return what makes the collectors' and the evaluators' environments, if the user gave it, and their numbers."""
    if env_setting is None:
        return (None, None), []
    env_fn, *cfgs = env_setting
    collect, evaluate = ([lambda _, own=own: env_fn(own) for own in part] for part in cfgs)
    return (collect, evaluate), [f"env.collector_env_num={len(collect)}", f"env.evaluator_env_num={len(evaluate)}"]
