"""The source of a run's samples; here, environments that this rank plays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from typing import Any

from ding_lite.entry.reporter import describe_collecting
from ding_lite.entry.setup import RunSetup
from ding_lite.envs import derive_seeds
from ding_lite.policy import Policy
from ding_lite.utils.dist.interrupt import InterruptGuard
from ding_lite.utils.dist.ranks import get_rank, get_world_size
from ding_lite.worker import EpisodeCollector, SampleCollector


@dataclass(frozen=True)
class Source:
    """What produces samples, and what an `Experiment` must know about it.

    Attributes:
        collector: has `envstep, episode_count, interrupted` and the state methods of `SampleCollector`.
        lines: of the start-up summary.
        total: end of the run, in env steps, or in learner iterations if nothing is played.
        limits: of the run, in addition to those of its setup.
        counts: returns counts for result.json, in addition to those of every run.
        figures: returns figures of the data since the last record, the same on all ranks.
        learning: returns a `with` block in which the samples are learned from.
    """

    collector: Any
    lines: Mapping[str, str]
    total: int
    limits: Mapping[str, int] = field(default_factory=dict)
    counts: Callable[[], Mapping[str, int]] = dict
    figures: Callable[[], Mapping[str, float]] = dict
    learning: Callable[[], AbstractContextManager] = nullcontext


def play(setup: RunSetup, policy: Policy, guard: InterruptGuard, stack: ExitStack) -> Source:
    """Return a source whose environments this rank plays; `stack` closes them."""
    collector = create_collector(setup, policy.collect_mode, get_rank(), guard, stack)
    lines = describe_collecting(setup.cfg, "a rank", get_world_size())
    return Source(collector, lines, setup.limits["max_env_step"])


def create_collector(
    setup: RunSetup, collect_mode: Any, rank: int, guard: InterruptGuard, stack: ExitStack
) -> SampleCollector:
    """Return a collector of steps, or of whole episodes if the config counts those.

    Args:
        setup: of the run.
        collect_mode: the policy's.
        rank: the seeds of the environments are derived from it.
        guard: says whether this process was asked to end.
        stack: closes the environments.
    """
    cfg, collect, env = setup.cfg, setup.cfg.policy.collect, setup.create_collect_env(stack)
    options = (derive_seeds(cfg.seed, rank, "collect", n=env.num_envs), lambda: guard.requested)
    if "n_episode" in collect:
        return EpisodeCollector(env, collect_mode, collect.n_episode, *options)
    n_sample = (collect.n_sample or env.num_envs) * cfg.policy.get("unroll_len", 1)
    return SampleCollector(env, collect_mode, n_sample, *options)
