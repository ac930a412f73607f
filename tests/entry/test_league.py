"""A league chooses opponents among a run's checkpoints, and a resumed run goes on with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ding_lite
from ding_lite.entry import League
from ding_lite.utils.registry import ENV_REGISTRY
from tests.entry.helpers import metrics, run
from tests.toys import Toy


@ENV_REGISTRY.register("duel")
class Duel(Toy):
    """Games of three steps. The last info says after how many iterations the opponent was saved, and what it plays."""

    opponent = ""

    def play(self, action: Any) -> Any:
        over, info = self.count == 3, {}
        if over and self.opponent:
            reply = ding_lite.load(self.opponent).act(self.observe())
            info = {"iteration": int(Path(self.opponent).name.split("_")[1].split(".")[0]), "reply": int(reply)}
        return 1.0, over, False, info


def play(league: League, steps: int, *words: str) -> list[dict[str, Any]]:
    """Train for some env steps; return the lines of metrics.jsonl."""
    env = dict(env_id="duel", info_keys=["iteration", "reply"], collector_env_num=8, stop_value=None)
    pair = (dict(env=env), dict(env=dict(type="duel"), env_manager=dict(type="base"), policy=dict(type="dqn")))
    keys = ["policy.random_collect_size=64", "policy.learn.learner.hook.save_ckpt_after_iter=12"]
    run(*keys, *words, input_cfg=pair, callbacks=[league], max_env_step=steps)
    return metrics(Path("run"))


def opponents(lines: list[dict[str, Any]]) -> list[float]:
    """Return the mean iteration of the opponents, in order of time."""
    return [line["collect/info/iteration"] for line in lines if "collect/info/iteration" in line]


def test_opponents_are_chosen_again_after_each_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = play(League(newest=1.0), 480)
    means = opponents(lines)
    assert means == sorted(means)
    assert means[-1] > means[0]
    kept = sorted(int(path.name.split("_")[1].split(".")[0]) for path in Path("run/league").iterdir())
    assert len(kept) > 4
    assert max(line.get("league/opponents", 0) for line in lines) == len(kept)


def test_a_resumed_run_has_its_opponents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    play(League(newest=0.3), 240)
    first = play(League(newest=0.3), 480, "policy.learn.resume_training=True")
    Path("run").rename("parts")
    whole = play(League(newest=0.3), 480)
    assert opponents(whole) == opponents(first)
