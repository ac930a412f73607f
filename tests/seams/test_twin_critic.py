"""An off-policy algorithm for continuous actions: short, with noise, n steps and priorities, on two processes."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch

from tests.seams import twin_critic
from tests.seams.ranks import build, check_two_step_as_one, metrics, sample_batches, train, train_on_two

NAME = "twin_critic"


def test_the_algorithm_takes_at_most_80_lines() -> None:
    source = Path(twin_critic.__file__).read_text()
    (policy,) = (node for node in ast.parse(source).body if getattr(node, "name", "") == "TwinCriticPolicy")
    lines = source.splitlines()[policy.lineno - 1 : policy.end_lineno]
    assert 40 < len([line for line in lines if line.strip()]) <= 80


def test_it_trains_on_two_processes(tmp_path: Path) -> None:
    train_on_two(NAME, tmp_path)


def test_two_processes_step_as_one(tmp_path: Path) -> None:
    check_two_step_as_one(NAME, tmp_path, "policy.learn.target_noise=0.0")  # each rank draws noise of its own


def test_it_collects_with_noise_and_is_judged_without() -> None:
    _, policy = build(NAME)
    obs = torch.zeros(500, 2)
    judged, collected = (policy.act(obs, explore)["action"] for explore in (False, True))
    assert (judged == judged[0]).all()
    noise = collected - judged
    torch.testing.assert_close(noise.std(0), torch.full((2,), 0.2, dtype=noise.dtype), rtol=0.15, atol=0)


def test_the_actor_moves_at_every_second_step() -> None:
    batches = sample_batches(NAME, 4, 32)
    _, policy = build(NAME)
    moved = []
    for batch in batches:
        before = [parameter.clone() for parameter in policy.model.actor.parameters()]
        figures = policy.learn(batch)
        pairs = zip(before, policy.model.actor.parameters(), strict=True)
        moved.append(not all(torch.equal(old, new) for old, new in pairs))
        assert figures["priority"].shape == (32,)
    assert moved == [False, True, False, True]


@pytest.mark.learn
def test_it_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    train(NAME, "exp_name=run", max_train_iter=2000)
    first, *_, last = (record["eval/return_mean"] for record in metrics(tmp_path) if "eval/return_mean" in record)
    # Standing still for ten steps is worth -10. The way takes 1 / 0.3 to 1 / 0.42 steps, which leaves less than
    # 0.7 + 0.4 + 0.1 on it.
    assert first < -4
    assert last > -2.0
