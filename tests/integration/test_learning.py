"""Do the algorithms learn? Runs from their config files, on one process and on two that share the batch."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.benchmarks.learning import RUNS, learn

SEEDS = {
    "cartpole_dqn": range(5),
    "cartpole_ppo": range(5),
    "cartpole_a2c": range(2),
    "cartpole_pg": range(1, 3),
    "cartpole_impala": range(2),
    "cartpole_ppo_offpolicy": range(2),
    "pendulum_ppo": range(2),
    "acrobot_ppo": range(2),
    "lunarlander_ppo": range(1),
    **dict.fromkeys(("two_step_qmix", "two_step_vdn", "penalty_qmix", "penalty_mappo"), range(1)),
}
CASES = [(name, nproc, seed) for name, seeds in SEEDS.items() for nproc in (1, 2) for seed in seeds]


@pytest.mark.learn
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "nproc", "seed"), CASES)
def test_the_goal_is_reached(tmp_path: Path, name: str, nproc: int, seed: int) -> None:
    if name.startswith("lunarlander") and importlib.util.find_spec("Box2D") is None:
        pytest.skip("needs the extra box2d")
    told = learn(name, seed, nproc, tmp_path, timeout=850)
    print(f"solved after {told['envstep']} env steps, {told['wall']:.0f} s")
    assert told["stop_reason"] == "stop_value", told
    assert told["eval_return_best"] >= told["goal"]
    assert told["world_size"] == nproc
    assert told["envstep"] <= RUNS[name].max_env_step
