"""The process that sends a run's records to a tracker: it follows metrics.jsonl of the experiment directory.

`process.py` starts it. Its standard input is a line of JSON, the `Job`, and ends when the run does. Its standard output
holds messages for the user, one line of JSON each. What the service prints goes to standard error.

exp_dir/tracker.json    the service's name of the run, and how many lines of metrics.jsonl it has received

A resumed run continues the same run of the service. The lines after the checkpoint are recorded again with the same
figures, so those that the tracker has are not sent again.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ding_lite.utils.passwords import hide_passwords
from ding_lite.utils.records import RecordReader
from ding_lite.utils.registry import TRACKER_REGISTRY
from ding_lite.utils.tracker.services import Job, Tracker

PERIOD = 1.0  # seconds between two reads of the records
HURRY = 15.0  # the most seconds after a signal or an error, whatever `tracker.patience` is
LATE = 3  # exit status if the service was not ready in time


def main() -> None:
    """Follow the run that standard input describes."""
    job = Job(**json.loads(sys.stdin.readline()))
    messages = os.dup(1)
    os.dup2(2, 1)

    def say(kind: str, text: str) -> None:
        with suppress(OSError):  # the run was killed
            os.write(messages, json.dumps({"kind": kind, "text": text}).encode() + b"\n")

    ended = threading.Event()
    threading.Thread(target=_watch, args=(job, ended), daemon=True).start()
    try:
        importlib.import_module(job.module)
        follow(job, ended, lambda text: say("info", text))
    except Exception as error:  # whatever a service raises: training must not notice it
        sys.stderr.write(hide_passwords(traceback.format_exc()))
        sys.stderr.flush()
        say("error", hide_passwords(" ".join(f"{type(error).__name__}: {error}".split())))
        os._exit(1)  # the service's own exit functions might wait for a network


def _watch(job: Job, ended: threading.Event) -> None:
    """Wait for the end of standard input, which is the end of the run, and limit the time after it."""
    while os.read(0, 1):
        pass
    ended.set()
    hurried = _read_result(job).get("stop_reason", "interrupted") == "interrupted"
    time.sleep(min(job.patience, HURRY) if hurried else job.patience)
    os._exit(LATE)


def follow(job: Job, ended: threading.Event, say: Callable[[str], None]) -> None:
    """Send a tracker each record of a run until the run has ended, and then its result.

    Args:
        job: the run.
        ended: is set when the run has ended.
        say: takes messages for the user.
    """
    with open(Path(job.exp_dir, "log", "tracker.txt"), "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the process of a run that was killed and continues may not have ended yet
        known = read_state(job)
        tracker: Tracker = TRACKER_REGISTRY.find(job.type)(job, known["id"])
        say(tracker.start())
        told = known["lines"]
        write_state(job, tracker.id, told)
        records = RecordReader(Path(job.exp_dir, "metrics.jsonl"))
        last = False
        while not last:
            last = ended.wait(PERIOD)  # what was recorded before the end is read after it
            new = records.read(told)
            if records.count > told:
                tracker.log(new)
                told = records.count
                write_state(job, tracker.id, told)
        tracker.finish(_read_result(job))


def read_state(job: Job) -> dict[str, Any]:
    """Return `id` and `lines` of the run that `job` continues; an empty string and 0 if it is new to this tracker."""
    state = _read_json(_state_file(job))
    return state if state.get("type") == job.type else {"id": "", "lines": 0}


def write_state(job: Job, id: str, lines: int) -> None:
    """Record what `read_state` returns if the run continues, by renaming a whole file."""
    path = _state_file(job)
    new = path.with_name(f"{path.name}.tmp")
    new.write_text(json.dumps({"type": job.type, "id": id, "lines": lines}) + "\n")
    new.replace(path)


def _state_file(job: Job) -> Path:
    return Path(job.exp_dir, "tracker.json")


def _read_result(job: Job) -> dict[str, Any]:
    return _read_json(Path(job.exp_dir, "result.json"))


def _read_json(path: Path) -> dict[str, Any]:
    """Return the content of a JSON file; empty if there is none."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
