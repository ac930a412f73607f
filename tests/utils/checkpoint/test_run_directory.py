"""Every run gets a directory of its own, and all ranks agree on it."""

import itertools
import json
import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import pytest

from ding_lite.utils.checkpoint import run_directory
from ding_lite.utils.checkpoint.run_directory import (
    changed_machines,
    claim_exp_dir,
    open_exp_dir,
    read_result,
    release_exp_dir,
)
from ding_lite.utils.registry import ConfigError, UserError
from tests.distributed.launcher import run_forked
from tests.distributed.on_ranks import call_on_ranks

STAMPED = r"pong_\d{6}_\d{6}(_\d+)?"


def new_dir(name: Path | str) -> str:
    path, goes_on = open_exp_dir(str(name), resume=False)
    assert not goes_on
    return path


def test_a_free_name_is_taken_as_it_is_parents_included(tmp_path: Path) -> None:
    name = str(tmp_path / "runs" / "pong")
    assert open_exp_dir(name, resume=False) == (name, False)
    assert os.path.isdir(name)


def test_a_taken_name_gets_the_time_and_the_old_directory_is_left_alone(tmp_path: Path) -> None:
    old = tmp_path / "pong"
    old.mkdir()
    (old / "result.json").write_text("{}")
    path = Path(new_dir(old))
    assert re.fullmatch(STAMPED, path.name)
    assert os.listdir(path) == ["job.json"]
    assert os.listdir(old) == ["result.json"]
    assert (old / "result.json").read_text() == "{}"


def test_runs_that_start_in_the_same_second_get_different_directories(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(new_dir, [tmp_path / "pong"] * 24))
    assert len(set(paths)) == 24
    assert sorted(map(os.path.basename, paths)) == sorted(os.listdir(tmp_path))
    assert all(re.fullmatch(f"pong|{STAMPED}", os.path.basename(path)) for path in paths)


def test_a_directory_that_cannot_be_made_is_a_config_error_with_the_cause(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name, cause in ((str(tmp_path / "file" / "pong"), "'.*' is not a directory"), ("", "No such file")):
        with pytest.raises(ConfigError, match=f"{re.escape(name)}': ({cause}).*change exp_name"):
            open_exp_dir(name, resume=False)


def test_resuming_takes_the_directory_itself_which_must_be_there(tmp_path: Path) -> None:
    name = str(tmp_path / "pong")
    with pytest.raises(ConfigError, match=f"Cannot resume '{name}': there is no such directory"):
        open_exp_dir(name, resume=True)
    assert not os.path.exists(name)
    new_dir(name)
    release_exp_dir(name)
    assert open_exp_dir(name, resume=True) == (name, True)
    assert os.listdir(tmp_path) == ["pong"]


def test_a_directory_whose_run_is_still_going_is_not_resumed(tmp_path: Path) -> None:
    name = new_dir(tmp_path / "pong")
    job = (tmp_path / "pong" / "job.json").read_text()
    resume = f"from ding_lite.utils import open_exp_dir; print(open_exp_dir({name!r}, resume=True))"
    command = ["-c", resume]
    told = run_forked(command, status=None)
    assert f"Cannot resume '{name}': its run is still active" in told.stderr
    assert (tmp_path / "pong" / "job.json").read_text() == job
    release_exp_dir(name)
    told = run_forked(command, status=None)
    assert told.stdout == f"('{name}', True)\n"


def test_a_process_that_a_run_has_forked_does_not_keep_the_next_one_from_resuming(tmp_path: Path) -> None:
    name = new_dir(tmp_path / "pong")
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        os.read(reader, 1)
        os._exit(0)
    try:
        release_exp_dir(name)
        assert open_exp_dir(name, resume=True) == (name, True)
    finally:
        os.write(writer, b"x")
        os.waitpid(pid, 0)
        release_exp_dir(name)
        os.close(reader)
        os.close(writer)


def test_the_result_is_that_of_the_run_which_opened_the_directory_last(tmp_path: Path) -> None:
    folder, result = tmp_path / "pong", tmp_path / "pong" / "result.json"
    new_dir(folder)
    assert read_result(str(folder)) == {}
    result.write_text('{"stop_reason": "interrupted"}')
    assert read_result(str(folder)) == {"stop_reason": "interrupted"}
    release_exp_dir(str(folder))
    assert open_exp_dir(str(folder), resume=True) == (str(folder), True)
    assert read_result(str(folder)) == {"stop_reason": "interrupted"}, "the run could not be resumed"
    release_exp_dir(str(folder))
    open_exp_dir(str(folder), resume=True)
    claim_exp_dir(str(folder))
    assert read_result(str(folder)) == {}
    for damaged in ('{"stop_rea', "null"):
        result.write_text(damaged)
        assert read_result(str(folder)) == {}


@pytest.mark.parametrize(
    "content", ['{"run": 0}', '{"run": 0, "agents": 5}', '{"run": 0, "agents": [["x"]]}', "[0]", "\0"]
)
def test_a_job_json_of_another_program_is_no_earlier_attempt(tmp_path: Path, content: str) -> None:
    (tmp_path / "pong_other").mkdir()
    (tmp_path / "pong_other" / "job.json").write_text(content)
    code = f"from ding_lite.utils import open_exp_dir; print(open_exp_dir({str(tmp_path / 'pong')!r}, resume=False))"
    for agent in ({}, {"TORCHELASTIC_RUN_ID": "x", "TORCHELASTIC_ERROR_FILE": f"{tmp_path}/attempt_0/0/error.json"}):
        told = run_forked(["-c", code], env=agent, status=None)
        assert "False)" in told.stdout, told.stderr
    assert (tmp_path / "pong_other" / "job.json").read_text() == content


def test_without_an_elastic_launcher_a_directory_is_never_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TORCHELASTIC_ERROR_FILE alone may be set by a platform, for all its jobs."""
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "attempt_0" / "0" / "error.json"))
    for _ in range(2):
        monkeypatch.setattr(run_directory, "_opened", itertools.count())  # as in two processes
        new_dir(tmp_path / "pong")


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return a function after which the next directory is opened as by a launcher that has so often restarted."""
    (tmp_path / "agent").mkdir()
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "job")

    def restart(count: int) -> None:
        monkeypatch.setattr(run_directory, "_opened", itertools.count())  # as in a new process
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", str(count))
        monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "agent" / f"attempt_{count}" / "0" / "error.json"))

    return restart


