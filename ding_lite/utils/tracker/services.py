"""The services that a run can be recorded in. Each is a class, which `tracker.type` names.

Their packages are imported by the process that `follower.py` describes, never by a process that trains.
"""

from __future__ import annotations

import fcntl
import importlib
import importlib.util
import os
import re
import shlex
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from ding_lite.utils.passwords import fill_in, hide_passwords
from ding_lite.utils.registry import TRACKER_REGISTRY, ConfigError
from ding_lite.utils.tree import dotted_items

SEED = re.compile(r"_seed-?\d+(_\d{6}_\d{6}(_\d+)?)?$")  # ends the names of runs that differ in their seed
Records = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Job:
    """The run to follow, as JSON can hold it.

    Attributes:
        type: name of the tracker.
        module: module that registers the tracker.
        exp_dir: the experiment directory.
        config: the compiled config.
        axis: the count that is the step of a figure, 'envstep' or 'train_iter'.
        counts: keys of a record that are not figures.
        pid: process of rank 0, whose use of the machine may be measured.
    """

    type: str
    module: str
    exp_dir: str
    config: dict[str, Any]
    axis: str
    counts: list[str]
    pid: int

    @property
    def name(self) -> str:
        """Name of the run: `tracker.name`, or that of its directory."""
        return self.config["tracker"]["name"] or os.path.basename(os.path.abspath(self.exp_dir))

    @property
    def patience(self) -> float:
        """Seconds that the service has for the last figures after the end of the run."""
        return self.config["tracker"]["patience"]

    @property
    def group(self) -> str:
        """Group of the runs that differ in their seed: `tracker.group`, or the directory's name without the seed."""
        return self.config["tracker"]["group"] or SEED.sub("", os.path.basename(os.path.abspath(self.exp_dir)))

    def figures(self, record: Mapping[str, Any]) -> dict[str, float]:
        """Return the figures of a line of metrics.jsonl, without those that are null."""
        return {key: value for key, value in record.items() if key not in self.counts and value is not None}


class Tracker:
    """Base class of trackers. The methods may raise any error, which ends the tracking, and may block.

    To add a service, override `start`, `log` and `finish`, and register the class under a name.

    Args:
        job: the run to follow.
        id: the service's name of the run, if the run continues; else empty.

    Attributes:
        package: the module of the service, and the extra that installs it.
        id: the service's name of the run, known after `start`.
        options: `tracker.options`, with environment variables in the places of `${NAME}`.
    """

    package = ""

    def __init__(self, job: Job, id: str) -> None:
        self.job, self.id = job, id
        self.options: dict[str, Any] = fill_in(job.config["tracker"]["options"])

    @classmethod
    def check_installed(cls) -> None:
        """Check that the service's package is installed, without importing it.

        Raises:
            ConfigError: it is not; the message names the extra.
        """
        spec = importlib.util.find_spec(cls.package) if cls.package else None
        if cls.package and (spec is None or spec.origin is None):  # without an origin it is just a folder of this name
            raise ConfigError(
                f"tracker.type='{cls.package}' needs the extra '{cls.package}': pip install 'ding_lite[{cls.package}]'."
            )

    def start(self) -> str:
        """Start or continue the service's run; return where to look at it, in a line or two."""
        raise NotImplementedError

    def log(self, records: Records) -> None:
        """Record lines of metrics.jsonl."""
        raise NotImplementedError

    def finish(self, result: Mapping[str, Any]) -> None:
        """End the service's run.

        Args:
            result: content of result.json; empty if the run left none because of an error.
        """
        raise NotImplementedError


