"""Turns a user's config pair into a `RunSetup`, which builds the parts of a run, and prepares the process for it.

The steps are: read the file, compile the config, compare it across ranks, check it against the environment, and build
the parts. A model or policy of the user's own acts once, which shows whether it fits.
"""

from __future__ import annotations

import ctypes
import hashlib
import inspect
import math
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from easydict import EasyDict
from gymnasium.spaces import Discrete
from gymnasium.vector.utils import batch_space
from torch import Tensor, nn

from ding_lite.config.config import compile_pair, read_pair
from ding_lite.config.shapes import divide, fit_shapes, play_first_actions
from ding_lite.envs import EnvSpec, check_env, create_vector_env, derive_seeds
from ding_lite.envs.actions import ActionUnits
from ding_lite.envs.builders import build_single, find_builder
from ding_lite.envs.spaces import load_spec
from ding_lite.policy import Policy
from ding_lite.policy.base import find_device
from ding_lite.run.pipelines import check_pipeline
from ding_lite.torch_utils.gradient import create_graphs, uses_graphs
from ding_lite.torch_utils.networks import is_small
from ding_lite.torch_utils.normalizer import Normalizer
from ding_lite.utils.disk import check_temporary_directory
from ding_lite.utils.key import get_key
from ding_lite.utils.passwords import fill_in
from ding_lite.utils.ranks.collectives import all_gather_object, get_local_world_size, get_rank, get_world_size
from ding_lite.utils.ranks.launch_environment import LOCAL_RANK, share, usable_cores
from ding_lite.utils.ranks.meeting import describe_values
from ding_lite.utils.registry import (
    BUFFER_REGISTRY,
    LEARNING_PARTS,
    MODEL_REGISTRY,
    TRACKER_REGISTRY,
    ConfigError,
    UserError,
    load_extra,
    wrapped,
)
from ding_lite.utils.seed import random_state, set_random_state, set_seed
from ding_lite.utils.tree import MASK, dotted_items
from ding_lite.worker import Evaluator, Player, ReplayBuffer, SampleCollector

FIELDS = ("learn", "collect", "eval")  # the uses of a policy
SHOWN_KEYS, LONGEST_VALUE = 4, 60  # limits of a message: number of keys, characters of a value
UNSET = "unset"
# Rank 0 alone uses the directory and decides whether the run continues in it; notes are messages; machines may have
# different numbers of cores. The environment gives the shapes to ranks whose config does not, and checks all others.
MAY_DIFFER = {
    *("exp_name", "policy.learn.resume_training", "policy.learn.allow_lost_replay", "notes"),
    *("env.manager.num_threads", "policy.num_threads"),
    *("policy.model", "policy.model.obs_shape", "policy.model.action_shape"),  # the first is a key if it is empty
}
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # glibc's malloc.h
LARGEST_KEPT = 32 << 20  # bytes, glibc's upper bound for M_MMAP_THRESHOLD
NUM = 2  # observations of the trial
OURS = "ding_lite."  # modules whose policies and models fit each other


