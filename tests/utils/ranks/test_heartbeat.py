"""What one process can see: hangs of its own, and that nothing is left or ended without need."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path

import pytest

from ding_lite.utils.ranks.context import DDPContext
from ding_lite.utils.ranks.launch_environment import record_cause
from tests.distributed.launcher import run_forked


def run(code: str, tmp_path: Path, **env: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "script.py"
    lines = ["import time", "from ding_lite.utils.ranks.context import DDPContext"]
    lines += ["from ding_lite.utils.ranks.heartbeat import heartbeat, waiting", "with DDPContext():"]
    script.write_text("\n".join([*lines, *(f"    {line}" for line in code.splitlines()), "print('end')"]))
    return run_forked([str(script)], env={"DING_LITE_TIMEOUT": "0.5", **env}, status=None)


def test_a_hang_of_the_only_process_ends_it_and_says_where(tmp_path: Path) -> None:
    file = tmp_path / "error.json"
    done = run("heartbeat('collect')\ntime.sleep(50)", tmp_path, TORCHELASTIC_ERROR_FILE=str(file))
    assert done.returncode == 1
    first, *trace = done.stderr.splitlines()
    assert first.startswith("no progress for ")
    assert first.endswith(" s in 'collect' (time-out 0.5 s); ended. It hangs here:")
    assert trace[-1].strip() == "time.sleep(50)"
    assert "in 'collect'" in json.loads(file.read_text())["message"]["message"]


@pytest.mark.parametrize(
    "code",
    [
        "time.sleep(3)",  # never called progress
        "heartbeat('collect')\nwith waiting():\n    time.sleep(3)",
        "heartbeat('collect')\nheartbeat('')\ntime.sleep(3)",
        "for _ in range(30):\n    heartbeat('collect')\n    time.sleep(0.1)",
    ],
    ids=["code of the user's own", "waiting for other ranks", "the run is over", "getting on"],
)
def test_what_is_no_hang(tmp_path: Path, code: str) -> None:
    done = run(code, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_the_thread_ends_with_the_outermost_context() -> None:
    def watching() -> bool:
        return any(thread.name == "watchdog" for thread in threading.enumerate())

    with DDPContext():
        with DDPContext():
            assert [thread.name for thread in threading.enumerate()].count("watchdog") == 1
        assert watching()
    assert not watching()
    with pytest.raises(KeyError), DDPContext():
        raise KeyError("boom")
    assert not watching()


def test_a_cause_that_cannot_be_recorded_is_no_second_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHELASTIC_ERROR_FILE", raising=False)
    record_cause("boom")
    record_cause("boom", str(tmp_path / "no" / "folder" / "file"))


def test_a_process_that_was_suspended_is_not_taken_for_a_hang(tmp_path: Path) -> None:
    # 10 s without progress, 8 s of them stopped, which count as 2 s at most: 4 s, where 8 s are a hang.
    stop = "import os\nos.system(f'(sleep 1; kill -STOP {os.getpid()}; sleep 8; kill -CONT {os.getpid()}) &')"
    done = run(f"{stop}\nheartbeat('collect')\ntime.sleep(10)", tmp_path, DING_LITE_TIMEOUT="6")
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
