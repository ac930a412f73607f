"""From a config pair to the parts of a run, and what its loop calls: evaluate, collect, learn."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import torch
from easydict import EasyDict
from torch import nn

from ding_lite.config import check_shapes, compile_config, save_config
from ding_lite.entry.record import RunRecord
from ding_lite.envs import check_env, create_vector_env, derive_seeds
from ding_lite.policy import Policy
from ding_lite.torch_utils import NonFiniteError
from ding_lite.utils.allocator import keep_freed_memory
from ding_lite.utils.checkpoint import CheckpointError, load_checkpoint
from ding_lite.utils.checkpoint_store import CheckpointStore, Loaded, load_file
from ding_lite.utils.distributed import all_gather_object, allreduce_data
from ding_lite.utils.interrupt import InterruptGuard
from ding_lite.utils.launch import get_local_world_size, get_rank, get_world_size
from ding_lite.utils.registry import BUFFER_REGISTRY, POLICY_REGISTRY, ConfigError
from ding_lite.utils.seed import random_state, set_random_state, set_seed
from ding_lite.utils.watchdog import progress
from ding_lite.worker import EpisodeCollector, Evaluator, Learner, SampleCollector, UniformReplayBuffer

STATEFUL = ("learner", "collector", "evaluator")  # parts whose state a checkpoint holds, beside the policy's


class Experiment(AbstractContextManager):
    """The parts of one run, built from a config pair, alike on every rank; a context that closes and records them.

    Attributes:
        cfg: the compiled config.
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
        on_policy: bool = False,
    ) -> None:
        builders, counts = _read_env_setting(env_setting)
        self.cfg = cfg = compile_config(input_cfg, seed, model is not None, [*overrides, *counts])
        _check_pipeline(cfg, on_policy)
        spec = check_env(cfg.env, builders[0])
        check_shapes(cfg, spec, model is not None)
        self._max_train_iter, self._max_env_step, self.stop_reason = max_train_iter, max_env_step, ""
        rank, local_ranks = get_rank(), get_local_world_size()
        keep_freed_memory()
        torch.set_num_threads(cfg.policy.num_threads or torch.get_num_threads())
        set_seed(derive_seeds(cfg.seed, rank, "policy", n=1)[0])
        with ExitStack() as stack:
            self.policy = POLICY_REGISTRY.find(cfg.policy.type)(cfg.policy, model)
            loaded = self._load_given()
            self._record = stack.enter_context(RunRecord(cfg, max_env_step))
            self._store = CheckpointStore(self._record.path("ckpt"), cfg.policy.learn.learner.hook.keep_ckpt)
            if self._record.goes_on:
                loaded = self._load_newest() or loaded
            self._guard = stack.enter_context(InterruptGuard(rank))
            collector_env = create_vector_env(
                cfg.env, cfg.env.collector_env_num, cfg.seed, True, local_ranks, builders=builders[0]
            )
            stack.callback(collector_env.close)
            evaluator_env = None
            if rank == 0:
                if not self._record.goes_on:
                    limits = {"max_train_iter": max_train_iter, "max_env_step": max_env_step}
                    save_config(cfg, self._record.path("total_config.py"), **limits)
                evaluator_env = create_vector_env(
                    cfg.env, cfg.env.evaluator_env_num, cfg.seed, False, local_ranks, builders=builders[1]
                )
                stack.callback(evaluator_env.close)
            self._build_workers(collector_env, evaluator_env)
            self._frame_stack = spec.frame_stack
            self._local_state = self._resume(loaded) if loaded else {}
            self._record.begin(self.policy, spec, self.collector.envstep)
            self._stack = stack.pop_all()

    def _build_workers(self, collector_env: Any, evaluator_env: Any) -> None:
        cfg, policy, rank = self.cfg, self.policy, get_rank()
        n_env, collect = cfg.env.collector_env_num, cfg.policy.collect
        seeds = derive_seeds(cfg.seed, rank, "collect", n=n_env)
        options = (collector_env, policy.collect_mode)
        self.collector: SampleCollector
        if "n_episode" in collect:
            self.collector = EpisodeCollector(*options, collect.n_episode, seeds, lambda: self._guard.requested)
        else:
            n_sample = (collect.n_sample or n_env) * cfg.policy.get("unroll_len", 1)
            self.collector = SampleCollector(*options, n_sample, seeds, lambda: self._guard.requested)
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
        self.learner = Learner(policy.learn_mode, hook.log_show_after_iter, self._on_log, hook.check_ranks_after_iter)
        self._replay: UniformReplayBuffer | None = None
        self._enough = False  # whether the replay buffers of all ranks hold a batch
        self._saved_iter, self._saved_eval_count = 0, -1

    def create_replay_buffer(self) -> UniformReplayBuffer:
        """Return this rank's replay buffer: a resumed run's, or one with `policy.random_collect_size` steps in it."""
        cfg, policy = self.cfg, self.cfg.policy
        options = {key: value for key, value in policy.other.replay_buffer.items() if key != "type"}
        if "unroll_len" in policy:
            options["unroll_len"] = policy.unroll_len
        self._replay = replay = BUFFER_REGISTRY.find(policy.other.replay_buffer.type)(
            num_envs=cfg.env.collector_env_num,
            nstep=policy.get("nstep", 1),
            gamma=policy.discount_factor,
            frame_stack=self._frame_stack,
            batch_device=self.policy.device,
            seed=derive_seeds(cfg.seed, get_rank(), "replay", n=1)[0],
            **options,
        )
        is_new, collected = self.learner.train_iter == 0, 0
        if "replay" in self._local_state:
            replay.load_state_dict(self._local_state.pop("replay"))
            collected = self.collector.envstep // get_world_size()  # all of them, if an interrupt cut this short
        while collected < policy.get("random_collect_size", 0) and not self.collector.interrupted:
            samples, figures = self.collector.collect(random=is_new)
            replay.push(samples)
            collected += int(figures["env_step"]) // get_world_size()
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
            self._record.evaluation(info, self.collector.envstep, self.learner.train_iter)
            if info["best"]:
                self._report(self._store.save_best(self._state_dict(), self.learner.train_iter, self.collector.envstep))
        if stop_flag:
            self.stop_reason = "stop_value"
        return stop_flag

    def collect(self) -> dict[str, Any]:
        """Play and return this rank's samples."""
        samples, figures = self.collector.collect()
        self._record.collect(figures, self.collector.envstep, self.learner.train_iter)
        return samples

    def sample(self, replay: UniformReplayBuffer) -> Iterable[dict[str, Any]]:
        """Return the batches that are due after a collect; none until the replay buffers of all ranks hold enough."""
        learn = self.cfg.policy.learn
        if not self._enough:  # all ranks begin together: a failed environment's steps may be missing on one of them
            self._enough = allreduce_data(int(replay.count() >= learn.batch_size)) == get_world_size()
        return replay.batches(learn.batch_size, learn.update_per_collect) if self._enough else ()

    def learn(
        self, batches: Iterable[dict[str, Any]], update: Callable[[torch.Tensor, torch.Tensor], None] | None = None
    ) -> None:
        """Take a learner iteration on each batch, and save if that is due; `update` hears of new priorities."""
        try:
            self.learner.train(batches, update)
        except NonFiniteError as error:
            path = self._record.path("nonfinite", f"iteration_{error.iteration}.rank_{get_rank()}.pth.tar")
            raise error.saved(path) from None
        if self.learner.train_iter - self._saved_iter >= self.cfg.policy.learn.learner.hook.save_ckpt_after_iter:
            self._save()

    def _on_log(self, values: dict[str, float]) -> None:
        self._record.training(values, self.collector.envstep, self.learner.train_iter)

    # State, beginning and end.

    def _state_dict(self) -> dict[str, Any]:
        """Return what is the same on all ranks."""
        parts = {part: getattr(self, part).state_dict() for part in STATEFUL}
        return {"policy": self.policy.learn_mode.state_dict(), "record": self._record.state_dict()} | parts

    def _local_state_dict(self) -> dict[str, Any]:
        """Return what each rank has of its own; its large tensors are not copies."""
        state = {"random": random_state(), "collector": self.collector.local_state_dict()}
        if self._replay is not None and self.cfg.policy.learn.learner.hook.save_replay_buffer:
            state["replay"] = self._replay.state_dict()
        return state

    def _save(self) -> bool:
        """Write a checkpoint of all ranks, unless the newest is of this very moment; return whether there is one."""
        train_iter, eval_count = self.learner.train_iter, self.evaluator.eval_count
        if (train_iter, eval_count) == (self._saved_iter, self._saved_eval_count):
            return True
        progress("save")
        self._saved_iter = train_iter
        states = (self._state_dict(), self._local_state_dict())
        saved = self._report(
            self._store.save(f"iteration_{train_iter}", *states, train_iter=train_iter, envstep=self.collector.envstep)
        )
        self._saved_eval_count = eval_count if saved else -1
        return saved

    def _report(self, reason: str | None) -> bool:
        """Say why a checkpoint could not be written, if so; return whether it was."""
        if reason is not None:
            self._record.warning(f"{reason} Training goes on.")
        return reason is None

    def _load_given(self) -> Loaded | None:
        """Give the policy the model of `load_ckpt_before_run`; return that checkpoint if the run goes on from it."""
        learn = self.cfg.policy.learn
        path = learn.learner.hook.load_ckpt_before_run
        if path and learn.resume_training:
            loaded = load_file(path)
            load_policy(self.policy, loaded.state, path, with_optimizer=True)
            return loaded
        if path:
            load_policy(self.policy, load_checkpoint(path), path)
        return None

    def _load_newest(self) -> Loaded | None:
        """Give the policy what the directory's newest valid checkpoint holds, and return that; None: a fresh start."""
        if not self._store.has_checkpoints():
            if self.cfg.policy.learn.resume_training:
                raise CheckpointError(f"'{self._record.exp_dir}' has no checkpoint to resume from: start a new run.")
            self._record.warning("Restarted before the first checkpoint was written: the run begins again.")
            return None
        loaded = self._store.load_newest()
        for reason in loaded.skipped:
            self._record.warning(reason)
        load_policy(self.policy, loaded.state, loaded.name, with_optimizer=True)
        return loaded

    def _resume(self, loaded: Loaded) -> dict[str, Any]:
        """Put counters, environments and random states back; return what is left of this rank's own state."""
        for part in STATEFUL:
            getattr(self, part).load_state_dict(loaded.state[part])
        self._saved_iter, self._saved_eval_count = self.learner.train_iter, self.evaluator.eval_count
        self._record.resume(loaded.state["record"], loaded.name, self.collector.envstep, self.learner.train_iter)
        if loaded.local_state is None:
            self._record.warning("The checkpoint has no replay buffer and no environments: episodes start anew.")
            return {}
        lost = self.collector.load_local_state_dict(loaded.local_state["collector"])
        if lost:
            self._record.warning(
                f"Environments {lost} are not deterministic, or cannot be put back: they start new episodes, and the "
                "run will not equal one that was never stopped."
            )
        set_random_state(loaded.local_state["random"])
        return loaded.local_state

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        with self._stack:
            if error is not None:
                return
            signum = 0
            if self.stop_reason == "interrupted":
                signum = max(all_gather_object(self._guard.signum or 0)) or signal.SIGINT
            elif self.evaluator.last_iter != self.learner.train_iter:
                self.evaluator.last_iter = -1  # due, whatever the frequency
                self.evaluate()
            saved = self._save()
            counts = {"envstep": self.collector.envstep, "train_iter": self.learner.train_iter}
            counts["episode_count"] = self.collector.episode_count
            self._record.end(self.stop_reason, signum, counts, self.evaluator.best_return, saved)
            progress("")  # what the caller does now is no hang of this run
        if not saved:
            raise SystemExit("The last checkpoint was not saved.")
        if signum:
            raise SystemExit(128 + signum)