@dataclass(frozen=True)
class RunSetup:
    """A checked config, and methods that build the parts of a run from it.

    All checks that need no data have passed, and no environment, policy or process has been started.

    Attributes:
        cfg: the config of this rank: the compiled one, with the shapes of the environment, and with this rank's part of
            the sizes that `policy.divide` says are those of all ranks together.
        policy_cls: the class of the policy, without those of `WRAPPER_REGISTRY`.
        spec: the environment's spaces, as the policy sees them.
        model: the model that the user passed in, or None.
        limits: `max_train_iter` in learner iterations, `max_env_step` in env steps of all ranks.
        builders: the functions that build each of the collector's and of the evaluator's environments; None: `cfg.env`
            says what to build.
        pipeline: name of the function in `ding_lite.entry` that runs this setup.
        whole: the config before the division, which is the same on all ranks; a run saves it.
    """

    cfg: EasyDict
    policy_cls: Any
    spec: EnvSpec
    model: nn.Module | None
    limits: dict[str, int]
    builders: tuple[Any, Any]
    pipeline: str
    whole: EasyDict

    def total(self, path: str) -> int:
        """Return a size in the config of all ranks together; 0 if it has none."""
        return (get_key(self.whole, path) or 0) * (1 if self.whole.policy.get("divide") else get_world_size())

    def first_steps(self) -> int:
        """Return the env steps of all ranks together that are played before learning starts."""
        return self.total("policy.random_collect_size") * int(self.cfg.policy.get("unroll_len", 1))

    def create_policy(self, fields: tuple[str, ...] = FIELDS) -> Policy:
        """Build the policy, see `policy_process`, which seeds and prepares the process first."""
        built: Policy = wrapped(self.policy_cls, self.cfg.policy)(self.cfg.policy, self.model, fields)
        env, discount = self.cfg.env, None
        if env.norm_reward.use_norm:
            discount = env.norm_reward.reward_discount
            discount = self.cfg.policy.discount_factor if discount is None else discount
        space = self.spec.observation_space if env.norm_obs.use_norm else None
        built.normalizer = Normalizer(space, discount, env.norm_reward.get("clip")).to(built.device)
        if built.learns_from == "replay":
            built.weigh(self.cfg.policy.learn.batch_size * get_world_size() / self.total("policy.learn.batch_size"))
        check_model(built, self.spec, fields)
        return built

    def create_learning_parts(self, policy: Policy) -> dict[str, Any]:
        """Build each `LearningPart` that the config has, by the name of its section; a collective call.

        The random states of this process do not change.
        """
        cfg, spec, state, parts = self.cfg, self.spec, random_state(), dict[str, Any]()
        for name in (name for name in LEARNING_PARTS if name in cfg):
            set_seed(derive_seeds(cfg.seed, get_rank(), name, n=1)[0])
            part_cls: Any = LEARNING_PARTS[name].find(cfg[name].type)
            parts[name] = part_cls(cfg[name], cfg.policy, spec.observation_space, spec.action_space, policy.device)
        set_random_state(state)
        return parts

    def create_trackers(self, reporter: Any, stack: ExitStack) -> list[Any]:
        """Build the `Tracker` of a run's `RunReporter`, if the config has one, on rank 0 only.

        `stack` ends it after an error.
        """
        if self.cfg.tracker.type is None or get_rank() != 0:
            return []
        tracker = TRACKER_REGISTRY.find(self.cfg.tracker.type)(reporter)
        stack.callback(tracker.close)
        return [tracker]

    def create_collect_env(self, stack: ExitStack, num_envs: int | None = None, training: bool = True) -> Any:
        """Build the vector environment of a collector, by default of `env.collector_env_num` environments.

        Without `training`, rewards are not clipped and lost lives are not reported. `stack` closes it.
        """
        num_envs = num_envs or self.cfg.env.collector_env_num
        builders = self.builders[0] and self.builders[0][:num_envs]
        options = {"builders": builders, "bounded": "n_episode" in self.cfg.policy.collect}
        return self._create_env(stack, num_envs, training, local_world_size=get_local_world_size(), **options)

    def create_collector(
        self, player: Player, rank: int, interrupt: Callable[[], bool], stack: ExitStack
    ) -> SampleCollector:
        """Build the collector, an `EpisodeCollector` if the policy has the key `collect.n_episode`.

        The seeds of its environments are derived from the rank. `stack` closes them.
        """
        collect, env = self.cfg.policy.collect, self.create_collect_env(stack)
        seeds = derive_seeds(self.cfg.seed, rank, "collect", n=env.num_envs)
        if "n_episode" in collect:
            from ding_lite.worker.episode_collector import EpisodeCollector  # noqa: PLC0415

            most = self.limits.get("max_env_step", math.inf)
            end = time.monotonic() + (self.cfg.max_seconds or math.inf)
            is_over = lambda envstep: envstep >= most or time.monotonic() >= end  # noqa: E731
            return EpisodeCollector(env, player, collect.n_episode, seeds, interrupt, is_over=is_over)
        n_sample = (collect.n_sample or env.num_envs) * self.cfg.policy.get("unroll_len", 1)
        return SampleCollector(env, player, n_sample, seeds, interrupt)

    def create_evaluator(
        self,
        policy: Policy,
        interrupt: Callable[[], bool],
        on_progress: Callable[[int, int, bool], None],
        stack: ExitStack,
        decides: bool = True,
    ) -> Evaluator:
        """Build the evaluator. It plays on rank 0, which alone gets environments, and sends the result to all ranks.

        `decides` says whether a run may end by it; otherwise there is no stop value, and nothing to confirm.
        """
        cfg, env = self.cfg, None
        if get_rank() == 0:  # its environments may use all cores of the machine, because the other ranks wait
            options = {"builders": self.builders[1], "replay_path": cfg.env.replay_path}
            env = self._create_env(stack, cfg.env.evaluator_env_num, False, **options)
        return Evaluator(
            env,
            policy,
            cfg.env.n_evaluator_episode,
            cfg.policy.eval.evaluator.eval_freq,
            cfg.env.stop_value if decides else None,
            cfg.seed,
            interrupt,
            on_progress,
            cfg.policy.eval.evaluator.eval_after,
            cfg.env.get("n_confirm_episode", 0),
        )

    def create_replay_buffer(self, built: Policy) -> ReplayBuffer:
        """Build this rank's replay buffer, empty, for a policy; batches are on its device."""
        cfg, policy = self.cfg, self.cfg.policy
        options = {key: value for key, value in policy.other.replay_buffer.items() if key != "type"}
        options |= {key: policy[key] for key in ("unroll_len", "burnin_step") if key in policy}
        options |= {} if "next_obs" in built.required_columns else {"next_obs": False}
        options |= {"one_step": True} if "next_obs_1" in built.required_columns else {}
        if actors := policy.collect.actors:
            options["num_actors"] = actors // get_world_size()
        if options.get("device") == "cuda":
            options["device"] = built.device  # the CPU where there is no GPU
        replay = BUFFER_REGISTRY.find(policy.other.replay_buffer.type)(
            num_envs=cfg.env.collector_env_num,
            nstep=policy.get("nstep", 1),
            gamma=built.schedules.follower("discount_factor"),
            frame_stack=self.spec.frame_stack,
            batch_device=built.device,
            seed=derive_seeds(cfg.seed, get_rank(), "replay", n=1)[0],
            **options,
        )
        if policy.get("priority") and not replay.sampler.adaptive:
            raise ConfigError(
                f"policy.priority=True has no effect on the buffer '{policy.other.replay_buffer.type}', which draws "
                "without priorities: set policy.priority=False."
            )
        assert self.spec.env_action_space is not None
        units, form = ActionUnits(self.spec.env_action_space, cfg.env.act_scale), self.spec.env_observation_space
        create_env = lambda: build_single(find_builder(cfg.env, self.builders[0]), cfg.env)  # noqa: E731
        options = {"ignore_done": policy.learn.ignore_done, "create_env": create_env}
        replay.fit(self.spec.observation_space, units, form, cfg.env.image_layout, **options)
        if uses_graphs(policy, replay.ring.device):
            replay.graphs = create_graphs(), create_graphs()
        return replay

    def _create_env(self, stack: ExitStack, num_envs: int, training: bool, **options: Any) -> Any:
        device = find_device(self.cfg.policy)
        if self.cfg.env.manager.type == "batched" and training:
            from ding_lite.envs.batched import create_batched  # noqa: PLC0415

            env: Any = create_batched(find_builder(self.cfg.env, None), self.cfg.env, num_envs, device, training)
        else:
            env = create_vector_env(self.cfg.env, num_envs, self.cfg.seed, training, device=device, **options)
        stack.callback(env.close)
        return env