@TRACKER_REGISTRY.register("wandb")
class WandbTracker(Tracker):
    """Weights & Biases. `options` are arguments of `wandb.init`.

    Its files are below the experiment directory, and nothing is printed.
    """

    package = "wandb"

    def start(self) -> str:
        wandb = importlib.import_module("wandb")
        quiet = {"silent": True, "console": "off", "x_stats_pid": self.job.pid}
        tracker = self.job.config["tracker"]
        own = {
            "project": tracker["project"],
            "name": self.job.name,
            "group": self.job.group,
            "tags": tracker["tags"],
            "dir": self.job.exp_dir,
            "config": self.job.config,
            "id": self.id or uuid.uuid4().hex[:8],
            "resume": "allow",
        }
        settings = wandb.Settings(**{**quiet, **self.options.pop("settings", {})})
        self._run = wandb.init(**{**own, **self.options}, settings=settings)
        self.id = self._run.id
        if not self._run.offline:
            return f"tracker: {self._run.url}"
        folder = shlex.quote(os.path.relpath(os.path.dirname(self._run.dir)))
        return f"tracker: W&B, offline; to upload it: wandb sync \\\n  {folder}"

    def log(self, records: Records) -> None:
        for record in records:
            self._run.log(self.job.figures(record), step=record[self.job.axis])

    def finish(self, result: Mapping[str, Any]) -> None:
        self._run.summary.update({f"result/{key}": value for key, value in result.items()})
        self._run.finish(exit_code=128 + result["signal"] if result.get("signal") else int(not result))


@TRACKER_REGISTRY.register("mlflow")
class MlflowTracker(Tracker):
    """MLflow. `options` are arguments of `mlflow.start_run`, and `tracking_uri`.

    Without `tracking_uri` and the variable MLFLOW_TRACKING_URI, the run is in a database in the experiment directory.
    """

    package = "mlflow"
    LONGEST_PARAM = 500  # characters of a value that every kind of store takes
    BATCH = {"params": 100, "metrics": 1000}  # the most that one request may hold

    def start(self) -> str:
        mlflow = importlib.import_module("mlflow")
        own = f"sqlite:///{os.path.abspath(self.job.exp_dir)}/mlflow.db"
        uri = self.options.pop("tracking_uri", "") or os.environ.get("MLFLOW_TRACKING_URI") or own
        mlflow.set_tracking_uri(uri)
        tracker = self.job.config["tracker"]
        with nullcontext() if uri == own else _alone(uri):
            mlflow.set_experiment(tracker["project"])
        tags = {"group": self.job.group, **dict.fromkeys(tracker["tags"], "")}
        new = {} if self.id else {"run_name": self.job.name, "tags": tags}
        run = mlflow.start_run(**{"run_id": self.id or None, **new, **self.options})
        self._mlflow, self._client = mlflow, mlflow.MlflowClient()
        if not self.id:  # a parameter cannot be changed
            params = [
                mlflow.entities.Param(key, str(value)[: self.LONGEST_PARAM])
                for key, value in dotted_items(self.job.config)
            ]
            self.id = run.info.run_id
            self._send(params=params)
        return f"tracker: MLflow run {self.id}\n  at {hide_passwords(uri)}"

    def log(self, records: Records) -> None:
        metric = self._mlflow.entities.Metric
        self._send(
            metrics=[
                metric(key, value, int(1000 * record["time"]), record[self.job.axis])
                for record in records
                for key, value in self.job.figures(record).items()
            ]
        )

    def finish(self, result: Mapping[str, Any]) -> None:
        for key, value in result.items():
            self._client.set_tag(self.id, f"result.{key}", value)
        interrupted = result.get("stop_reason") == "interrupted"
        self._mlflow.end_run("KILLED" if interrupted else "FINISHED" if result else "FAILED")

    def _send(self, **items: Sequence[Any]) -> None:
        """Send parameters or metrics, in requests of at most `BATCH` items."""
        for kind, all_of_it in items.items():
            size = self.BATCH[kind]
            for start in range(0, len(all_of_it), size):
                self._client.log_batch(self.id, **{kind: all_of_it[start : start + size]})


@contextmanager
def _alone(uri: str) -> Iterator[None]:
    """Return a context manager that one process of this machine enters at a time, if `uri` is a SQLite database.

    MLflow creates a database when it is first used, and fails if two processes do so at once.
    """
    _, found, path = uri.partition("sqlite:///")
    if not found:
        yield
        return
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
