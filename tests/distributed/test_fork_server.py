"""A program that is forked finds what a new process would find, and its end is told as that of a new process."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.distributed.launcher import MARK, PATIENCE, finish, run_forked, run_ranks, start, start_forked

# Everything of a process that a program may depend on, but for its modules and its ids.
TELL = f"""
import multiprocessing.process, os, signal, sys
from multiprocessing.spawn import get_preparation_data
variables = {{name: value for name, value in os.environ.items() if name not in ("{MARK}", "LC_CTYPE")}}
print(sys.orig_argv[1:])
print(__name__, globals().get("__file__"), sys.modules["__main__"].__dict__ is globals(), sys.argv, os.getcwd())
print(list(dict.fromkeys(sys.path)))
print(sorted(variables.items()))
print([signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE)])
print(os.getsid(0) == os.getpgid(0) == os.getpid(), sys.stdin.read(), sys.stdout.isatty(), sys.stdout.line_buffering)
print({{name: value for name, value in get_preparation_data("x").items() if name != "authkey"}})
print("to stderr", file=sys.stderr)
"""

# What starts a Python process, and ends as that does.
STARTER = """
import subprocess, sys
done = subprocess.run([sys.executable, *sys.argv[1:]], stdin=subprocess.DEVNULL, start_new_session=True)
sys.exit(done.returncode % 256)
"""


@pytest.mark.parametrize(
    "words",
    [
        ["-m", "tell", "a", "b c"],
        *(pytest.param(w, marks=pytest.mark.slow) for w in (["other/tell.py", "a"], ["-c", TELL, "a"])),
    ],
    ids=lambda words: words[0],
)
def test_a_forked_program_finds_what_a_new_process_finds(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    for folder in (tmp_path, tmp_path / "other"):
        (folder / "tell.py").write_text(TELL)
    env = {"PYTHONPATH": f"{tmp_path}:/nowhere", "COLUMNS": "33"}
    new = finish(start([sys.executable, *words], env, tmp_path), 60)
    for before in ([], ["-c", STARTER]):
        forked = run_forked([*before, *words], env=env, cwd=tmp_path)
        assert new.returncode == forked.returncode == 0, forked.stderr
        assert forked.stdout.splitlines() == new.stdout.splitlines()
        assert forked.stderr == new.stderr == "to stderr\n"


def test_a_program_that_takes_too_long_is_killed_with_all_that_it_has_started(tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text(
        "import os, subprocess, time\n"
        "other = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "print(os.getpid(), other.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    process = start_forked(["waits.py"], cwd=tmp_path)
    with pytest.raises(subprocess.TimeoutExpired) as caught:
        finish(process, timeout=2 / PATIENCE)
    own, other = map(int, str(caught.value.stdout).split())
    assert own == process.pid
    assert process.returncode == -signal.SIGKILL
    assert not Path(f"/proc/{own}").exists()
    end = time.monotonic() + 60
    while Path(f"/proc/{other}/cmdline").exists() and Path(f"/proc/{other}/cmdline").read_bytes():
        assert time.monotonic() < end


def test_ranks_of_a_file_end_with_the_one_that_fails(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import os, sys, time\n"
        "rank, world = os.environ['RANK'], os.environ['WORLD_SIZE']\n"
        "os.write(1, f'{rank} of {world}: {sys.argv}\\n'.encode())\n"
        "open(rank, 'w').close()\n"
        "while not os.path.exists('0'): time.sleep(0.01)\n"
        "sys.exit('rank 1 fails') if rank == '1' else time.sleep(600)\n"
    )
    done = run_ranks(["script.py", "a"], cwd=tmp_path)
    assert sorted(done.stdout.splitlines()) == [f"{rank} of 2: {['script.py', 'a']}" for rank in range(2)]
    assert done.stderr == "rank 1 fails\n"
    assert done.returncode == -signal.SIGTERM  # of rank 0, which was ended
