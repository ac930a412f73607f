"""The pipeline of one agent and its observers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch
from easydict import EasyDict

from ding_lite.config import check_shapes, compile_config
from ding_lite.config.agreement import check_same_config
from ding_lite.entry.experiment import read_env_setting
from ding_lite.entry.pipelines import check_pipeline
from ding_lite.entry.rpc.agent import RPCExperiment
from ding_lite.entry.rpc.link import AGENT, RPCLink, result
from ding_lite.entry.rpc.observer import Observer
from ding_lite.envs import check_env
from ding_lite.policy import Policy
from ding_lite.utils.dist.ranks import alone, get_rank, get_world_size
from ding_lite.utils.registry import ConfigError


def serial_pipeline_rpc(
    input_cfg: str | tuple[dict, dict],
    seed: int | None = None,
    env_setting: Sequence[Any] | None = None,
    max_train_iter: int = int(1e10),
    max_env_step: int = int(1e10),
    *,
    overrides: Sequence[str] = (),
) -> Policy | None:
    """Train an on-policy policy with one agent, rank 0, and observers, all other ranks, over torch.distributed.rpc.

    Each observer plays `env.collector_env_num` environments of its own and encodes what it sees; the agent has the
    head, chooses the actions and learns. Observations never leave their observer. `policy.collect.n_episode` is of each
    observer, `policy.learn.batch_size` of all together.

    Arguments and errors are those of `serial_pipeline`; every rank calls it, inside `DDPContext`.

    Returns:
        The policy on the agent, None on the observers.

    Raises:
        ConfigError: there is one process only, or the model is not made of an encoder and a head.
    """
    rank, limits = get_rank(), {"max_train_iter": max_train_iter, "max_env_step": max_env_step}
    if get_world_size() < 2:
        raise ConfigError(
            "serial_pipeline_rpc needs an agent and at least one observer, but this is the only process: start it with "
            "'torchrun --nproc_per_node=3', or 'ding_lite -m rpc --nproc 3'."
        )
    builders, counts = read_env_setting(env_setting)
    cfg = compile_config(input_cfg, seed, False, [*overrides, *counts])
    check_same_config(cfg, **limits)
    check_pipeline(cfg.policy, "serial_pipeline_onpolicy")
    with alone():
        if rank != AGENT:
            _observe(cfg, rank, builders[0])
            return None
        options = (input_cfg, seed, env_setting, None, max_train_iter, max_env_step, overrides, "serial_pipeline_rpc")
        return _lead(options)


def _lead(options: tuple[Any, ...]) -> Policy:
    """Be the agent; however the run ends, but by an error, tell the observers."""
    status: Any = 0
    with RPCLink(None) as link:
        try:
            with RPCExperiment(*options, link=link) as experiment:
                while not experiment.finished():
                    if experiment.evaluate():
                        break
                    samples = experiment.collect()
                    experiment.learn(experiment.policy.learn_mode.get_batches(samples))
        except SystemExit as end:
            status = end.code
        for answer in [link.ask(rank, "end", status) for rank in link.observers]:
            result(answer)
    if status:
        raise SystemExit(status)
    return experiment.policy


def _observe(cfg: EasyDict, rank: int, builders: Any) -> None:
    """Be an observer, until the agent says that the run has ended."""
    check_shapes(cfg, check_env(cfg.env, builders), False)
    torch.set_num_threads(cfg.policy.num_threads or torch.get_num_threads())
    with ExitStack() as stack:
        observer = Observer(cfg, rank, builders, stack)
        with RPCLink(observer) as link:
            status = observer.serve(link)
    if status:
        raise SystemExit(status if isinstance(status, int) else 1)