def prepare_run(
    input_cfg: str | tuple[dict[str, Any], dict[str, Any]],
    seed: int | None = None,
    env_setting: Sequence[Any] | None = None,
    model: nn.Module | None = None,
    overrides: Sequence[str] = (),
    *,
    pipeline: str = "",
    trains: str = "",
    all_ranks: bool = True,
    limits: Mapping[str, int] | None = None,
    spec_state: dict[str, Any] | None = None,
) -> RunSetup:
    """Compile a config, compare it across ranks, and check it against the environment.

    The first five arguments are those of `serial_pipeline`. `pipeline` names the function in `ding_lite.entry` that
    runs the setup, and `trains` the pipeline that the policy's class must name, if it is another one. With `all_ranks`,
    the call is collective. With a checkpoint's `spec_state`, no environment is built.
    """
    _refuse_arguments()
    check_temporary_directory()
    limits = dict(limits or {})
    builders, counts = _read_env_setting(env_setting)
    pair = read_pair(input_cfg)
    cfg, policy_cls, schema = compile_pair(pair, seed, model is not None, [*overrides, *counts])
    if all_ranks:
        device = "cuda" if cfg.policy.cuda and torch.cuda.is_available() else "cpu"
        check_same_config(cfg, **limits, device=device)
    if pipeline:
        check_pipeline(cfg, policy_cls, pipeline, trains or pipeline)
        if cfg.tracker.type is not None:
            TRACKER_REGISTRY.find(cfg.tracker.type).check_installed()
            fill_in(cfg.tracker.options)  # a missing variable is an error before the run starts
        if cfg.policy.collect.get("actors") and find_spec("ray") is None:
            load_extra("ray", "ray", "policy.collect.actors")
    spec = load_spec(spec_state or {}, cfg.env.act_scale) or check_env(cfg.env, builders[0])
    if builders[0] is None and model is None and play_first_actions(cfg, spec):
        spec = check_env(cfg.env)
    fit_shapes(cfg, policy_cls, schema, spec, limits.get("max_env_step"))
    own = divide(cfg, policy_cls.learns_from, get_rank(), get_world_size())
    if builders[0] is not None and cfg.policy.get("divide") and not cfg.policy.collect.get("actors"):
        streams = share(len(builders[0]), get_rank(), get_world_size())
        builders = (builders[0][streams.start : streams.stop], builders[1])
    setup = RunSetup(own, policy_cls, spec, model, limits, builders, pipeline, whole=cfg)
    size, limit = setup.first_steps(), limits.get("max_env_step", math.inf)
    if size and size >= limit:
        raise ConfigError(
            f"max_env_step={limit} ends the run before it learns anything: it begins with {size} env steps of all "
            "ranks. Raise the limit, or lower policy.random_collect_size."
        )
    return setup


