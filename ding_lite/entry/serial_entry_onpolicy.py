"""The on-policy training loop: evaluate, collect, learn from what was collected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from ding_lite.entry.callbacks import Callback
from ding_lite.entry.experiment import Experiment
from ding_lite.entry.process import policy_process
from ding_lite.entry.setup import prepare_run
from ding_lite.policy import Policy
from ding_lite.utils.ranks.ranks import get_rank


def serial_pipeline_onpolicy(
    input_cfg: str | tuple[dict[str, Any], dict[str, Any]],
    seed: int | None = None,
    env_setting: Sequence[Any] | None = None,
    model: nn.Module | None = None,
    max_train_iter: int = int(1e10),
    max_env_step: int = int(1e10),
    *,
    overrides: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
) -> Policy:
    """Train an on-policy policy. It learns from the samples of each collect immediately and then discards them.

    The arguments, the return value and the errors are those of `serial_pipeline`. Limits are checked between collects,
    so a run may exceed `max_train_iter` by the iterations of one collect.
    """
    limits = {"max_train_iter": max_train_iter, "max_env_step": max_env_step}
    options = (input_cfg, seed, env_setting, model, overrides)
    setup = prepare_run(*options, pipeline="serial_pipeline_onpolicy", limits=limits)
    process = policy_process(setup, get_rank(), "policy")
    with process as policy, Experiment(setup, policy, callbacks=callbacks) as experiment:
        while not experiment.finished():
            if experiment.evaluate():
                break
            samples = experiment.collect()
            experiment.learn(experiment.policy.batches(samples))
    return experiment.policy
