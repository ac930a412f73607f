"""Schedules on two real gloo processes: both ranks use the same numbers, of global env steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from ding_lite.entry import serial_pipeline
from ding_lite.policy import DQNPolicy
from ding_lite.utils import POLICY_REGISTRY
from dizoo.classic_control.cartpole.config.cartpole_dqn_config import create_config, main_config
from tests.distributed.on_ranks import call_on_ranks
from tests.policy.helpers import parameter_hash

STEPS = 320  # env steps of both ranks: 20 collects of 2 x 8


class Remembers(DQNPolicy):
    """Remembers the numbers of every step: the env step before its collect, learning rate, gamma, gamma^n in replay."""

    seen: list[tuple[int, float, float, float]] = []

    def _begin_collect(self, envstep: int) -> dict[str, Any]:
        self.envstep = envstep
        return super()._begin_collect(envstep)

    def _forward_learn(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        output = super()._forward_learn(batch)
        rate, gamma = self._optimizer.optimizers[""].param_groups[0]["lr"], self._cfg.discount_factor
        self.seen.append((self.envstep, rate, gamma, float(batch["value_gamma"].min())))
        return output


def train() -> dict[str, Any]:
    POLICY_REGISTRY["remembers"] = Remembers
    rate = dict(type="linear", start=1e-3, end=0.0, over=STEPS, by="env_step")
    overrides = ["exp_name=run", "policy.multi_gpu=True", f"policy.learn.learning_rate={rate}", "policy.eval.eps=0.0"]
    overrides += [f"policy.discount_factor={dict(type='linear', start=0.5, end=1.0, over=STEPS, by='env_step')}"]
    pair = (main_config, {**create_config, "policy": dict(type="remembers")})
    policy = serial_pipeline(pair, seed=0, max_env_step=STEPS, overrides=overrides)
    return {"model": parameter_hash(policy.model), "seen": Remembers.seen}


def test_every_rank_uses_the_number_of_the_global_env_step(tmp_path: Path) -> None:
    first, second = call_on_ranks(train, cwd=tmp_path)
    assert first == second
    steps, rates, gammas, least = zip(*first["seen"], strict=True)
    assert len(steps) > 20
    assert steps[-1] == STEPS - 16  # before the last collect, in which each rank plays 8
    assert rates == pytest.approx([1e-3 * (1 - step / STEPS) for step in steps])
    assert gammas == pytest.approx([0.5 + 0.5 * step / STEPS for step in steps])
    assert least == pytest.approx([gamma ** main_config["policy"]["nstep"] for gamma in gammas])