def _check_pipeline(cfg: EasyDict, on_policy: bool) -> None:
    """Raise `ConfigError` if the policy belongs into the other pipeline."""
    if cfg.policy.on_policy != on_policy:
        name = "serial_onpolicy" if cfg.policy.on_policy else "serial"
        what = "on-policy, without a replay buffer" if cfg.policy.on_policy else "from a replay buffer"
        call = name.replace("serial", "serial_pipeline")
        raise ConfigError(f"Policy '{cfg.policy.type}' learns {what}: use {call}(...), or 'ding_lite -m {name}'.")


def load_policy(policy: Policy, state: dict[str, Any], name: str, with_optimizer: bool = False) -> None:
    """Put a checkpoint's model, or all that learning needs, into a policy.

    Raises:
        CheckpointError: it is another policy's or model's; `name` says in the message which checkpoint it is.
    """
    try:
        learned = {key: value for key, value in state["policy"].items() if with_optimizer or key != "optimizer"}
        policy.learn_mode.load_state_dict(learned)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        cause = " ".join(str(error).split())[:300]
        raise CheckpointError(f"Checkpoint '{name}' does not fit the config's policy and model: {cause}") from error


def _read_env_setting(env_setting: Sequence[Any] | None) -> tuple[tuple[Any, Any], list[str]]:
    """Return what makes the collectors' and the evaluators' environments, if the user gave it, and their numbers."""
    if env_setting is None:
        return (None, None), []
    env_fn, *cfgs = env_setting
    collect, evaluate = ([lambda _, own=own: env_fn(own) for own in part] for part in cfgs)
    return (collect, evaluate), [f"env.collector_env_num={len(collect)}", f"env.evaluator_env_num={len(evaluate)}"]
