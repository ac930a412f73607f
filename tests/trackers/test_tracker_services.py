"""What real runs leave in Weights & Biases and in MLflow, without a network."""

from __future__ import annotations

import importlib.util
import json
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests.distributed.launcher import finish, free_port, run_forked, start
from tests.run.helpers import CONFIG, SHORT, STEPS, metrics, result
from tests.trackers.test_trackers import RUN, figures

TRAIN = ["train", "-c", str(CONFIG), "-s", "0", *SHORT, "tracker.patience=300", "tracker.tags=['short','first try']"]
OFFLINE = ["tracker.type=wandb", "tracker.options.mode=offline"]
BLOCK = 2**15  # bytes of a block of W&B's file
BEGIN, WHOLE, FIRST, LAST = 7, 1, 2, 4  # bytes at the beginning of the file; kinds of parts of a record


def ding_lite(tmp_path: Path, *words: str, stdout: str = "", **env: str) -> CompletedProcess[str]:
    """Run a command in `tmp_path`, which is also the home directory.

    It must end with status 0, and print nothing to standard output but copies of the run's lines, or what ends with
    `stdout`.
    """
    private = {"HOME": str(tmp_path), "MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_TRACKING_URI": "", **env}
    done = run_forked(["-m", "ding_lite", *words], 120, private, tmp_path)
    copies = set(done.stdout.splitlines()) <= set(done.stderr.splitlines())
    assert done.stdout.strip().endswith(stdout) if stdout else copies
    return done


def read_wandb(path: Path) -> Iterator[Any]:
    """Yield the records of W&B's file, a log of LevelDB's: each part of one stands behind checksum, length and kind."""
    pb = pytest.importorskip("wandb.proto.wandb_internal_pb2")
    data, place, whole = path.read_bytes(), BEGIN, b""
    while place + BEGIN <= len(data):
        if BLOCK - place % BLOCK < BEGIN:
            place += BLOCK - place % BLOCK  # no part fits into the rest of the block
            continue
        _, length, kind = struct.unpack_from("<IHB", data, place)
        part = data[place + BEGIN : place + BEGIN + length]
        place += BEGIN + length
        whole = part if kind in (WHOLE, FIRST) else whole + part
        if kind in (WHOLE, LAST):
            yield pb.Record.FromString(whole)


