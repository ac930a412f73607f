"""An exported module acts as the policy does, for any number of observations."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ding_lite.trained import acting
from ding_lite.trained.acting import AgentError
from ding_lite.utils.registry import ConfigError
from ding_lite.utils.tree import dotted_items, tree_map
from tests.trained.test_agent import make_agent, make_setup, parity_env, recurrent_agent, rows, spaces_agent

needs_onnx = pytest.mark.skipif(importlib.util.find_spec("onnxscript") is None, reason="needs the extra onnx")


@pytest.mark.parametrize(
    "case",
    [
        "scaled and normalised",
        "hybrid",
        "dict",
        "masked",
        "agents",
        "candidates",
    ],
)
def test_pt2_needs_torch_only_and_holds_the_whole_way_from_observation_to_action(case: str) -> None:
    agent = {
        "scaled and normalised": lambda: spaces_agent("vector", "box", "env.norm_obs=True"),
        "hybrid": lambda: make_agent(make_setup(parity_env("hybrid"), "pdqn")),
        "dict": lambda: spaces_agent("dict", "late", policy="dqn"),
        "masked": lambda: make_agent(make_setup(parity_env("multi_discrete") | {"masked": True}, "bdq")),
        "agents": lambda: make_agent(make_setup(parity_env("agents"), "qmix", "policy.model.lstm_type=None")),
        "candidates": lambda: make_agent(make_setup(parity_env("continuous"), "bcq")),
    }[case]()
    agent.export("agent.pt2")
    module: Any = torch.export.load("agent.pt2").module()
    for number in (1, 2, 33):
        obs = acting.draw_observations(agent.make_env().observation_space, number)
        found = module(tree_map(torch.from_numpy, obs))
        for got, want in zip(rows(found), rows(agent.act(obs)), strict=True):
            np.testing.assert_allclose(got, want, atol=1e-5)
            assert got.dtype == want.dtype
    assert [path.name for path in Path().iterdir()] == ["agent.pt2"]


@needs_onnx
@pytest.mark.parametrize("masked", [False, True])
def test_onnx_acts_alike(masked: bool) -> None:
    masks = parity_env() | {"masked": True}
    agent = make_agent(make_setup(masks, "dqn")) if masked else spaces_agent("vector")
    agent.export("agent.onnx")
    session = importlib.import_module("onnxruntime").InferenceSession("agent.onnx")
    obs = acting.draw_observations(agent.make_env().observation_space, 5)
    (found,) = session.run(None, dict(dotted_items({"obs": obs})))
    np.testing.assert_allclose(found, agent.act(obs), atol=1e-4)


def test_an_exported_actor_does_not_take_what_only_the_critic_saw() -> None:
    for name, words in (("sac", []), ("ppo", ["policy.model.share_encoder=False", "env.norm_obs=True"])):
        hidden = ["policy.model.critic_obs=['hidden']", *words]
        agent = make_agent(make_setup(parity_env("continuous") | {"hidden": True}, name, *hidden))
        agent.export("agent.pt2")
        obs = acting.draw_observations(agent.make_env().observation_space, 7)
        seen = {"observation": obs["observation"]}
        found = torch.export.load("agent.pt2").module()(tree_map(torch.from_numpy, seen))
        np.testing.assert_allclose(found, agent.act(obs), atol=1e-5)
        np.testing.assert_array_equal(agent.act(seen), agent.act(obs))
        alone = agent.act({"observation": obs["observation"][0]})
        np.testing.assert_allclose(alone, agent.act(obs)[0], atol=1e-5)
        with pytest.raises(AgentError, match=r"Expected one observation, a dict of 'observation' \[4\], 'hidden'"):
            agent.act({"hidden": obs["hidden"]})


def test_a_module_that_acts_otherwise_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acting, "_run_pt2", lambda path, obs: [np.full(len(obs), 9)])
    agent = make_agent(make_setup(parity_env(), "dqn"))
    with pytest.raises(AgentError, match="actions differ from the policy's"):
        agent.export("agent.pt2")
    assert list(Path().iterdir()) == []


def test_what_cannot_be_exported_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AgentError, match="recurrent policy cannot be exported"):
        recurrent_agent().export("agent.pt2")
    agent = make_agent(make_setup(parity_env(), "dqn"))
    with pytest.raises(ConfigError, match=r"ends with \.pt2 or \.onnx"):
        agent.export("agent.pt")
    with pytest.raises(ConfigError, match=r"Cannot write 'gone/agent\.pt2': its directory does not exist"):
        agent.export("gone/agent.pt2")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ConfigError, match=r"pip install 'ding_lite\[onnx\]'"):
        agent.export("agent.onnx")
