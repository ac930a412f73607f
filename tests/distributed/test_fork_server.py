"""A program that is forked finds what a new process would find, and its end is told as that of a new process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.distributed.launcher import MARK, finish, run_forked, start

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
        forked = run_forked([*before, *words], env=env, cwd=tmp_path, status=None)
        assert new.returncode == forked.returncode == 0, forked.stderr
        assert forked.stdout.splitlines() == new.stdout.splitlines()
        assert forked.stderr == new.stderr == "to stderr\n"
