"""The pipeline of one agent and its observers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from easydict import EasyDict

from ding_lite.entry.callbacks import Callback
from ding_lite.entry.experiment import Experiment
from ding_lite.entry.pipelines import refuse_normalization
from ding_lite.entry.rpc.agent import create_remote
from ding_lite.entry.rpc.link import AGENT, RPCLink, result
from ding_lite.entry.rpc.observer import Observer
from ding_lite.entry.setup import RunSetup, policy_process, prepare_run
from ding_lite.policy import Policy
from ding_lite.utils.key import declared_keys
from ding_lite.utils.ranks.ranks import alone, get_rank, get_world_size
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError
from ding_lite.utils.schedule import find_schedules


def serial_pipeline_rpc(
    input_cfg: str | tuple[dict[str, Any], dict[str, Any]],
    seed: int | None = None,
    env_setting: Sequence[Any] | None = None,
    max_train_iter: int = int(1e10),
    max_env_step: int = int(1e10),
    *,
    overrides: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
) -> Policy | None:
    """Train an on-policy policy with one agent (rank 0) and observers (all other ranks), over torch.distributed.rpc.

    Each observer plays its own `env.collector_env_num` environments and encodes the observations; the agent owns the
    head, chooses the actions and learns. Observations never leave their observer. `policy.collect.n_episode` applies to
    each observer, `policy.learn.batch_size` to all together.

    Arguments and errors are those of `serial_pipeline`. Every rank calls this function, inside `DDPContext`.

    Returns:
        The policy on the agent, None on the observers.

    Raises:
        ConfigError: there is only one process, or the model does not consist of an encoder and a head.
    """
    rank, limits = get_rank(), {"max_train_iter": max_train_iter, "max_env_step": max_env_step}
    if get_world_size() < 2:
        raise ConfigError(
            "serial_pipeline_rpc needs an agent and at least one observer, but this is the only process: start it with "
            "'torchrun --nproc_per_node=3', or 'ding_lite -m rpc --nproc 3'."
        )
    setup = prepare_run(
        input_cfg,
        seed,
        env_setting,
        overrides=overrides,
        pipeline="serial_pipeline_rpc",
        trains="serial_pipeline_onpolicy",
        limits=limits,
    )
    _check_schedules(setup.cfg.policy)
    refuse_normalization(setup.cfg, "serial_pipeline_rpc", "no process sees the observations of all observers")
    with alone():
        if rank != AGENT:
            _observe(setup, rank)
            return None
        return _lead(setup, callbacks)


def _check_schedules(policy: EasyDict) -> None:
    """Raise `ConfigError` if a number that observers may use changes with a count that they do not know."""
    for path, schedule in find_schedules(policy, declared_keys(POLICY_REGISTRY.find(policy.type))).items():
        if not path.startswith(("learn.", "eval.")) and schedule.by != "env_step":
            raise ConfigError(
                f"policy.{path}.by: expected 'env_step', got '{schedule.by}', because the observers of "
                "serial_pipeline_rpc count nothing else."
            )


def _lead(setup: RunSetup, callbacks: Sequence[Callback]) -> Policy:
    """Run as the agent. At the end of the run, unless an error ends it, tell the observers."""
    status: Any = 0
    with RPCLink(None) as link:
        try:
            with (
                policy_process(setup, get_rank(), "policy") as policy,
                Experiment(setup, policy, partial(create_remote, link), callbacks=callbacks) as experiment,
            ):
                while not experiment.finished():
                    if experiment.evaluate():
                        break
                    samples = experiment.collect()
                    experiment.learn(experiment.policy.batches(samples))
        except SystemExit as end:
            status = end.code
        for answer in [link.ask(rank, "end", status) for rank in link.observers]:
            result(answer)
    if status:
        raise SystemExit(status)
    return experiment.policy


def _observe(setup: RunSetup, rank: int) -> None:
    """Run as an observer, until the agent says that the run has ended."""
    with ExitStack() as stack:
        observer = Observer(setup, rank, stack)
        with RPCLink(observer) as link:
            status = observer.serve(link)
    if status:
        raise SystemExit(status if isinstance(status, int) else 1)