def _refuse_arguments() -> None:
    """End a config file that trains when it is run as a script, if it was given arguments, which nothing would read.

    A script that reads its arguments names `argv`, `args` or argparse, or trains in a function, as with click.
    """
    script, words = sys.modules["__main__"], [word for word in sys.argv[1:] if not LOCAL_RANK.match(word)]
    path = getattr(script, "__file__", None)
    if not (words and path and hasattr(script, "main_config") and hasattr(script, "create_config")):
        return
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals is not vars(script):
        frame = frame.f_back
    reads = re.search(r"argv|argparse|\bargs\b", Path(path).read_text(encoding="utf-8"))
    if frame is not None and frame.f_code.co_name == "<module>" and not reads:
        name, given = os.path.relpath(path), shlex.join(words)
        raise SystemExit(f"{name} reads no arguments, got {given}: run ding_lite -c {name} {given}")


def _build_own(env_fn: Callable[[Any], Any], own: Any, _: EasyDict) -> Any:
    return env_fn(own)


def _read_env_setting(env_setting: Sequence[Any] | None) -> tuple[tuple[Any, Any], list[str]]:
    """Return the user's functions that build the environments, if given, and their counts as overrides."""
    if env_setting is None:
        return (None, None), []
    env_fn, *cfgs = env_setting
    collect, evaluate = ([partial(_build_own, env_fn, own) for own in part] for part in cfgs)
    return (collect, evaluate), [f"env.collector_env_num={len(collect)}", f"env.evaluator_env_num={len(evaluate)}"]


