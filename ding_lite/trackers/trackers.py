"""Also records a run in a service: callbacks that send the lines of metrics.jsonl to Weights & Biases or MLflow.

Both send in the background. An error is reported once, and the run goes on without the service; what the service has
printed is in `log/tracker.txt`. `tracker.json` holds its name of the run, and how many lines it has received. A resumed
run continues there; the lines after the checkpoint, which are recorded again, are not sent again.
"""

from __future__ import annotations

import fcntl
import importlib
import importlib.util
import json
import logging
import os
import random
import re
import shlex
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import Any

from ding_lite.run.callbacks import Callback, WatchedRun
from ding_lite.run.reporter import RunReporter
from ding_lite.utils.directory_lock import RecordReader
from ding_lite.utils.logger import COUNTS
from ding_lite.utils.passwords import fill_in, hide_passwords
from ding_lite.utils.registry import TRACKER_REGISTRY, ConfigError
from ding_lite.utils.tree import dotted_items

SEED = re.compile(r"_seed-?\d+(_\d{6}_\d{6}(_\d+)?)?$")  # ends the names of runs that differ in their seed


class Tracker(Callback):
    """Base class of trackers. Their methods run on rank 0 and may raise any error.

    To add a service, override `start`, `log` and `finish`, and register the class under a name.

    Attributes:
        package: the module of the service, and the extra that installs it; empty: it needs none.
        id: the service's name of the run, which `start` sets; before it, empty unless the run continues.
        name, group: `tracker.name`, or that of the directory; `tracker.group`, or the name without the seed.
        options: `tracker.options`, with environment variables in the places of `${NAME}`.
    """

    package = ""

    def __init__(self, reporter: RunReporter) -> None:
        self.reporter, self.exp_dir, self.axis = reporter, Path(reporter.exp_dir).absolute(), reporter.axis
        self.config = {key: value for key, value in reporter.cfg.items() if key != "notes"}
        self.keys: Mapping[str, Any] = self.config["tracker"]
        self.name: str = self.keys["name"] or self.exp_dir.name
        self.group: str = self.keys["group"] or SEED.sub("", self.exp_dir.name)
        self.options: dict[str, Any] = fill_in(self.keys["options"])
        self.id, self._sent = "", -1  # lines that the service has; -1: `start` has not been called
        self._state, self._log = self.exp_dir / "tracker.json", self.exp_dir / "log" / "tracker.txt"
        self._records, self._active = RecordReader(self.exp_dir / "metrics.jsonl"), True

    @classmethod
    def check_installed(cls) -> None:
        """Raise `ConfigError` if the service's package is not installed, without importing it."""
        spec, name = importlib.util.find_spec(cls.package or __name__), cls.package
        if spec is None or spec.origin is None:  # a spec without an origin is just a folder of this name
            raise ConfigError(f"tracker.type='{name}' needs the extra '{name}': pip install 'ding_lite[{name}]'.")

    def start(self) -> str:
        """Start or continue the service's run; return where to look at it, in a line or two."""
        raise NotImplementedError

    def log(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Record lines of metrics.jsonl. Training waits for this method."""

    def finish(self, result: Mapping[str, Any]) -> None:
        """End the service's run; `result` is the content of result.json, empty if an error ended the run."""

    def figures(self, record: Mapping[str, Any]) -> dict[str, float]:
        """Return the figures of a line of metrics.jsonl, without those that are null."""
        return {key: value for key, value in record.items() if key not in COUNTS and value is not None}

    def on_start(self, run: WatchedRun) -> None:
        self._attempt(self._send)

    def after_log(self, run: WatchedRun, figures: Mapping[str, float]) -> None:
        self._attempt(self._send)

    def on_end(self, run: WatchedRun) -> None:
        self._attempt(lambda: self.finish(json.loads((self.exp_dir / "result.json").read_bytes())))
        self._active = False

    def close(self) -> None:
        """End the service's run if an error has ended the run."""
        if self._sent >= 0:
            self._attempt(lambda: self.finish({}))

    def _send(self) -> str | None:
        """Send the new lines; return where to look at the service's run if this call has started it."""
        where, kind, known = None, self.keys["type"], dict[str, Any]()
        if self._sent < 0:
            with suppress(OSError, ValueError):
                known = json.loads(self._state.read_bytes())
            self.id, sent = (known["id"], known["lines"]) if known.get("type") == kind else ("", 0)
            where, self._sent = self.start(), sent
        if new := self._records.read(self._sent):
            self.log(new)
        self._sent = max(self._sent, self._records.count)
        whole = self._state.with_name(f"{self._state.name}.tmp")
        whole.write_text(json.dumps({"type": kind, "id": self.id, "lines": self._sent}) + "\n")
        whole.replace(self._state)
        return where

    def _attempt(self, call: Callable[[], str | None]) -> None:
        """Call the service, unless it has failed or ended, and print the message that this returns."""
        if not self._active:
            return
        drawn = random.getstate()  # a service draws numbers for names and pauses, and an environment may do so too
        said = StringIO()
        try:
            with redirect_stdout(said), redirect_stderr(said):
                message = call()
            if message:
                self.reporter.info(message)
        except Exception as error:  # a service may raise anything
            self._active = False
            said.write(traceback.format_exc())
            failure = f"tracker '{self.keys['type']}' has failed and is off; the run does not depend on it.\n  "
            cause = hide_passwords(" ".join(f"{type(error).__name__}: {error}".split()))
            self.reporter.warning(f"{failure}{cause}\n  See {os.path.relpath(self._log)}.")
        finally:
            with suppress(OSError), open(self._log, "a") as log:
                log.write(hide_passwords(said.getvalue()))
            random.setstate(drawn)


@TRACKER_REGISTRY.register("wandb")
class WandbTracker(Tracker):
    """Weights & Biases. `options` are arguments of `wandb.init`. Its files are below the experiment directory."""

    package = "wandb"

    def start(self) -> str:
        wandb, patience = importlib.import_module("wandb"), self.keys["patience"]
        limits = {"init_timeout": patience, "finish_timeout": patience, "finish_timeout_raises": True}
        settings = {"silent": True, "console": "off", **limits, **self.options.pop("settings", {})}
        own = {"project": self.keys["project"], "name": self.name, "group": self.group, "tags": self.keys["tags"]}
        own |= {"dir": str(self.exp_dir), "config": self.config, "id": self.id or None}
        own |= {"resume": "allow", "reinit": "create_new"}
        self._run = wandb.init(**{**own, **self.options}, settings=wandb.Settings(**settings))
        self.id = self._run.id
        if not self._run.offline:
            return f"tracker: {self._run.url}"
        folder = shlex.quote(os.path.relpath(os.path.dirname(self._run.dir)))
        return f"tracker: W&B, offline; to upload it: wandb sync \\\n  {folder}"

    def log(self, records: Sequence[Mapping[str, Any]]) -> None:
        for record in records:
            self._run.log(self.figures(record), step=record[self.axis])

    def finish(self, result: Mapping[str, Any]) -> None:
        self._run.summary.update({f"result/{key}": value for key, value in result.items()})
        self._run.finish(exit_code=128 + result["signal"] if result.get("signal") else int(not result))


@TRACKER_REGISTRY.register("mlflow")
class MlflowTracker(Tracker):
    """MLflow. `options` are arguments of `mlflow.start_run`, and `tracking_uri`; by default a file of the directory."""

    package = "mlflow"

    def start(self) -> str:
        self._mlflow = mlflow = importlib.import_module("mlflow")
        for name in ("mlflow", "urllib3.connectionpool"):  # `finish` reports failures, not each request
            logging.getLogger(name).setLevel(logging.CRITICAL)
        own = f"sqlite:///{self.exp_dir}/mlflow.db"
        uri = self.options.pop("tracking_uri", "") or os.environ.get("MLFLOW_TRACKING_URI") or own
        mlflow.set_tracking_uri(uri)
        with ExitStack() as stack:
            if uri != own and uri.startswith("sqlite:///"):  # two processes cannot create a database at once
                folder = os.open(os.path.dirname(uri.removeprefix("sqlite:///")) or ".", os.O_RDONLY)
                stack.callback(os.close, folder)
                fcntl.flock(folder, fcntl.LOCK_EX)
            mlflow.set_experiment(self.keys["project"])
        tags = {"group": self.group, **dict.fromkeys(self.keys["tags"], "")}
        new = {} if self.id else {"run_name": self.name, "tags": tags}
        run = mlflow.start_run(**{"run_id": self.id or None, **new, **self.options})
        self._client, self._requests = mlflow.MlflowClient(), list[Any]()
        if not self.id:  # a parameter cannot be changed
            self.id = run.info.run_id
            values = {key: str(value)[:500] for key, value in dotted_items(self.config)}  # some stores take no more
            self._client.log_batch(self.id, params=[mlflow.entities.Param(*item) for item in values.items()])
        return f"tracker: MLflow run {self.id}\n  at {hide_passwords(uri)}"

    def log(self, records: Sequence[Mapping[str, Any]]) -> None:
        for record in records:
            when = {"timestamp": int(1000 * record["time"]), "step": record[self.axis]}
            metrics = [self._mlflow.entities.Metric(*item, **when) for item in self.figures(record).items()]
            request = self._client.log_batch(self.id, metrics=metrics, synchronous=False)
            self._requests = [*self._requests[-99:], request]

    def finish(self, result: Mapping[str, Any]) -> None:
        for request in self._requests:
            request.wait()
        for key, value in result.items():
            self._client.set_tag(self.id, f"result.{key}", value)
        self._mlflow.end_run("KILLED" if result.get("signal") else "FINISHED" if result else "FAILED")
