"""What a run prints: at its start what it trains, on what, how much at a time; after a minute when it may be done."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from easydict import EasyDict
from gymnasium import spaces
from tqdm import tqdm

from ding_lite.envs import EnvSpec
from ding_lite.policy import Policy
from ding_lite.torch_utils.networks import is_small
from ding_lite.torch_utils.switches import multiplies_bf16
from ding_lite.utils.ranks.collectives import get_world_size
from ding_lite.utils.ranks.machine_group import describe_ranks

PERIOD = 60.0  # seconds of learning after which the rate is known
WIDTH = 79  # characters of a line of the summary; a path may be longer


def summary_of(cfg: EasyDict, policy: Policy, source: Mapping[str, str], spec: EnvSpec, exp_dir: str) -> Iterator[str]:
    """Yield the messages of the summary; `source` are the lines about what the run learns from."""
    for note in [*cfg.get("notes", []), *spec.notes]:
        yield textwrap.fill(f"note: {note}", WIDTH, subsequent_indent="  ", break_long_words=False)
    if cfg.policy.cuda and not torch.cuda.is_available():
        yield "policy.cuda=True, but no GPU is available: training on the CPU."
    if policy.precision == "bf16" and not multiplies_bf16(policy.device):
        kind = "GPU" if policy.device.type == "cuda" else "processor"
        yield f"policy.precision=bf16, but this {kind} has no bf16 instructions:\n  float32 is faster."
    if (cfg.policy.num_threads or 0) > torch.get_num_threads():
        yield f"policy.num_threads={cfg.policy.num_threads} exceeds the cores: using {torch.get_num_threads()}."
    parameters = sum(parameter.numel() for parameter in policy.model.parameters())
    chosen = " (a small network)" if cfg.policy.num_threads is None and is_small(policy.model) else ""
    threads = f"{torch.get_num_threads()} thread(s) a rank{chosen}"
    lines = {
        "experiment": f"{cfg.policy.type} on {cfg.env.env_id or cfg.env.type}, seed {cfg.seed}",
        "device": f"{policy.device}, {threads}, {policy.precision}",
        "ranks": describe_ranks() if get_world_size() > 1 else "1 (one process)",
        **source,
        "observation": describe_space(spec.observation_space),
        "parameters": f"{parameters:,}",
        "results": exp_dir,
    }
    yield "\n".join(f"{key:>12}  {value}" for key, value in lines.items())


def describe_space(space: spaces.Space[Any]) -> str:
    """Return a short description of a space: shape, dtype and range."""
    if isinstance(space, spaces.Dict):
        return "; ".join(f"{key}: {describe_space(part)}" for key, part in space.items())
    if not isinstance(space, spaces.Box):
        return str(space)
    low, high = np.min(space.low), np.max(space.high)
    return f"{space.shape} {space.dtype}, {low:.4g} to {high:.4g}"


def describe_collecting(cfg: EasyDict, per: str, count: int) -> dict[str, str]:
    """Return the lines of the summary that describe a run that collects.

    `cfg` is the config before `policy.divide`. `count` units collect; `per` names one: 'a rank' or 'an observer'.
    """
    n_env, collect, unit = cfg.env.collector_env_num, cfg.policy.collect, "env steps"
    size = (collect.get("n_sample") or n_env) * cfg.policy.get("unroll_len", 1)
    if "n_episode" in collect:
        size, unit = collect.n_episode, "episodes"

    def shares(number: int, units: int) -> tuple[str, int]:
        """Return the part of one unit in a size, or the mean part if they differ, and the sum."""
        whole = number if cfg.policy.get("divide") else number * units
        return f"{whole / units:.1f}".removesuffix(".0"), whole

    batch, batches = shares(cfg.policy.learn.batch_size, get_world_size())
    (own_size, sizes), (own_env, envs) = shares(size, count), shares(n_env, count)
    return {
        "batch": f"{batch} a rank, {batches} global, {describe_updates(cfg)}",
        "collect": f"{own_size} {unit} {per}, {sizes} global",
        "environments": f"{own_env} {per} ({cfg.env.manager.type}), {envs} global; "
        f"{cfg.env.evaluator_env_num} evaluate",
    }


def describe_updates(cfg: EasyDict) -> str:
    """Return how many updates or epochs follow each collect, for the summary."""
    learn = cfg.policy.learn
    if "update_per_collect" in learn:
        number = learn.update_per_collect or learn.get("update_per_step", 1)
        return f"{number} update{'s' * (number > 1)} {'a collect' if learn.update_per_collect else 'an env step'}"
    return f"{learn.get('epoch_per_collect', 1)} epochs a collect"


def forecast(env: EasyDict, exp_dir: str, env_step: int, rate: float) -> str:
    """Return the message that says when a run may be done, from its env steps of all ranks and their rate a second.

    `env` is the compiled `cfg.env`, which says after how many env steps other runs reached `stop_value`.
    """
    time_left, run = tqdm.format_interval((env.expected_env_step - env_step) / rate), shlex.quote(exp_dir)
    text = (
        f"{rate:.0f} env steps a second. Runs of this config reach a return of {env.stop_value:g} after about "
        f"{env.expected_env_step:,} env steps, in {time_left} from now. Meanwhile, in another terminal:"
    )
    plot = f"ding_lite plot {run}  (its curve so far)"
    play = f"ding_lite play {run}  (a window; without a screen: video)"
    return "\n  ".join([*textwrap.wrap(text, WIDTH - 2), plot, play])
