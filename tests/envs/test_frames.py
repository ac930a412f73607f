"""Stacks of vectors, images and dicts: the same with every manager, and replay rebuilds them from single frames."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete

from ding_lite.entry import serial_pipeline
from ding_lite.envs import create_vector_env
from ding_lite.utils.tree import tree_leaves, tree_map
from ding_lite.worker import SampleCollector
from ding_lite.worker.replay.buffer import UniformReplayBuffer
from tests.envs.test_vector_env import env_config
from tests.policy.helpers import parameter_hash
from tests.worker.games import Acting

SHAPES = {"vector": (2,), "grey": (20, 21), "colour": (3, 20, 21)}
STACKED = {"vector": (6,), "grey": (3, 20, 21), "colour": (9, 20, 21)}  # of three frames


class Camera(gymnasium.Env[Any, Any]):
    """Every number of an observation says which step it is; episodes last 4 to 7 steps, half of them truncated."""

    observation_space = Dict({key: Box(0, 255, shape, np.uint8) for key, shape in SHAPES.items()})
    action_space = Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.first, self.age = int(self.np_random.integers(1, 200)), 0
        self.length, self.ends = int(self.np_random.integers(4, 8)), bool(self.np_random.integers(2))
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.age += 1
        over = self.age == self.length
        return self._observe(), 1.0, over and self.ends, over and not self.ends, {}

    def _observe(self) -> dict[str, np.ndarray]:
        return {key: np.full(shape, self.first + self.age, np.uint8) for key, shape in SHAPES.items()}


gymnasium.register("Camera-v0", f"{__name__}:Camera")


@pytest.mark.parametrize("manager", ["base", "subprocess"])
def test_replay_returns_the_stacks_that_the_policy_saw(manager: str) -> None:
    cfg = env_config(env_id="Camera-v0", frame_stack=3, manager={"type": manager})
    env: Any
    with closing(create_vector_env(cfg, 2, 5, training=True)) as env:
        assert {key: part.shape for key, part in env.single_observation_space.items()} == STACKED
        seen: list[Any] = []

        def act(obs: Any, **kwargs: Any) -> dict[str, Any]:
            seen.append(tree_map(np.array, obs))
            return {"action": torch.zeros(2, dtype=torch.int64)}

        collector = SampleCollector(env, Acting(act), 40, seeds=[1, 2])
        buffer = UniformReplayBuffer(200, 2, frame_stack=3, seed=0)
        for _ in range(3):
            buffer.push(collector.collect()[0])
    frames = {key: tuple(column.shape[1:]) for key, column in buffer.ring.columns["obs"].items()}
    assert frames == SHAPES, "one frame a step"
    place_B = torch.arange(2 * 59)
    obs, successor = buffer.ring.observations(place_B), buffer.ring.successors(place_B)
    done_B, cut_B = (buffer.ring.columns[key][place_B] for key in ("done", "traj_flag"))
    whole = tree_map(lambda *rows: np.concatenate(rows), *seen)
    for stored, true in zip(tree_leaves(obs), tree_leaves(whole), strict=True):
        np.testing.assert_array_equal(stored, true[: len(place_B)])
    for stored, later, now in zip(*map(tree_leaves, (successor, whole, obs)), strict=True):
        np.testing.assert_array_equal(stored[~cut_B], later[2 : len(place_B) + 2][~cut_B])
        truncated = cut_B & ~done_B
        assert truncated.any()
        newest, before = (leaf[truncated].flatten(1)[:, -1] for leaf in (stored, now))
        assert torch.equal(newest, before + 1)


def train(kind: str, manager: str, *overrides: str) -> str:
    main = dict(exp_name=f"{kind}_{manager}", env=dict(env_id="CartPole-v1", frame_stack=4, collector_env_num=4))
    create = dict(env=dict(type="gymnasium"), env_manager=dict(type=manager), policy=dict(type=kind))
    policy = serial_pipeline((main, create), seed=0, max_env_step=120, overrides=overrides)
    return parameter_hash(policy.model)


@pytest.mark.parametrize(("kind", "options"), [("dqn", ("env.norm_obs=True",)), ("r2d2", ("policy.unroll_len=4",))])
def test_a_policy_learns_the_same_from_stacks_of_vectors_with_every_manager(
    kind: str, options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("policy.learn.batch_size=8", "env.n_evaluator_episode=2", "env.evaluator_env_num=2", *options)
    hashes = {train(kind, manager, *words) for manager in ("base", "subprocess")}
    assert len(hashes) == 1
