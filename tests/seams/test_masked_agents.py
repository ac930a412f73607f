"""Two agents with an action mask: no masked action is ever played, and ranks end with equal networks."""

from __future__ import annotations

from pathlib import Path

import pytest
from easydict import EasyDict

from tests.seams.masked_agents import Market
from tests.seams.ranks import metrics, train, train_on_two

NAME = "masked_agents"


def test_it_trains_on_two_processes(tmp_path: Path) -> None:
    # The environment fails at an action that is masked, and a failure ends the run.
    result = train_on_two(NAME, tmp_path, "env.manager.type=subprocess", "env.manager.max_retry=0")
    assert result["envstep"] > 2 * 40  # beyond the steps at random


def test_a_masked_action_would_be_noticed() -> None:
    env = Market(EasyDict(num_agents=2, num_offers=4, length=5))
    mask_MA = env.reset(seed=0)[0]["action_mask"]
    assert mask_MA.any(-1).all()
    assert not mask_MA.all(-1).any()
    with pytest.raises(ValueError, match="not all allowed"):
        env.step(mask_MA.argmin(-1))
    env.step(mask_MA.argmax(-1))


@pytest.mark.learn
def test_it_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    train(NAME, "exp_name=run", max_train_iter=1500)
    first, *_, last = (record["eval/return_mean"] for record in metrics(tmp_path) if "eval/return_mean" in record)
    # Of the allowed offers, an episode of five takes 2.5 at random, and 3.3 at best: the mean of the greatest of k
    # numbers is k / (k + 1), and k is 1 to 4 with probabilities 5, 6, 4 and 1 in 16, so 0.65 a step.
    assert last > 3.0
    assert last > first
