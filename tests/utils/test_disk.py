"""A disk that takes no file is one line, whichever file comes first: on real file systems, in a namespace."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ding_lite.utils.disk import check_temporary_directory
from ding_lite.utils.registry import UserError
from tests.distributed.launcher import finish, start

ENCLOSE = ["unshare", "--user", "--map-root-user", "--mount"]
FILES = 12  # inodes that a short run needs at most
SCRIPT = f"""
import os, subprocess, sys, tempfile
from tests.run.helpers import run

def attempt(folder):
    try:
        run(f"exp_name={{folder}}/run", max_env_step=40)
        print("finished")
    except BaseException as error:
        print(f"{{type(error).__name__}}: {{error}}")

folder = sys.argv[1]
for free in range({FILES}):
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"nr_inodes={{free + 1}}", "tmpfs", folder], check=True)
    attempt(folder)
    subprocess.run(["umount", "--lazy", folder], check=True)
tempfile.tempdir, os.environ["TMPDIR"] = None, folder
for path in (folder, "/tmp", "/var/tmp"):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", path], check=True)
os.chdir("/proc")
attempt(folder)
"""


def test_a_disk_without_inodes_or_temporary_files_ends_a_run_in_one_line(
    tmp_path: Path,
) -> None:
    if subprocess.run([*ENCLOSE, "true"], capture_output=True).returncode:
        pytest.skip("there are no user namespaces here")
    done = finish(start([*ENCLOSE, sys.executable, "-c", SCRIPT, str(tmp_path)]), 300)
    *lines, last = done.stdout.splitlines()
    assert len(lines) == FILES, done.stdout + done.stderr
    started = next(number for number, line in enumerate(lines) if not line.startswith("ConfigError"))
    assert started >= 7  # the directory, its lock's mark job.json, log/, log/serial/ and four files of the logger
    reason = rf"No free inodes, see df -i( \('{tmp_path}/.*'\); make room, or|;) change exp_name\."
    for line in lines[:started]:
        assert re.fullmatch(rf"ConfigError: Cannot (make|write into) .*'{tmp_path}/run': {reason}", line)
    assert re.fullmatch("UserError: Cannot write temporary files: No usable temporary directory .* Set TMPDIR .*", last)
    assert "training continues unrecorded" in done.stderr or "finished" in lines[started:]


def test_a_temporary_directory_that_is_gone_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_temporary_directory()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(UserError, match=r"Cannot write temporary files: No such file.*\. Set TMPDIR"):
        check_temporary_directory()
