"""Every run gets a directory of its own, and all ranks agree on it."""

import os
import re
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ding_lite.utils.experiment import create_exp_dir
from ding_lite.utils.registry import ConfigError
from tests.distributed.launcher import launch

STAMPED = r"pong_\d{6}_\d{6}(_\d+)?"


def test_a_free_name_is_taken_as_it_is_parents_included(tmp_path: Path) -> None:
    name = str(tmp_path / "runs" / "pong")
    assert create_exp_dir(name) == name
    assert os.path.isdir(name)


def test_a_taken_name_gets_the_time_and_the_old_directory_is_left_alone(tmp_path: Path) -> None:
    old = tmp_path / "pong"
    old.mkdir()
    (old / "result.json").write_text("{}")
    path = Path(create_exp_dir(str(old)))
    assert re.fullmatch(STAMPED, path.name)
    assert path.is_dir()
    assert not list(path.iterdir())
    assert (old / "result.json").read_text() == "{}"


def test_runs_that_start_in_the_same_second_get_different_directories(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(create_exp_dir, [str(tmp_path / "pong")] * 24))
    assert len(set(paths)) == 24
    assert sorted(map(os.path.basename, paths)) == sorted(os.listdir(tmp_path))
    assert all(re.fullmatch(f"pong|{STAMPED}", os.path.basename(path)) for path in paths)


def test_a_relative_name_and_a_trailing_slash_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    create_exp_dir("pong/")
    assert re.fullmatch(STAMPED, create_exp_dir("pong/"))


def test_a_directory_that_cannot_be_made_is_a_config_error_with_the_cause(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name, cause in ((str(tmp_path / "file" / "pong"), "Not a directory|File exists"), ("", "No such file")):
        with pytest.raises(ConfigError, match=f"{re.escape(name)}': ({cause}).*change exp_name"):
            create_exp_dir(name)


SCRIPT = """
    import sys
    from ding_lite.utils.launch import DDPContext, get_rank
    from ding_lite.utils.experiment import create_exp_dir
    from ding_lite.utils.registry import ConfigError
    with DDPContext(timeout=30):
        try:
            answer = create_exp_dir(sys.argv[1])
        except ConfigError as error:
            answer = f"ConfigError: {error}"
        with open(f"{sys.argv[2]}/rank_{get_rank()}", "w") as file:
            file.write(answer)
"""


def answers_of_two_ranks(exp_name: Path, tmp_path: Path) -> list[str]:
    (tmp_path / "script.py").write_text(textwrap.dedent(SCRIPT))
    run = launch([str(tmp_path / "script.py"), str(exp_name), str(tmp_path)], nproc=2, timeout=90)
    assert run.returncode == 0, run.stderr
    return [(tmp_path / f"rank_{rank}").read_text() for rank in range(2)]


def test_two_ranks_agree_when_the_name_is_taken(tmp_path: Path) -> None:
    (tmp_path / "runs" / "pong").mkdir(parents=True)
    first, second = answers_of_two_ranks(tmp_path / "runs" / "pong", tmp_path)
    assert first == second
    assert sorted(os.listdir(tmp_path / "runs")) == ["pong", os.path.basename(first)]


def test_two_ranks_fail_together(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    first, second = answers_of_two_ranks(tmp_path / "file" / "pong", tmp_path)
    assert first == second
    assert first.startswith("ConfigError: Cannot make the experiment directory")