def check_same_config(cfg: Mapping[str, Any], **limits: Any) -> None:
    """Check that the compiled configs and the limits of all ranks are equal.

    Collective: all ranks must call it. The ranks exchange a hash, and the whole config only if the hashes differ.
    """
    if get_world_size() == 1:
        return
    values = {key: repr(value) for key, value in dotted_items({**cfg, **limits}) if key not in MAY_DIFFER}
    digest = hashlib.sha256(repr(sorted(values.items())).encode()).digest()
    if len(set(all_gather_object(digest))) == 1:
        return
    configs = all_gather_object(values)
    held = {key: [config.get(key, UNSET) for config in configs] for key in set().union(*configs)}
    differing = [key for key, texts in held.items() if len(set(texts)) > 1]
    # Keys that explain other differences come first.
    differing.sort(key=lambda key: (UNSET in held[key], not key.endswith(".type"), key.count("."), key))
    texts = [f"{key} is {describe_values([_shorten(text) for text in held[key]])}" for key in differing[:SHOWN_KEYS]]
    more = f"; {len(differing) - SHOWN_KEYS} more" if len(differing) > SHOWN_KEYS else ""
    raise UserError(
        f"Ranks disagree on the config: {'; '.join(texts)}{more}. Start every rank with the same config file and "
        "options."
    )


def _shorten(value: str) -> str:
    """Return a long value without its middle, because paths differ at their ends."""
    half = (LONGEST_VALUE - 3) // 2
    return value if len(value) <= LONGEST_VALUE else f"{value[:half]}...{value[-half:]}"


@contextmanager
def policy_process(setup: RunSetup, *seed_path: str | int, fields: tuple[str, ...] = FIELDS) -> Iterator[Policy]:
    """Prepare this process for a run and build its policy; finally restore the number of threads.

    The random generators of the process are seeded, by the config's seed and `seed_path`, which names their use. torch
    gets `policy.num_threads` threads, at most as many as cores. Without that key, a small network gets one. Denormal
    numbers are rounded to 0, and freed memory is kept, from now on. Without 'learn' in `fields`, the policy has no
    optimizer.
    """
    threads, wanted = torch.get_num_threads(), setup.cfg.policy.num_threads
    try:
        keep_freed_memory()
        torch.backends.cudnn.deterministic = setup.cfg.policy.get("deterministic", False)
        torch.set_num_threads(min(wanted or threads, usable_cores()))
        set_seed(derive_seeds(setup.cfg.seed, *seed_path, n=1)[0])
        policy = setup.create_policy(fields)
        if wanted is None and is_small(policy.model):
            torch.set_num_threads(1)
        flush_denormals()
        yield policy
    finally:
        torch.set_num_threads(threads)


def flush_denormals() -> None:
    """Let this thread, those with which torch computes for it, and those that they start, round denormal numbers to 0.

    Adam's moments of a parameter without gradient become denormal, and processors compute with them up to a hundred
    times more slowly. torch's call does not reach the threads that torch has started before, so each of them makes it,
    as a parallel region of OpenMP; where torch is built without GNU's interface to it, they go on as they were.
    """
    torch.set_flush_denormal(True)
    with suppress(OSError, AttributeError):
        torch_cpu = ctypes.CDLL(str(Path(torch.__file__).with_name("lib") / "libtorch_cpu.so"))
        torch_cpu.GOMP_parallel(torch_cpu._ZN2at7Context16setFlushDenormalEb, ctypes.c_void_p(True), 0, 0)


