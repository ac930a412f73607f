"""The exponential average of weights: its numbers, evaluations that use it, checkpoints."""

from __future__ import annotations

import contextlib
import copy
import json
from pathlib import Path

import pytest
import torch
from torch import nn

import ding_lite
from ding_lite.entry import evaluate_checkpoint, serial_pipeline
from ding_lite.policy.checkpointed import WeightAverage, load_to_act
from ding_lite.utils.checkpoint.file import load_checkpoint
from tests.distributed import parity
from tests.policy.helpers import OURS, same_tree
from tests.policy.test_invariants import learn, played
from tests.run.helpers import CONFIG


def test_the_average_is_a_sum_with_decaying_shares_that_leaves_the_first_weights_out() -> None:
    layer, norm = nn.Linear(3, 2).double(), nn.BatchNorm1d(2).double()
    network = nn.ModuleDict({"0": layer, "1": norm, "same": layer})  # some weights have two names
    average, share = WeightAverage(network, 0.3), 0.3
    weights = []
    for t in range(1, 7):
        with torch.no_grad():
            layer.weight += torch.randn(2, 3, dtype=torch.float64)
        norm(layer(torch.randn(5, 3, dtype=torch.float64)))
        weights.append(layer.weight.detach().clone())
        average.update(t)
        if t == 1:
            torch.testing.assert_close(average.state_dict()["0.weight"], weights[0])  # nothing of the untrained one
    shares = [share * 0.7 ** (6 - t) for t in range(1, 7)]
    expected = sum(part * weight for part, weight in zip(shares, weights, strict=True)) / sum(shares)
    torch.testing.assert_close(average.state_dict()["0.weight"], expected, rtol=1e-12, atol=1e-12)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    with contextlib.suppress(KeyboardInterrupt), average.used():
        torch.testing.assert_close(layer.weight.detach(), expected, rtol=1e-12, atol=1e-12)
        raise KeyboardInterrupt
    assert same_tree(before, network.state_dict()), "an interrupted evaluation leaves the newest weights"
    other = WeightAverage(network, 0.5)
    other.load_state_dict(average.state_dict())
    assert same_tree(other.state_dict(), average.state_dict())
    other.load_state_dict(None)
    assert same_tree(other.state_dict(), before)


@pytest.mark.parametrize(("share", "expected"), [(1.0, 3.0), (1e-14, 2.0), (1e-20, 2.0)])
def test_the_average_leaves_the_first_weights_out_whatever_its_share(share: float, expected: float) -> None:
    network = nn.Linear(1, 1, bias=False).double()
    nn.init.constant_(network.weight, 1000.0)
    average = WeightAverage(network, share)
    for t in (1, 2, 3):  # with a small share, all three count alike
        nn.init.constant_(network.weight, t)
        average.update(t)
    assert average.state_dict()["weight"].item() == pytest.approx(expected)


@pytest.mark.parametrize("name", OURS)
def test_every_policy_evaluates_its_average_learns_as_without_it_and_loads_it(name: str) -> None:
    plain, play = parity.create_policy(played(name)[0]), played(name, "policy.eval.average=0.5")
    policy, other = (parity.create_policy(play[0]) for _ in range(2))
    for one in (plain, policy):
        learn(one, play, range(2))
    state = copy.deepcopy(policy.state_dict())
    assert same_tree(plain.state_dict()["model"], state["model"])
    assert not same_tree(state["average"], state["model"])
    with policy.evaluating():
        assert same_tree(dict(policy.model.state_dict()), state["average"])
    assert same_tree(policy.state_dict(), state)
    other.load_state_dict(state)
    for one in (policy, other):
        learn(one, play, [2])
    assert same_tree(policy.state_dict(), other.state_dict())
    load_to_act(plain, state)
    assert same_tree(dict(plain.model.state_dict()), state["average"])


def test_a_run_evaluates_the_average_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    overrides = [f"exp_name={tmp_path}/run", "policy.eval.average=0.25", "env.n_evaluator_episode=5"]
    serial_pipeline(str(CONFIG), seed=0, max_env_step=200, overrides=overrides)
    assert "averaged weights, share of the newest 0.25" in capsys.readouterr().err
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["eval_average"] == 0.25
    path = f"{tmp_path}/run/ckpt/ckpt_last.pth.tar"
    state = load_checkpoint(path)["policy"]
    assert not same_tree(state["average"], state["model"])
    assert same_tree(dict(ding_lite.load(path).policy.model.state_dict()), state["average"])
    assert evaluate_checkpoint(f"{tmp_path}/run/total_config.py", path, seed=0)["returns"]
