"""From a config pair to the parts of a run, and what its loop calls: evaluate, collect, learn."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import torch
from torch import nn

from ding_lite.config import check_shapes, compile_config, save_config
from ding_lite.config.agreement import check_same_config
from ding_lite.entry.pipelines import check_pipeline
from ding_lite.entry.reporter import RunReporter
from ding_lite.envs import check_env, create_vector_env, derive_seeds
from ding_lite.policy import Policy
from ding_lite.torch_utils import NonFiniteError
from ding_lite.utils.allocator import keep_freed_memory
from ding_lite.utils.checkpoint.file import CheckpointError, load_checkpoint
from ding_lite.utils.checkpoint.store import CheckpointStore, Loaded, load_file
from ding_lite.utils.dist.collectives import all_gather_object, allreduce_data
from ding_lite.utils.dist.interrupt import InterruptGuard
from ding_lite.utils.dist.ranks import get_local_world_size, get_rank, get_world_size
from ding_lite.utils.dist.watchdog import heartbeat
from ding_lite.utils.registry import BUFFER_REGISTRY, POLICY_REGISTRY
from ding_lite.utils.seed import random_state, set_random_state, set_seed
from ding_lite.utils.tree import tree_map
from ding_lite.worker import EpisodeCollector, Evaluator, Learner, ReplayBuffer, SampleCollector

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
        pipeline: str = "serial_pipeline",
    ) -> None:
        builders, counts = read_env_setting(env_setting)
        self.cfg = cfg = compile_config(input_cfg, seed, model is not None, [*overrides, *counts])
        self._pipeline, self._limits = pipeline, {"max_train_iter": max_train_iter, "max_env_step": max_env_step}
        self.stop_reason = ""
        check_same_config(cfg, **self._limits)
        self._check_pipeline()
        self._spec = check_env(cfg.env, builders[0])
        check_shapes(cfg, self._spec, model is not None)
        self._prepare()
        rank = get_rank()
        keep_freed_memory()
        torch.set_num_threads(cfg.policy.num_threads or torch.get_num_threads())
        set_seed(derive_seeds(cfg.seed, rank, "policy", n=1)[0])
        with ExitStack() as stack:
            self.policy = POLICY_REGISTRY.find(cfg.policy.type)(cfg.policy, model)
            loaded = self._load_given()
            self._record = stack.enter_context(self._create_record())
            self._store = CheckpointStore(self._record.path("ckpt"), cfg.policy.learn.learner.hook.keep_ckpt)
            if self._record.goes_on:
                loaded = self._load_newest() or loaded
            self._guard = stack.enter_context(InterruptGuard(rank))
            if rank == 0 and not self._record.goes_on:
                save_config(cfg, self._record.path("total_config.py"), pipeline, **self._limits)
            self.collector = self._create_collector(stack, builders)
            self.evaluator = self._create_evaluator(stack, builders)
            hook = cfg.policy.learn.learner.hook
            options = (hook.log_show_after_iter, self._on_log, hook.check_ranks_after_iter)
            self.learner = Learner(self.policy.learn_mode, *options)
            self._replay: ReplayBuffer | None = None
            self._enough = False  # whether the replay buffers of all ranks hold a batch
            self._saved_iter, self._saved_eval_count = 0, -1
            self._local_state = self._resume(loaded) if loaded else {}
            self._record.begin(self.policy, self._spec, self.collector.envstep, self.learner.train_iter)
            self._stack = stack.pop_all()

    # What other kinds of run override.

    def _check_pipeline(self) -> None:
        """Raise `ConfigError` if the policy belongs into another pipeline."""
        check_pipeline(self.cfg.policy, self._pipeline)

    def _prepare(self) -> None:
        """Read and check what a run needs beside its config, before anything is started or written."""

    def _create_record(self) -> RunReporter:
        return RunReporter(self.cfg, self._limits)

    def _create_collector(self, stack: ExitStack, builders: tuple[Any, Any]) -> Any:
        """Return where samples come from: here a collector, whose environments `stack` closes.

        Whatever it is, it has `envstep, episode_count, interrupted` and the state methods of `SampleCollector`.
        `builders` make the environments of collector and evaluator, None: as `cfg.env` says.
        """
        cfg, collect, n_env = self.cfg, self.cfg.policy.collect, self.cfg.env.collector_env_num
        env = create_vector_env(cfg.env, n_env, cfg.seed, True, get_local_world_size(), builders=builders[0])
        stack.callback(env.close)
        whole = "n_episode" in collect
        size = collect.n_episode if whole else (collect.n_sample or n_env) * cfg.policy.get("unroll_len", 1)
        seeds = derive_seeds(cfg.seed, get_rank(), "collect", n=n_env)
        collector_cls = EpisodeCollector if whole else SampleCollector
        return collector_cls(env, self.policy.collect_mode, size, seeds, lambda: self._guard.requested)

    def _create_evaluator(self, stack: ExitStack, builders: tuple[Any, Any]) -> Evaluator:
        """Return what plays episodes on rank 0, and tells the others how they ended."""
        cfg, n_env, env = self.cfg, self.cfg.env.evaluator_env_num, None
        if get_rank() == 0:
            env = create_vector_env(cfg.env, n_env, cfg.seed, False, get_local_world_size(), builders=builders[1])
            stack.callback(env.close)
        return Evaluator(
            env,
            self.policy.eval_mode,
            cfg.env.n_evaluator_episode,
            cfg.policy.eval.evaluator.eval_freq,
            cfg.env.stop_value,
            lambda count: derive_seeds(cfg.seed, "evaluate", count, n=n_env),
            lambda: self._guard.requested,
        )

    def create_replay_buffer(self) -> ReplayBuffer:
        """Return this rank's replay buffer: a resumed run's, or one with `policy.random_collect_size` steps in it."""
        cfg, policy = self.cfg, self.cfg.policy
        options = {key: value for key, value in policy.other.replay_buffer.items() if key != "type"}
        options |= {key: policy[key] for key in ("unroll_len", "burnin_step") if key in policy}
        self._replay = replay = BUFFER_REGISTRY.find(policy.other.replay_buffer.type)(
            num_envs=cfg.env.collector_env_num,
            nstep=policy.get("nstep", 1),
            gamma=policy.discount_factor,
            frame_stack=self._spec.frame_stack,
            batch_device=self.policy.device,
            seed=derive_seeds(cfg.seed, get_rank(), "replay", n=1)[0],
            **options,
        )
        is_new, collected = self.learner.train_iter == 0, 0
        if "replay" in self._local_state:
            replay.load_state_dict(self._local_state.pop("replay"))
            if "lost" in self._local_state:
                replay.truncate(*self._local_state["lost"])
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
        elif not self.stop_reason and self.collector.envstep >= self._limits.get("max_env_step", math.inf):
            self.stop_reason = "max_env_step"
        elif not self.stop_reason and self.learner.train_iter >= self._limits["max_train_iter"]:
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

    def sample(self, replay: ReplayBuffer) -> Iterable[dict[str, Any]]:
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
        heartbeat("save")
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
            obs = tree_map(lambda leaf: leaf[lost], loaded.local_state["collector"]["env"]["obs"])
            loaded.local_state["lost"] = torch.tensor(lost), obs  # their trajectories end where replay ends
        set_random_state(loaded.local_state["random"])
        return loaded.local_state

    def _counts(self) -> dict[str, int]:
        """Return the counts of all ranks that result.json holds."""
        counts = {"envstep": self.collector.envstep, "train_iter": self.learner.train_iter}
        return counts | {"episode_count": self.collector.episode_count}

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
            self._record.end(self.stop_reason, signum, self._counts(), self.evaluator.best_return, saved)
            heartbeat("")  # what the caller does now is no hang of this run
        if not saved:
            raise SystemExit("The last checkpoint was not saved.")
        if signum:
            raise SystemExit(128 + signum)


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


def read_env_setting(env_setting: Sequence[Any] | None) -> tuple[tuple[Any, Any], list[str]]:
    """Return what makes the collectors' and the evaluators' environments, if the user gave it, and their numbers."""
    if env_setting is None:
        return (None, None), []
    env_fn, *cfgs = env_setting
    collect, evaluate = ([lambda _, own=own: env_fn(own) for own in part] for part in cfgs)
    return (collect, evaluate), [f"env.collector_env_num={len(collect)}", f"env.evaluator_env_num={len(evaluate)}"]
