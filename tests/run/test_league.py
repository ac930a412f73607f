"""A league chooses opponents among a run's checkpoints, and a resumed run goes on with them."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import ding_lite
from ding_lite.entry import League
from ding_lite.utils.registry import ENV_REGISTRY
from tests.run.helpers import metrics, run
from tests.toys import Toy

load = functools.cache(ding_lite.load)  # of a path; another run's files have the same ones


@ENV_REGISTRY.register("duel")
class Duel(Toy):
    """Games of three steps. The last info says after how many iterations the opponent was saved, and what it plays."""

    opponent = ""

    def play(self, action: Any) -> Any:
        over, info = self.count == 3, {}
        if over and self.opponent:
            reply = load(self.opponent).act(self.observe())
            info = {"iteration": int(Path(self.opponent).name.split("_")[1].split(".")[0]), "reply": int(reply)}
        return 1.0, over, False, info


def play(league: League, steps: int, *words: str) -> list[dict[str, Any]]:
    """Train for some env steps; return the lines of metrics.jsonl."""
    load.cache_clear()
    env = dict(env_id="duel", info_keys=["iteration", "reply"], collector_env_num=8, stop_value=None)
    pair = (dict(env=env), dict(env=dict(type="duel"), env_manager=dict(type="base"), policy=dict(type="dqn")))
    keys = ["policy.random_collect_size=64", "policy.learn.learner.hook.save_ckpt_after_iter=12"]
    run(*keys, *words, input_cfg=pair, callbacks=[league], max_env_step=steps)
    return metrics(Path("run"))


def opponents(lines: list[dict[str, Any]]) -> list[float]:
    """Return the mean iteration of the opponents, in order of time."""
    return [line["collect/info/iteration"] for line in lines if "collect/info/iteration" in line]


def test_opponents_change_with_the_checkpoints_and_a_resumed_run_has_the_same() -> None:
    play(League(newest=0.7), 240)
    parts = play(League(newest=0.7), 480, "policy.learn.resume_training=True")
    Path("run").rename("parts")
    whole = play(League(newest=0.7), 480)
    assert opponents(whole) == opponents(parts)
    assert len(set(opponents(whole))) > 3
    assert max(opponents(whole)[-3:]) > opponents(whole)[0]
    kept = list(Path("run/league").iterdir())
    assert max(line.get("league/opponents", 0) for line in whole) == len(kept) > 4
