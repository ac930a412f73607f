"""A tracker is told all that a run records, and whatever it does, the run does not notice."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from easydict import EasyDict

from ding_lite.entry import Callback
from ding_lite.run.callbacks import WatchedRun
from ding_lite.run.reporter import RunReporter
from ding_lite.utils import ConfigError
from ding_lite.utils.logger import COUNTS
from tests.distributed.launcher import run_forked
from tests.launch.notebook import FILE, Notebook, points, read
from tests.policy.helpers import parameter_hash
from tests.run.helpers import CONFIG, SHORT, STEPS, metrics, result, run

NOTEBOOK = ["policy.import_names=['tests.launch.notebook']", "tracker.type=notebook"]
RUN = Path("run")


def figures(exp_dir: Path, axis: str = "envstep") -> list[Any]:
    """Return the points of metrics.jsonl, each a step and its figures by name."""
    return [
        [line[axis], {key: value for key, value in line.items() if key not in COUNTS and value is not None}]
        for line in metrics(exp_dir)
    ]


def fault(event: str) -> list[str]:
    return [*NOTEBOOK, f"tracker.options.fault={event}"]


def test_a_tracker_gets_config_figures_and_result_and_the_run_is_the_same(capfd: pytest.CaptureFixture[str]) -> None:
    tracked = run(*NOTEBOOK)
    assert points(RUN) == figures(RUN)
    (begin,) = read(RUN, "start")
    assert (begin["name"], begin["group"], begin["continued"]) == ("run", "run", False)
    assert begin["config"]["policy"]["learn"]["batch_size"] == 64
    assert read(RUN, "finish")[0]["result"] == result(RUN)
    assert "tracker: notebook.jsonl" in capfd.readouterr().err
    assert parameter_hash(tracked.model) == parameter_hash(run("exp_name=other").model)
    same = [[{**line, "seconds": 0, "time": 0, "collect/env_step_per_second": 0} for line in metrics(Path(name))]
            for name in ("run", "other")]  # fmt: skip
    assert same[0] == same[1]


def test_a_resumed_run_goes_on_in_the_same_run_of_the_service() -> None:
    run(*NOTEBOOK, max_env_step=STEPS // 2)
    half = len(metrics(RUN))
    run(*NOTEBOOK, "policy.learn.resume_training=True")
    assert [(line["id"], line["continued"]) for line in read(RUN, "start")] == [("page-1", False), ("page-1", True)]
    assert len(figures(RUN)) > half
    assert points(RUN) == figures(RUN)  # each line once
    assert [line["result"]["envstep"] for line in read(RUN, "finish")] == [STEPS // 2, STEPS]


def test_a_password_reaches_the_service_and_no_file_or_message(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PW", "s3cr/t@x")
    run(*fault("start"), "tracker.options.state=open at http://me:${PW}@host")
    assert "RuntimeError: the service is open at http://...@host" in capfd.readouterr().err
    assert (RUN / "log/tracker.txt").read_text().startswith("a service prints open at http://...@host\nTraceback")
    files = [file for file in RUN.rglob("*") if file.is_file()]
    assert {RUN / "log/tracker.txt", RUN / "total_config.py", RUN / FILE} <= set(files)
    assert [file for file in files if b"s3cr/t@x" in file.read_bytes()] == []
    monkeypatch.delenv("PW")
    with pytest.raises(ConfigError, match=r"http://\.\.\.@host': the environment variable PW is not set"):
        run(*fault("start"), "tracker.options.state=open at http://me:${PW}@host", "exp_name=other")
    assert not Path("other").exists()


@pytest.mark.parametrize("event", ["start", "log", "finish"])
def test_a_tracker_that_fails_is_switched_off_with_one_warning(event: str, capfd: pytest.CaptureFixture[str]) -> None:
    run(*fault(event))
    assert result(RUN)["stop_reason"] == "max_env_step"
    out, said = capfd.readouterr()
    assert said.count("WARNING") == 1
    assert (
        "WARNING tracker 'notebook' has failed and is off; the run does not depend on it.\n"
        "  RuntimeError: the service is closed today\n  See run/log/tracker.txt.\n"
    ) in said
    printed = (RUN / "log/tracker.txt").read_text()
    assert printed.startswith("a service prints \n")
    assert printed.endswith("RuntimeError: the service is\nclosed today\n")
    assert "a service prints" not in out + said


def test_a_failure_is_told_while_the_run_goes_on_and_the_next_part_catches_up() -> None:
    run(*fault("log"))
    assert not read(RUN, "finish")
    told = len(read(RUN, "log")[0]["points"])
    run(*NOTEBOOK, "policy.learn.resume_training=True", max_env_step=2 * STEPS)
    later = [point for line in read(RUN, "log")[1:] for point in line["points"]]
    assert told > 0
    assert later == figures(RUN)  # what failed is not known to have arrived


def command(*words: str) -> list[str]:
    return ["-m", "ding_lite", *words]


def test_only_rank_0_has_a_tracker(tmp_path: Path) -> None:
    words = ["--nproc", "2", "max_env_step=320", "env.stop_value=None", *SHORT, *NOTEBOOK]
    run_forked(command("train", "-c", str(CONFIG), *words), 120, cwd=tmp_path)
    assert len(read(RUN, "start")) == len(read(RUN, "finish")) == 1
    assert points(RUN) == figures(RUN)
    assert read(RUN, "finish")[0]["result"]["world_size"] == 2


def test_a_run_that_an_error_ends_has_no_result_there() -> None:
    class Fails(Callback):
        def after_evaluation(self, run: WatchedRun, info: Mapping[str, Any]) -> None:
            if run.learner.train_iter:
                raise RuntimeError("a mistake in a callback")

    with pytest.raises(RuntimeError, match="a mistake in a callback"):
        run(*NOTEBOOK, callbacks=[Fails()])
    assert points(RUN) == figures(RUN)
    assert [line["result"] for line in read(RUN, "finish")] == [{}]


def test_a_package_that_is_missing_is_a_line_that_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of the package's name, as W&B makes one, is not the package."""
    (tmp_path / "wandb").mkdir()
    monkeypatch.setattr(
        sys, "path", [str(tmp_path), *(path for path in sys.path if not (Path(path) / "wandb").exists())]
    )
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    with pytest.raises(
        ConfigError, match=r"tracker\.type='wandb' needs the extra 'wandb': pip install 'ding_lite\[wandb\]'"
    ):
        run("tracker.type=wandb")
    assert not RUN.exists()


@pytest.mark.parametrize(
    ("folder", "group"),
    [
        ("cartpole_seed0", "cartpole"), ("cartpole_seed12_261123_030405", "cartpole"), ("pong", "pong"),
        ("cartpole_seed0_261123_030405_2", "cartpole"), ("trial_0003_seed1", "trial_0003"), ("seed_1", "seed_1"),
    ],
)  # fmt: skip
def test_the_group_is_the_name_without_the_seed(folder: str, group: str) -> None:
    for name, whole, expected in ((None, None, (folder, group)), ("mine", "ours", ("mine", "ours"))):
        cfg = EasyDict(tracker={"type": "notebook", "name": name, "group": whole, "options": {}})
        with RunReporter(cfg, folder) as reporter:
            tracker = Notebook(reporter)
        assert (tracker.name, tracker.group) == expected
