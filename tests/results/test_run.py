from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from ding_lite.results.run import Evaluations, check_figure, find_runs, read_run
from ding_lite.utils.checkpoint.origin import read_origins
from ding_lite.utils.directory_lock import RecordReader, lock_directory, unlock_directory
from ding_lite.utils.registry import UserError
from tests.results.helpers import RETURNS, START, write_records, write_run
from tests.run.helpers import run as train


def test_a_real_run_is_read() -> None:
    train()
    run = read_run("run")
    assert (run.name, run.seed, run.algorithm, run.env) == ("run", 0, "dqn", "CartPole-v0")
    assert (run.ending, run.active) == ("max_env_step", False)
    assert run.config["policy.learn.batch_size"] == 64
    assert (run.config["max_env_step"], run.config["processes"]) == (320, 1)
    steps, returns = run.column("eval/return_mean")
    assert steps[0] == 0
    assert returns.max() == run.result["eval_return_best"]
    assert {"train/total_loss", "collect/return_mean"} <= run.keys


def test_seconds_are_those_of_the_run_and_not_of_the_clock(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", 0, [1.0, 2.0, 3.0]) / "metrics.jsonl"
    path.write_text(path.read_text().replace(f'"time": {START + 20}', f'"time": {START + 5000}'))  # it was resumed
    assert read_run(tmp_path / "run").column("eval/return_mean", "seconds")[0].tolist() == [0, 10, 20]
    assert read_run(tmp_path / "run").keys == {"eval/return_mean"}


def test_an_incomplete_last_line_is_skipped_and_another_damaged_one_is_a_mistake(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run") / "metrics.jsonl"
    whole = path.read_text()
    path.write_text(whole + '{"envstep": 300, "eval/ret')
    assert read_run(tmp_path / "run").column("eval/return_mean")[1].tolist() == list(RETURNS)
    for damage in ('{"envstep": 300, "eval/ret', "[1]", '{"envstep": 3}', '{"envstep": "a"}', "\x00\x00"):
        path.write_text(f"{damage}\n{whole}")
        with pytest.raises(
            UserError, match=r"metrics.jsonl', line 1: expected .* Delete the line, or leave this run out"
        ):
            _ = read_run(tmp_path / "run").records


def test_runs_are_found_below_a_directory_once_and_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for name in ("a/seed10", "a/seed9", "b"):
        write_run(tmp_path / name)
    (tmp_path / "a/seed9/ckpt").mkdir()
    assert [run.name for run in find_runs([tmp_path, tmp_path / "b"])] == ["seed9", "seed10", "b"]
    assert [run.name for run in find_runs([tmp_path / "b/metrics.jsonl"])] == ["b"]


def test_what_is_no_run_gets_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"contains no run: no total_config.py is in it or below it"):
        find_runs([tmp_path])
    with pytest.raises(UserError, match="does not exist or is not a directory"):
        find_runs([tmp_path / "none"])
    (tmp_path / "pair.py").touch()
    with pytest.raises(UserError, match=r"one with runs\.$"):  # it does not propose the same path
        find_runs([tmp_path / "pair.py"])
    with pytest.raises(UserError, match="is not the directory of a run"):
        read_run(tmp_path)
    (tmp_path / "total_config.py").write_text("main_config = {")
    with pytest.raises(UserError, match=r"line 1: .* To read the other runs, leave this one out"):
        find_runs([tmp_path])


def test_a_run_without_records_is_one_line_that_names_their_file(tmp_path: Path) -> None:
    runs = [read_run(write_run(tmp_path / name)) for name in ("run", "other")]
    file = tmp_path / "run" / "metrics.jsonl"
    file.unlink()
    check_figure(runs, "eval/return_mean")  # the other run has it
    with pytest.raises(UserError, match=rf"There is nothing to draw: '{file}', .* is missing\.$"):
        check_figure([read_run(tmp_path / "run")], "eval/return_mean")


def test_a_run_without_a_result_is_running_or_was_killed(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", ending=None)
    (path / "origin.jsonl").write_text('{"processes": 2}\n')
    assert (read_run(path).ending, read_run(path).config["processes"]) == ("killed", 2)
    lock = lock_directory(path)
    assert read_run(path).ending == "running"
    unlock_directory(lock)
    assert read_run(path).ending == "killed"


@pytest.mark.parametrize("text", ["[", "[" * 100_000], ids=["cut", "nested too deeply for Python's parser"])
def test_a_damaged_result_is_like_none(tmp_path: Path, text: str) -> None:
    path = write_run(tmp_path / "run")
    for name in ("result.json", "origin.jsonl"):
        (path / name).write_text(text)
    assert read_origins(path) == []
    with (path / "metrics.jsonl").open("a") as file:
        file.write(text)
    assert len(read_run(path).records) == len(RecordReader(path / "metrics.jsonl").read())
    assert read_run(path).ending == "killed"
    write_records(path, [])
    at, _ = read_run(path).column("eval/return_mean", "seconds")
    np.testing.assert_array_equal(at, [])


def test_reading_a_pipe_instead_of_a_file_does_not_wait_for_its_writer(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run")
    for name in ("result.json", "origin.jsonl", "metrics.jsonl"):
        (path / name).unlink(missing_ok=True)
        os.mkfifo(path / name)
    run = read_run(path)
    assert (run.result, run.records, read_origins(path), Evaluations(path).read()) == ({}, [], [], [])


def test_evaluations_and_the_newest_record_are_kept_until_a_resumed_run_cuts_them(tmp_path: Path) -> None:
    file, seen = tmp_path / "metrics.jsonl", Evaluations(tmp_path)
    assert seen.read() == []
    points = [(0, 1.0), (4, None), (8, None), (9, 3.0), (12, None)]
    lines = [json.dumps({"envstep": x, "eval/return_mean": value}) + "\n" for x, value in points]
    for count, kept in {2: [0, 4], 3: [0, 8], 5: [0, 9, 12]}.items():
        file.write_text("".join(lines[:count]))
        assert [record["envstep"] for record in seen.read()] == kept
    file.write_text(lines[0])
    assert [record["envstep"] for record in seen.read()] == [0]