def keep_freed_memory() -> None:
    """Let glibc keep freed blocks, such as activations, instead of returning them to the system after every step.

    Otherwise each learner iteration maps the same pages again, which takes a third of the time of a bf16 update on a
    CPU. The cost is that the process keeps as much memory as its largest step needed. Without glibc, nothing happens.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            libc = ctypes.CDLL("libc.so.6")
            libc.mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT)
            libc.mallopt(M_TRIM_THRESHOLD, 1 << 30)


def check_model(policy: Policy, spec: EnvSpec, fields: tuple[str, ...]) -> None:
    """Act once on observations drawn at random, if the policy or its model is the user's own.

    Random generators and the policy's memory of episodes are as before.
    """
    if all(type(each).__module__.startswith(OURS) for each in (policy, policy.model)):
        return
    state = random_state()
    space = batch_space(spec.observation_space, NUM)
    space.seed(0)
    obs = space.sample()
    if isinstance(obs, dict) and MASK in obs:
        obs[MASK] = np.ones_like(obs[MASK])
    for explore in [field == "collect" for field in ("eval", "collect") if field in fields]:
        kwargs = policy._begin_collect(0) if explore else {}  # `begin_collect` would count a collect
        seen: list[Any] = []
        hook = policy.model.register_forward_hook(lambda _, __, output, seen=seen: seen.append(output))
        try:
            problem = _find_problem(policy.act(obs, explore, **kwargs), spec)
        except (TypeError, KeyError, IndexError, AttributeError, ValueError, RuntimeError) as error:
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
            problem = reason + (f" after it returned {_describe(seen[-1])}" if seen else "")
        finally:
            hook.remove()
        if problem:
            name, kind, expected = type(policy.model).__name__, policy.current_config.type, _expected(policy)
            raise ConfigError(f"Model '{name}' does not fit policy '{kind}': {problem}.{expected}")
        policy.reset(explore=explore)
    set_random_state(state)


def _find_problem(output: Any, spec: EnvSpec) -> str:
    """Return what is wrong with a policy's output; empty if it fits."""
    if not isinstance(output, dict) or "action" not in output:
        return f"expected a dict with 'action', got {_describe(output)}"
    rows = {key: output[key] for key in ("action", "logit", "value") if isinstance(output.get(key), Tensor)}
    for key, value in rows.items():
        if value.ndim == 0 or len(value) != NUM or (key == "value" and value.shape == (NUM, 1)):
            shape = f"[{NUM}]" if key == "value" else f"[{NUM}, ...]"
            return f"'{key}': expected {shape} for {NUM} observations, got {_describe(value)}"
    space, logit = spec.action_space, rows.get("logit")
    if isinstance(space, Discrete) and logit is not None and logit.ndim == 2 and logit.shape[1] != space.n:
        return f"'logit': expected [{NUM}, {space.n}], a number for each action, got {_describe(logit)}"
    if not isinstance(space, Discrete) and space.shape and "action" in rows and rows["action"].shape[1:] != space.shape:
        return f"'action': expected {[NUM, *space.shape]}, got {_describe(rows['action'])}"
    return ""


def _describe(value: Any) -> str:
    """Return types and shapes in one line, such as 'a dict of logit [2, 3]'."""
    parts = value if isinstance(value, dict) else {f"a {type(value).__name__}": value}
    texts = [f"{key} {list(part.shape) if hasattr(part, 'shape') else ''}".rstrip() for key, part in parts.items()]
    return ("a dict of " if parts is value else "") + ", ".join(texts)


def _expected(policy: Policy) -> str:
    """Return a sentence about the policy's usual model; empty if the model is one."""
    usual: Any = MODEL_REGISTRY.get(policy.default_model()[0])
    if usual is None or isinstance(policy.model, usual):
        return ""
    called = "" if usual.forward is nn.Module.forward else f".forward{inspect.signature(usual.forward)}"
    described = inspect.getdoc(usual if not called else usual.forward) or ""
    return f" Expected, as {usual.__name__}{called}: {' '.join(described.split()).partition('. ')[0].rstrip('.')}."
