"""A small CartPole data set, and short runs that learn from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from ding_lite.entry import serial_pipeline_offline
from ding_lite.policy import Policy

ROWS = 600
COLUMNS = ("obs", "action", "reward", "next_obs", "done", "traj_flag")
CARTPOLE = dict(type="cartpole", import_names=["dizoo.classic_control.cartpole.envs.cartpole_env"])


def record_cartpole(path: Path | str, rows: int = ROWS, noise: float = 0.1, longest: int = 50, seed: int = 0) -> None:
    """Write what a controller that balances the pole does, but for a share of random actions, as .npz."""
    env, rng = gymnasium.make("CartPole-v1", max_episode_steps=longest), np.random.default_rng(seed)
    steps: list[tuple[Any, ...]] = []
    while len(steps) < rows:
        obs, _ = env.reset(seed=seed + len(steps))
        cut = False
        while not cut and len(steps) < rows:
            action = int(rng.integers(2)) if rng.random() < noise else int(obs @ [0.1, 0.5, 1.0, 1.0] > 0)
            following, reward, terminated, truncated, _ = env.step(action)
            cut = terminated or truncated or len(steps) == rows - 1
            steps.append((obs, action, reward, following, terminated, cut))
            obs = following
    columns: Any = zip(COLUMNS, zip(*steps, strict=True), strict=True)
    arrays: dict[str, Any] = {key: np.array(column) for key, column in columns}
    np.savez(path, **arrays)


def offline_pair(kind: str = "bc", **policy: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a config of `bc` or `discrete_cql` that learns from `data.npz` in the current directory."""
    main: dict[str, Any] = dict(
        exp_name="run",
        env=dict(
            collector_env_num=8,  # without meaning
            evaluator_env_num=2,
            n_evaluator_episode=4,
            max_episode_steps=60,
        ),
        policy=dict(
            model=dict(encoder_hidden_size_list=[32, 32]),
            num_threads=1,
            learn=dict(
                batch_size=32, train_epoch=6, learning_rate=0.005, learner=dict(hook=dict(log_show_after_iter=7))
            ),
            collect=dict(data_path="data.npz"),
            eval=dict(evaluator=dict(eval_freq=25)),
            **policy,
        ),
    )
    if kind == "discrete_cql":
        main["policy"] |= dict(nstep=3)
    return main, dict(env=CARTPOLE, policy=dict(type=kind))


def run_offline(*overrides: str, kind: str = "bc", **options: Any) -> Policy:
    return serial_pipeline_offline(options.pop("input_cfg", offline_pair(kind)), **options, overrides=overrides)
