"""Directories of runs, written by the same functions that real runs use, without training."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ding_lite.config import compile_config, save_config
from dizoo.classic_control.cartpole.config.cartpole_dqn_config import create_config, main_config

START = 1_700_000_000.0  # time of the first record
RETURNS = (10.0, 60.0, 190.0)  # of evaluations after 0, 100 and 200 env steps


def write_run(
    path: Path,
    seed: int = 0,
    returns: Sequence[float | None] = RETURNS,
    *overrides: str,
    ending: str | None = "max_env_step",
    limit: int = 200,
    **result: Any,
) -> Path:
    """Write a run of CartPole and return its directory.

    Args:
        path: the directory.
        seed: its seed.
        returns: of the evaluations, which are 100 env steps, 50 iterations and 10 seconds apart.
        *overrides: of the config, as on the command line.
        ending: its stop reason; None: it left no result.
        limit: its max_env_step.
        **result: further values of result.json.
    """
    path.mkdir(parents=True)
    pair = (copy.deepcopy(main_config), copy.deepcopy(create_config))
    cfg = compile_config(pair, overrides=[f"exp_name={path}", f"seed={seed}", *overrides])
    save_config(cfg, path / "total_config.py", max_env_step=limit)
    write_records(path, [{"eval/return_mean": value} for value in returns])
    numbers = [value for value in returns if value is not None]
    told: dict[str, Any] = {
        "stop_reason": ending,
        "envstep": 100 * (len(returns) - 1),
        "eval_return_best": max(numbers, default=None),
    }
    if ending is not None:
        told |= {"world_size": 1, "seed": seed, "seconds": 20.0, **result}
        (path / "result.json").write_text(json.dumps(told))
    return path


def write_records(path: Path, figures: Sequence[Mapping[str, float | None]]) -> None:
    """Write metrics.jsonl with records that are 100 env steps, 50 iterations and 10 seconds apart."""
    counts = [
        {"envstep": 100 * k, "train_iter": 50 * k, "seconds": 10 * k, "time": START + 10 * k}
        for k in range(len(figures))
    ]
    lines = [json.dumps({**count, **values}) for count, values in zip(counts, figures, strict=True)]
    (path / "metrics.jsonl").write_text("".join(f"{line}\n" for line in lines))