def read_history(records: list[Any]) -> list[Any]:
    """Return the points, each a step and its figures by name, as `figures` returns them."""
    history = []
    for record in records:
        items = {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
        if items:
            history.append([items["_step"], {key: value for key, value in items.items() if not key.startswith("_")}])
    return history


def joined(points: list[Any]) -> dict[int, dict[str, float]]:
    """Return the figures by step."""
    steps: dict[int, dict[str, float]] = {}
    for step, values in points:
        steps.setdefault(step, {}).update(values)
    return steps


@pytest.mark.slow
def test_wandb_offline_has_figures_config_and_result_and_a_resumed_run_keeps_its_id(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    done = ding_lite(tmp_path, *TRAIN, *OFFLINE, "env.stop_value=None", f"max_env_step={STEPS}")
    (folder,) = RUN.glob("wandb/offline-run-*")
    assert f"tracker: W&B, offline; to upload it: wandb sync \\\n  {folder}\n" in done.stderr
    assert "wandb: " not in done.stderr
    records = list(read_wandb(next(folder.glob("*.wandb"))))
    assert joined(read_history(records)) == joined(figures(RUN))
    run = next(record.run for record in records if record.WhichOneof("record_type") == "run")
    assert (run.project, run.display_name, run.run_group, [*run.tags]) == (
        *("ding_lite", "run", "run"),
        ["short", "first try"],
    )
    config = {item.key: json.loads(item.value_json) for item in run.config.update}
    assert config["policy"]["learn"]["batch_size"] == 64
    summary = {item.key: json.loads(item.value_json) for record in records for item in record.summary.update}
    assert {key: summary[f"result/{key}"] for key in result(RUN)} == result(RUN)
    assert [record.exit.exit_code for record in records if record.WhichOneof("record_type") == "exit"] == [0]

    told = len(figures(RUN))
    ding_lite(tmp_path, "resume", "run", f"max_env_step={STEPS + 200}")
    _, second = sorted(RUN.glob("wandb/offline-run-*"))
    assert folder.name.rpartition("-")[2] == second.name.rpartition("-")[2] == run.run_id
    again = read_history(list(read_wandb(next(second.glob("*.wandb")))))
    assert joined(again) == joined(figures(RUN)[told:])  # the later figures only


def test_wandb_without_a_network_does_not_keep_a_run_from_its_end(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    network = {"WANDB_BASE_URL": f"http://127.0.0.1:{free_port()}", "WANDB_API_KEY": 40 * "0"}
    words = ["env.stop_value=None", f"max_env_step={STEPS}", "tracker.patience=3"]
    done = ding_lite(tmp_path, *TRAIN, "tracker.type=wandb", *words, **network)
    assert result(RUN)["stop_reason"] == "max_env_step"
    assert done.stderr.count("WARNING") == 1
    assert "WARNING tracker 'wandb' has failed and is off" in done.stderr


@dataclass(frozen=True)
class MlflowRun:
    """A run as MLflow has it; the points of `history` are step, milliseconds since 1970 and value."""

    id: str
    name: str
    status: str
    params: dict[str, str]
    tags: dict[str, str]
    history: dict[str, list[Any]]


def read_mlflow(tmp_path: Path, uri: str, experiment: str) -> list[MlflowRun]:
    """Return the runs of an experiment, read by another process, because MLflow leaves threads behind."""
    code = f"""
import json
from mlflow import MlflowClient
client = MlflowClient({uri!r})
for run in client.search_runs([client.get_experiment_by_name({experiment!r}).experiment_id]):
    history = {{}}
    for key in run.data.metrics:
        history[key] = [(m.step, m.timestamp, m.value) for m in client.get_metric_history(run.info.run_id, key)]
    print(json.dumps([run.info.run_id, run.info.run_name, run.info.status, run.data.params, run.data.tags, history]))
"""
    done = finish(start([sys.executable, "-c", code], {"MLFLOW_DISABLE_TELEMETRY": "true"}, tmp_path), timeout=60)
    assert done.returncode == 0, done.stderr
    return [MlflowRun(*json.loads(line)) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_mlflow_has_figures_config_and_result_and_a_resumed_run_keeps_its_id(tmp_path: Path) -> None:
    if importlib.util.find_spec("mlflow") is None:  # not imported, because it leaves threads behind
        pytest.skip("MLflow is not installed")
    words = ["tracker.type=mlflow", "tracker.project=short runs", "env.stop_value=None"]
    done = ding_lite(tmp_path, *TRAIN, *words, f"max_env_step={STEPS}")
    first = metrics(RUN)
    ding_lite(tmp_path, "resume", "run", f"max_env_step={STEPS + 200}")
    uri = f"sqlite:///{tmp_path}/run/mlflow.db"
    (run,) = read_mlflow(tmp_path, uri, "short runs")
    assert f"tracker: MLflow run {run.id}\n  at {uri}\n" in done.stderr
    assert (run.name, run.status) == ("run", "FINISHED")
    assert run.params["policy.learn.batch_size"] == "64"
    assert {"group": "run", "short": "", "first try": ""}.items() <= run.tags.items()
    assert {f"result.{key}": str(value) for key, value in result(RUN).items()}.items() <= run.tags.items()
    lines = metrics(RUN)
    assert len(lines) > len(first) > 0
    expected: dict[str, list[Any]] = {}
    for line, (step, values) in zip(lines, figures(RUN), strict=True):
        for key, value in values.items():
            expected.setdefault(key, []).append([step, int(1000 * line["time"]), value])
    assert run.history == expected


@pytest.mark.slow
def test_two_seeds_may_create_the_database_that_they_share(tmp_path: Path) -> None:
    if importlib.util.find_spec("mlflow") is None:
        pytest.skip("MLflow is not installed")
    shared = f"sqlite:///{tmp_path}/shared.db"
    words = [*TRAIN[:3], "-s", "0", "1", "--jobs", "2", *SHORT[1:], "env.stop_value=None", f"max_env_step={STEPS}"]
    words += ["exp_name=run", "tracker.type=mlflow"]
    ding_lite(tmp_path, *words, MLFLOW_TRACKING_URI=shared, stdout="directories run_seed0, run_seed1")
    runs = read_mlflow(tmp_path, shared, "ding_lite")
    assert sorted((run.name, run.tags["group"], run.status) for run in runs) == [
        ("run_seed0", "run", "FINISHED"),
        ("run_seed1", "run", "FINISHED"),
    ]
