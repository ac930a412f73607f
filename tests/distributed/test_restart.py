"""A job that torch's elastic launcher starts again finds its own directory, and no other's."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest

from tests.distributed.launcher import launch

SCRIPT = """
    import json, os, signal, sys
    from ding_lite.utils import DDPContext, all_gather_object, get_rank
    from ding_lite.utils.checkpoint.run_directory import claim_exp_dir, open_exp_dir
    from tests.distributed.launcher import say

    how = sys.argv[1]
    restarted = os.environ["TORCHELASTIC_RESTART_COUNT"] != "0"
    with DDPContext(timeout=30):
        for _ in range(2 if how == "twice" else 1):
            try:
                path, goes_on = open_exp_dir("pong", how.startswith("resume"))
            except SystemExit as end:
                say(f"{get_rank()} {restarted} ended {end.code}")
                raise
            say(f"{get_rank()} {restarted} {path} {goes_on}")
        if not restarted:
            if get_rank() == 0 and how.endswith("interrupted"):
                claim_exp_dir(path)
                with open(f"{path}/result.json", "w") as file:
                    json.dump({"stop_reason": "interrupted", "signal": 15}, file)
            all_gather_object(None)
            if get_rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            all_gather_object(None)
"""


def opened(folder: Path, how: str, nproc: int = 2, status: int = 0) -> list[list[str]]:
    """Run the script, which is killed once; return what rank 0 said, after comparing it with what the others did."""
    (folder / "script.py").write_text(textwrap.dedent(SCRIPT))
    env = {"PET_MAX_RESTARTS": "1", "PET_RDZV_ID": "a-name-that-is-used-again"}
    run = launch([str(folder / "script.py"), how], nproc=nproc, timeout=120, env=env, cwd=folder)
    assert run.returncode == status, run.stderr
    ranks = [[line.split()[1:] for line in run.stdout.splitlines() if line.startswith(f"{n} ")] for n in range(nproc)]
    assert all(lines == ranks[0] for lines in ranks)
    return ranks[0]


def test_a_restart_goes_on_in_its_directories_in_order_and_another_job_makes_others(tmp_path: Path) -> None:
    taken: set[str] = set()
    for _ in range(2):
        before, after = (
            [path for again, path, goes_on in opened_lines if (again, goes_on) == (restarted, restarted)]
            for opened_lines in [opened(tmp_path, "twice")]
            for restarted in ("False", "True")
        )
        assert before == after
        assert len(set(before)) == 2
        assert not taken & set(before)
        taken |= set(before)
    assert {path.name for path in tmp_path.iterdir()} == {*taken, "script.py"}


@pytest.mark.slow
def test_a_restart_does_not_undo_an_interrupt(tmp_path: Path) -> None:
    lines = opened(tmp_path, "interrupted", status=1)
    assert lines == [["False", "pong", "False"], ["True", "ended", "143"]]
    assert os.listdir(tmp_path / "pong").count("job.json") == 1


@pytest.fixture
def interrupted(tmp_path: Path) -> None:
    """Make the directory of a run that was interrupted long ago."""
    folder = tmp_path / "pong"
    folder.mkdir()
    (folder / "result.json").write_text('{"stop_reason": "interrupted", "signal": 15}')
    os.utime(folder / "result.json", (1e9, 1e9))


def test_a_restart_of_a_resumed_run_ignores_how_it_ended_before(tmp_path: Path, interrupted: None) -> None:
    assert opened(tmp_path, "resume") == [["False", "pong", "True"], ["True", "pong", "True"]]


@pytest.mark.slow
def test_a_restart_does_not_undo_an_interrupt_of_a_resumed_run(tmp_path: Path, interrupted: None) -> None:
    assert opened(tmp_path, "resume-interrupted", status=1)[-1] == ["True", "ended", "143"]
