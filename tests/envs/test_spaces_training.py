"""Environments of numbers and of bytes train with a value policy and with an actor-critic, as they come."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

from ding_lite.entry import serial_pipeline, serial_pipeline_onpolicy

BOOL: Any = np.bool_  # which gymnasium's types leave out


class Camera(gymnasium.Wrapper):
    """CartPole that shows a dict of an image, of its state, and of the parity of the step."""

    def __init__(self, cfg: Any) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))
        camera, state = Box(0, 255, (36, 36, 1), np.uint8), Box(-np.inf, np.inf, (4,), np.float32)
        self.observation_space = Dict(camera=camera, state=state, parity=Discrete(2))
        self.count = 0

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        obs, info = self.env.reset(**options)
        self.count = 0
        return self.show(obs), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, *others = self.env.step(action)
        self.count += 1
        return self.show(obs), *others  # type: ignore[return-value]

    def show(self, state: np.ndarray) -> dict[str, Any]:
        camera = np.full((36, 36, 1), self.count % 256, np.uint8)
        return {"camera": camera, "state": state, "parity": self.count % 2}


def train(kind: str, env: dict[str, Any], model: dict[str, Any], setting: Any = None, **keys: Any) -> tuple[Any, Any]:
    """Return the policy and the result of a short run."""
    learn = dict(batch_size=4 if kind == "r2d2" else 16)
    learn |= {"epoch_per_collect": 1} if kind == "ppo" else {"update_per_collect": 1}
    policy = dict(collect=dict(n_sample=32), learn=learn, model=model) | keys
    numbers = dict(collector_env_num=2, evaluator_env_num=1, n_evaluator_episode=1, max_episode_steps=20)
    pipeline = serial_pipeline_onpolicy if kind == "ppo" else serial_pipeline
    pair = (
        dict(exp_name="run", env=env | numbers, policy=policy),
        dict(env=dict(type="gymnasium"), policy=dict(type=kind)),
    )
    trained = pipeline(pair, seed=0, env_setting=setting and (setting, [{}] * 2, [{}]), max_env_step=128)
    return trained, json.loads(Path("run/result.json").read_text())


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# What is smaller than by default, so that a few steps are enough to learn from.
SMALL: dict[str, dict[str, Any]] = {
    "r2d2": dict(burnin_step=2, unroll_len=6, nstep=1, collect=dict(n_sample=4))  # sequences
}
IMAGES = dict(encoder_hidden_size_list=[4, 4, 4, 16])


@pytest.mark.parametrize("kind", ["dqn", "r2d2", "ppo"])
def test_a_dict_of_an_image_a_vector_and_a_number_trains(kind: str) -> None:
    policy, result = train(kind, dict(norm_obs=True), IMAGES, Camera, **SMALL.get(kind, {}))
    assert result["train_iter"] >= 3
    assert policy.state_dict()["normalizer"]["obs.mean"].shape == (6,)  # the state and the parity
