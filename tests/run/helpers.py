"""Short CartPole runs."""

from __future__ import annotations

import copy
import json
import os
import signal
from pathlib import Path
from typing import Any

import gymnasium

from ding_lite.entry import serial_pipeline
from ding_lite.policy import Policy
from ding_lite.utils import load_checkpoint
from dizoo.classic_control.cartpole.config.cartpole_dqn_config import create_config, main_config
from tests.distributed.launcher import ROOT
from tests.survival.common import RATES

CONFIG = ROOT / "dizoo" / "classic_control" / "cartpole" / "config" / "cartpole_dqn_config.py"
STEPS = 320  # env steps: 40 collects, about 160 iterations
SHORT = ["exp_name=run", "policy.eval.evaluator.eval_freq=100", "policy.learn.learner.hook.log_show_after_iter=20"]


def pair() -> tuple[dict[str, Any], dict[str, Any]]:
    return copy.deepcopy(main_config), copy.deepcopy(create_config)


def run(*overrides: str, **options: Any) -> Policy:
    """Train for a second in the current directory, into `run`."""
    options = {"seed": 0, "max_env_step": STEPS, **options}
    return serial_pipeline(options.pop("input_cfg", pair()), **options, overrides=[*SHORT, *overrides])


def result(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "result.json").read_text())


def metrics(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def curves(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of metrics.jsonl without what differs between two equal runs."""
    return [{key: value for key, value in line.items() if key not in RATES} for line in metrics(folder)]


def last_checkpoint(folder: Path) -> dict[str, Any]:
    return load_checkpoint(str(folder / "ckpt" / "ckpt_last.pth.tar"))


class Interrupts(gymnasium.Wrapper):
    """CartPole that gets a signal, Ctrl-C unless `signal` says another, when `left` steps have been played."""

    def __init__(self, cfg: dict[str, Any]) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))
        self.cfg = cfg

    def step(self, action: Any) -> Any:
        self.cfg["left"] -= 1
        if self.cfg["left"] == 0:
            os.kill(os.getpid(), self.cfg.get("signal", signal.SIGINT))
        return super().step(action)
