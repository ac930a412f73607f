"""A job that torch's elastic launcher starts again finds its own directory, and no other's."""

from __future__ import annotations

import os
import re
import textwrap
from pathlib import Path

import pytest

from tests.distributed.launcher import launch

SCRIPT = """
    import os, signal, sys
    from ding_lite.utils import DDPContext, all_gather_object, get_rank
    from ding_lite.utils.checkpoint.run_directory import open_exp_dir
    from tests.distributed.launcher import say

    how = sys.argv[1]
    restarted = os.environ["TORCHELASTIC_RESTART_COUNT"] != "0"
    with DDPContext(timeout=30):
        for _ in range(2 if how == "twice" else 1):
            path, goes_on = open_exp_dir("pong", how == "resume")
            say(f"{get_rank()} {restarted} {path} {goes_on}")
        if not restarted:
            all_gather_object(None)
            if get_rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            all_gather_object(None)
"""


def opened(folder: Path, how: str, nproc: int = 2) -> list[list[str]]:
    """Run the script, which is killed once; return what rank 0 said, after comparing it with what the others did."""
    (folder / "script.py").write_text(textwrap.dedent(SCRIPT))
    env = {"PET_MAX_RESTARTS": "1", "PET_RDZV_ID": "a-name-that-is-used-again"}
    run = launch([str(folder / "script.py"), how], nproc=nproc, timeout=120, env=env, cwd=folder)
    assert run.returncode == 0, run.stderr
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


def test_a_restart_of_a_resumed_run_ignores_how_it_ended_before(tmp_path: Path) -> None:
    folder = tmp_path / "pong"
    folder.mkdir()
    (folder / "result.json").write_text('{"stop_reason": "interrupted", "signal": 15}')
    os.utime(folder / "result.json", (1e9, 1e9))  # long ago
    assert opened(tmp_path, "resume") == [["False", "pong", "True"], ["True", "pong", "True"]]


MISTAKE = """
    import os, sys
    from ding_lite.utils import DDPContext, all_gather_object, get_rank
    from ding_lite.utils.registry import UserError

    with DDPContext(timeout=30):
        if get_rank() == 1 or sys.argv[1] == "all":
            raise UserError(f"a mistake in attempt {os.environ['TORCHELASTIC_RESTART_COUNT']}")
        all_gather_object(None)
"""


@pytest.mark.parametrize(("who", "nproc"), [("all", 2), ("one", 2), ("all", 1)])
def test_a_mistake_of_the_user_is_not_restarted_by_torchs_launcher(tmp_path: Path, who: str, nproc: int) -> None:
    (tmp_path / "script.py").write_text(textwrap.dedent(MISTAKE))
    run = launch([str(tmp_path / "script.py"), who], nproc=nproc, timeout=120, env={"PET_MAX_RESTARTS": "3"})
    assert run.returncode == 1
    assert re.findall(r"(?m)^(?:\[rank \d\] )?a mistake in attempt (\d)$", run.stderr) == ["0"], run.stderr
