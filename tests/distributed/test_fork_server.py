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
FAIL = """
import os, signal, sys
def fail(how):
    if how == "raises":
        raise ValueError("boom")
    if how == "exits":
        sys.exit(3)
    if how == "says":
        sys.exit("too bad")
    os.kill(os.getpid(), signal.SIGINT if how == "interrupted" else signal.SIGKILL)
print("before", flush=True)
fail(sys.argv[1])
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


@pytest.mark.parametrize(
    "how",
    ["raises", "killed", *(pytest.param(how, marks=pytest.mark.slow) for how in ("exits", "says", "interrupted"))],
)
def test_a_program_that_fails_is_told_as_one_of_a_new_process(how: str, tmp_path: Path) -> None:
    (tmp_path / "fails.py").write_text(FAIL)
    new = finish(start([sys.executable, "fails.py", how], cwd=tmp_path), 60)
    for before, status in (([], new.returncode), (["-c", STARTER], new.returncode % 256)):
        forked = run_forked([*before, "fails.py", how], cwd=tmp_path)
        assert forked.returncode == status != 0
        assert forked.stdout == new.stdout == "before\n"
        assert forked.stderr.splitlines()[-1:] == new.stderr.splitlines()[-1:]
        assert forked.stderr.count("Traceback") == new.stderr.count("Traceback")


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


def test_programs_run_side_by_side_and_take_signals(tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text(
        "import os, sys, time\n"
        "open(sys.argv[1], 'w').close()\n"
        "while not os.path.exists(sys.argv[2]): time.sleep(0.01)\n"
    )
    first, second = (start_forked(["waits.py", *names], cwd=tmp_path) for names in (["a", "b"], ["b", "a"]))
    assert [finish(process, 60).returncode for process in (first, second)] == [0, 0]  # each waits for the other
    third = start_forked(["waits.py", "c", "d"], cwd=tmp_path)
    while not (tmp_path / "c").exists():
        assert third.poll() is None
    third.send_signal(signal.SIGTERM)
    assert finish(third, 60).returncode == third.poll() == -signal.SIGTERM


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


def test_random_numbers_differ_from_program_to_program(tmp_path: Path) -> None:
    (tmp_path / "draws.py").write_text("import random, numpy as np\nprint(random.random(), np.random.rand())\n")
    first, second = (run_forked(["draws.py"], cwd=tmp_path).stdout.split() for _ in range(2))
    assert not set(first) & set(second)
