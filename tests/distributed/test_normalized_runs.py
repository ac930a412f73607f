"""Statistics of 2 real processes are those of the joined data, on-policy and from replay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ding_lite.config import read_config
from ding_lite.entry import serial_pipeline, serial_pipeline_onpolicy
from ding_lite.torch_utils.normalizer import Normalizer
from ding_lite.utils import load_checkpoint
from tests.distributed.launcher import ROOT
from tests.distributed.on_ranks import call_on_ranks
from tests.torch_utils.test_normalizer import returns_by_hand

CONFIGS = ROOT / "dizoo" / "classic_control" / "cartpole" / "config"
SIZES = {"dqn": "policy.collect.n_sample=16", "ppo": "policy.collect.n_sample=128"}
GAMMA = 0.95


def train(name: str) -> dict[str, Any]:
    """Train a policy; return what this rank collected, and the statistics that it ended with."""
    blocks: list[dict[str, Any]] = []
    update = Normalizer.update

    def watched(self: Normalizer, block: dict[str, Any]) -> None:
        blocks.append({key: block[key].clone() for key in ("obs", "reward", "episode_step")})
        update(self, block)

    Normalizer.update = watched  # type: ignore[method-assign]
    words = [f"exp_name={name}", "policy.multi_gpu=True", "env.norm_obs=True", "env.norm_reward.use_norm=True"]
    words += [f"env.norm_reward.reward_discount={GAMMA}", "env.stop_value=None", SIZES[name]]
    words += ["policy.learn.learner.hook.check_ranks_after_iter=10", "env.n_evaluator_episode=5"]
    words += ["policy.learn.batch_size=32", "env.evaluator_env_num=5"]
    pipeline = serial_pipeline if name == "dqn" else serial_pipeline_onpolicy
    policy = pipeline(read_config(CONFIGS / f"cartpole_{name}_config.py"), 0, max_env_step=256, overrides=words)
    Normalizer.update = update  # type: ignore[method-assign]
    statistics = {key: value.tolist() for key, value in policy.state_dict()["normalizer"].items()}
    return {"blocks": [{key: value.tolist() for key, value in block.items()} for block in blocks], "own": statistics}


@pytest.mark.parametrize("name", SIZES)
def test_statistics_of_two_ranks_are_those_of_the_joined_data(tmp_path: Path, name: str) -> None:
    ranks = call_on_ranks(train, name, cwd=tmp_path)
    assert ranks[0]["own"] == ranks[1]["own"]
    assert ranks[0]["blocks"] != ranks[1]["blocks"]
    obs, returns = [], []
    for rank in ranks:
        blocks = [{key: np.array(value) for key, value in block.items()} for block in rank["blocks"]]
        obs += [block["obs"].reshape(-1, 4) for block in blocks]
        returns.append(returns_by_hand(blocks, GAMMA))
    joined, discounted = np.concatenate(obs), np.concatenate(returns)
    own = ranks[0]["own"]
    assert own["obs.count"] == [own["returns.count"]] * 4
    assert own["returns.count"] == len(joined) >= 256
    np.testing.assert_allclose(own["obs.mean"], joined.mean(0), rtol=1e-9)
    np.testing.assert_allclose(own["obs.var"], joined.var(0), rtol=1e-9)
    np.testing.assert_allclose(own["returns.mean"], discounted.mean(), rtol=1e-9)
    np.testing.assert_allclose(own["returns.var"], discounted.var(), rtol=1e-9)
    saved = load_checkpoint(str(tmp_path / name / "ckpt" / "ckpt_last.pth.tar"))["policy"]["normalizer"]
    assert {key: value.tolist() for key, value in saved.items()} == own
