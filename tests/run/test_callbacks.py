"""Callbacks see every event of a run once, may log and stop, and are resumed; without them nothing changes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ding_lite.entry import Callback, serial_pipeline
from ding_lite.run.callbacks import WatchedRun
from ding_lite.utils import UserError
from ding_lite.utils.checkpoint.run_directory import last_exp_dir
from ding_lite.utils.ranks.collectives import get_rank
from tests.distributed.on_ranks import call_on_ranks
from tests.policy.helpers import parameter_hash
from tests.run.helpers import SHORT, last_checkpoint, metrics, pair, result, run


class Mover(Callback):
    """Changes the current directory when the run starts."""

    def __init__(self) -> None:
        self.paths: list[Path] = []

    def on_start(self, run: WatchedRun) -> None:
        os.mkdir("other")
        os.chdir("other")

    def after_checkpoint(self, run: WatchedRun, path: str) -> None:
        self.paths.append(Path(path))


class Recorder(Callback):
    """Counts the events, and checks what comes with each."""

    def __init__(self) -> None:
        self.events: Counter[str] = Counter()
        self.order: list[str] = []
        self.env_steps = 0.0

    def _note(self, event: str) -> None:
        self.events[event] += 1
        self.order.append(event)

    def on_start(self, run: WatchedRun) -> None:
        self._note("start")

    def after_collect(self, run: WatchedRun, figures: Mapping[str, float]) -> None:
        self.env_steps += figures["env_step"]
        self._note("collect")

    def after_update(self, run: WatchedRun, output: Mapping[str, Any]) -> None:
        assert output["total_loss"].isfinite()
        assert run.learner.train_iter == self.events["update"] + 1
        self._note("update")

    def after_evaluation(self, run: WatchedRun, info: Mapping[str, Any]) -> None:
        assert info["return_mean"] <= info["return_best"]
        self._note("evaluation")

    def after_log(self, run: WatchedRun, figures: Mapping[str, float]) -> None:
        assert figures
        self._note("log")

    def after_checkpoint(self, run: WatchedRun, path: str) -> None:
        assert Path(path).is_file()
        self._note("best" if path.endswith("ckpt_best.pth.tar") else "checkpoint")

    def on_end(self, run: WatchedRun) -> None:
        assert run.stop_reason
        self._note("end")

    def state_dict(self) -> dict[str, Any]:
        return {"updates": self.events["update"]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.events["update"] = state["updates"]


class Stopper(Callback):
    """Stops the run at one event, on one rank."""

    def __init__(self, event: str, rank: int = 0) -> None:
        self.event, self.rank = event, rank

    def after_collect(self, run: WatchedRun, figures: Mapping[str, float]) -> None:
        if (self.event, self.rank) == ("collect", get_rank()):
            run.stop()

    def after_evaluation(self, run: WatchedRun, info: Mapping[str, Any]) -> None:
        if (self.event, self.rank) == ("evaluation", get_rank()):
            run.stop()


class Own(Callback):
    """Records a figure of its own."""

    def after_evaluation(self, run: WatchedRun, info: Mapping[str, Any]) -> None:
        run.log({"mine/doubled": 2 * info["return_mean"]})


def test_every_event_is_seen_once_from_any_directory_and_the_run_is_the_same(tmp_path: Path) -> None:
    recorder, mover = Recorder(), Mover()
    policy = run(callbacks=[recorder, mover, Own()])
    told, lines = result(tmp_path / "run"), metrics(tmp_path / "run")
    means = {line["envstep"]: line["eval/return_mean"] for line in lines if "eval/return_mean" in line}
    own = {line["envstep"]: line["mine/doubled"] for line in lines if "mine/doubled" in line}
    assert own == {step: 2 * mean for step, mean in means.items()}
    events = recorder.events
    assert (events["start"], events["end"], events["checkpoint"]) == (1, 1, 2)  # iteration 0, and the last
    assert (events["update"], recorder.env_steps) == (told["train_iter"], told["envstep"])
    assert events["evaluation"] == len(means)
    assert events["log"] in (len(lines), len(lines) - len(own))  # whether what a callback records counts
    assert (recorder.order[0], recorder.order[-1]) == ("start", "end")
    assert events["best"] >= 1
    assert list((tmp_path / "other").iterdir()) == []  # the directory that `mover` changed to
    assert {path.parent for path in mover.paths} == {tmp_path / "run" / "ckpt"}
    assert all(path.is_file() for path in mover.paths)
    assert last_exp_dir() == str(tmp_path / "run")
    assert parameter_hash(policy.model) == parameter_hash(run("exp_name=again").model)


@pytest.mark.parametrize("name", ["envstep", "train_iter", "seconds", "time"])
def test_a_figure_cannot_replace_a_count(name: str) -> None:
    class Own(Callback):
        def after_collect(self, run: WatchedRun, figures: Mapping[str, float]) -> None:
            run.log({name: 7})

    with pytest.raises(UserError, match=f"'{name}' is the name of a count: .* such as 'mine/{name}'"):
        run(callbacks=[Own()])


@pytest.mark.parametrize(("event", "envstep"), [("collect", 8), ("evaluation", 0)])
def test_a_callback_stops_the_run_before_the_next_collect(tmp_path: Path, event: str, envstep: int) -> None:
    run(callbacks=[Stopper(event)])
    told = result(tmp_path / "run")
    assert (told["stop_reason"], told["envstep"]) == ("callback", envstep)


def test_a_stopped_run_continues_with_what_its_callbacks_had_counted(tmp_path: Path) -> None:
    class StopAt(Recorder):
        def after_update(self, run: WatchedRun, output: Mapping[str, Any]) -> None:
            super().after_update(run, output)
            if self.events["update"] == 50:
                run.stop()

    run(callbacks=[StopAt()])
    stopped = result(tmp_path / "run")
    assert (stopped["stop_reason"], stopped["train_iter"] // 10) == ("callback", 5)
    assert last_checkpoint(tmp_path / "run")["callbacks"]["0"]["updates"] == stopped["train_iter"]
    recorder = Recorder()  # its `after_update` compares its count with the run's
    run("policy.learn.resume_training=True", callbacks=[recorder])
    assert recorder.events["update"] == result(tmp_path / "run")["train_iter"] > stopped["train_iter"]
    uninterrupted = run("exp_name=other")
    model = last_checkpoint(tmp_path / "run")["policy"]["model"]
    assert parameter_hash(model) == parameter_hash(uninterrupted.model)


def stop_on_rank_1() -> None:
    words = [*SHORT, "policy.multi_gpu=True"]
    policy = serial_pipeline(pair(), 0, max_env_step=4000, overrides=words, callbacks=[Stopper("collect", rank=1)])
    assert policy.env_place == (8 * get_rank(), 16), "epsilons are not spread over the environments of all ranks"


def test_all_ranks_stop_if_one_asks(tmp_path: Path) -> None:
    call_on_ranks(stop_on_rank_1, cwd=tmp_path)
    told = result(tmp_path / "run")
    assert (told["stop_reason"], told["world_size"], told["envstep"]) == ("callback", 2, 16)