@pytest.mark.parametrize(
    ("restarts", "others", "goes_on"),
    [
        pytest.param(1, [], False, id="a signal straight to a rank, which is a failure to its launcher"),
        pytest.param(0, [], True, id="a machine wanted to join, and is gone already"),
        pytest.param(1, ["left"], True, id="a machine was stopped"),
    ],
)
def test_an_interrupted_job_goes_on_only_if_launchers_have_ended_its_ranks(
    tmp_path: Path, agent: Callable[[int], None], restarts: int, others: list[str], goes_on: bool
) -> None:
    agent(0)
    path = Path(new_dir(tmp_path / "pong"))
    job = json.loads((path / "job.json").read_text())
    job["agents"] |= {name: {"host": name, "restarts": 0, "ranks": [1]} for name in others}
    (path / "job.json").write_text(json.dumps(job))
    (path / "result.json").write_text('{"stop_reason": "interrupted", "signal": 15}')
    release_exp_dir(str(path))
    agent(restarts)
    with nullcontext() if goes_on else pytest.raises(SystemExit, match="143"):
        assert open_exp_dir(str(path), resume=False) == (str(path), True)
        line = "left left (rank 1): the run goes on with 1 rank(s) of 1 machine(s), before 2 rank(s) of 2 machine(s)."
        assert changed_machines(str(path)) == (line if others else "")


def test_a_job_does_not_begin_anew_where_its_directory_is_not_seen(
    tmp_path: Path, agent: Callable[[int], None]
) -> None:
    agent(0)
    path = new_dir(tmp_path / "pong")
    os.unlink(os.path.join(path, "job.json"))  # only another machine has it; this one has its parts of checkpoints
    agent(1)
    with pytest.raises(UserError, match=f"goes on in '{path}', but .* set exp_name to a path in a directory that all"):
        open_exp_dir(path, resume=False)


def open_on_rank(exp_name: str, resume: bool) -> str:
    try:
        return open_exp_dir(exp_name, resume)[0]
    except ConfigError as error:
        return f"ConfigError: {error}"


@pytest.mark.parametrize("resume", [False, True])
def test_two_ranks_fail_together(tmp_path: Path, resume: bool) -> None:
    (tmp_path / "file").write_text("")
    first, second = call_on_ranks(open_on_rank, str(tmp_path / "file" / "pong"), resume)
    assert first == second
    assert first.startswith("ConfigError: Cannot " + ("resume" if resume else "make the experiment directory"))
