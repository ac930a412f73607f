"""What each start of a run was made by: the file origin.jsonl in its directory."""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import socket
import subprocess
import sys
import time
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from ding_lite.utils.directory_lock import RecordReader
from ding_lite.utils.passwords import hide_passwords

ORIGIN = "origin.jsonl"
LIBRARIES = ("ding_lite", "torch", "numpy", "gymnasium", "ale-py")
GIT = ("git", "-c", "core.fsmonitor=false", "status", "--porcelain=v2", "--branch", "--untracked-files=no")
GIT_TIMEOUT = 5.0  # seconds


def record_origin(directory: str | Path, **more: Any) -> None:
    """Append this start of a run to the origin.jsonl of its directory; a run is not ended if that fails."""
    with suppress(OSError), (Path(directory) / ORIGIN).open("a", encoding="utf-8") as file:
        file.write(json.dumps(describe_origin() | more) + "\n")


def read_origins(directory: str | Path) -> list[dict[str, Any]]:
    """Return the starts of a run, the first one first; none if it was recorded by an older version."""
    return RecordReader(Path(directory) / ORIGIN).read()


def describe_origin() -> dict[str, Any]:
    """Return facts about this process that a reader of its results may want to know."""
    env, commit, changed = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}, None, None
    with suppress(OSError, subprocess.SubprocessError):  # without git
        done = subprocess.run(GIT, env=env, capture_output=True, text=True, timeout=GIT_TIMEOUT, check=True)
        if found := re.search(r"^# branch.oid (\w+)", done.stdout, re.MULTILINE):
            commit = found[1]
        changed = sum(not line.startswith("#") for line in done.stdout.splitlines())
    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "command": hide_passwords(shlex.join(sys.orig_argv)),
        "directory": os.getcwd(),
        "git_commit": commit,
        "git_changed_files": changed,
        "host": socket.gethostname(),
        "system": platform.platform(),
        "processor": _read_processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **library_versions(),
    }


def library_versions() -> dict[str, str]:
    """Return the versions of the installed libraries that results depend on, by their names."""
    return {name: version for name in LIBRARIES if (version := _version(name))}


def _read_processor() -> str:
    with suppress(OSError):
        if found := re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE):
            return found[1]
    return platform.processor() or platform.machine()


def _version(name: str) -> str | None:
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(name)
    return getattr(sys.modules.get(name), "__version__", None)  # a checkout that is not installed
