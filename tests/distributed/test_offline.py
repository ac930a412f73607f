"""Learning from a data set on two real gloo processes."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ding_lite.utils import ConfigError, get_rank
from tests.distributed.on_ranks import call_on_ranks
from tests.offline.data_sets import record_cartpole, run_offline
from tests.policy.helpers import parameter_hash
from tests.run.helpers import result

ROWS = 601  # 300 for each rank, one is left out
PER_EPOCH = 10  # batches of 32 of a rank's 300 transitions, the last of 12
TOGETHER = ["policy.multi_gpu=True", "env.stop_value=None"]
BAD: dict[str, tuple[dict[str, Any], str]] = {  # columns of a data set that cannot be learned from, and what is said
    "lacks": ({"action": None}, "lacks 'action'"),
    "range": ({"action": np.full(ROWS, 2)}, "key 'action': expected actions of Discrete(2), got 2 to 2"),
}


def learn() -> dict[str, Any]:
    """Learn for three epochs, then from bad data sets; return what this rank ended with and was told."""
    policy = run_offline(*TOGETHER, "policy.learn.train_epoch=3", seed=0, kind="discrete_cql")
    report: dict[str, Any] = {"hash": parameter_hash(policy.model), "errors": {}}
    for name in (*BAD, "differs", "gone"):
        os.chdir(f"{name}{get_rank()}")
        begin = time.monotonic()
        with pytest.raises(ConfigError) as error:
            run_offline(*TOGETHER)
        report["errors"][name] = str(error.value), time.monotonic() - begin
        os.chdir("..")
    return report


Ranks = tuple[Path, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Ranks:
    """Return where two ranks learned and met bad data sets, and what both tell."""
    path = tmp_path_factory.mktemp("offline")
    record_cartpole(path / "data.npz", rows=ROWS)
    columns: dict[str, Any] = dict(np.load(path / "data.npz"))
    bad: dict[str, Any] = {name: (columns | changes, columns | changes) for name, (changes, _) in BAD.items()}
    bad["differs"] = (columns, {key: value[1:] for key, value in columns.items()})
    bad["gone"] = (columns, None)
    for name, of_ranks in bad.items():
        for rank, content in enumerate(of_ranks):
            (path / f"{name}{rank}").mkdir()
            if content is not None:
                np.savez(path / f"{name}{rank}" / "data.npz", **{k: v for k, v in content.items() if v is not None})
    return path, call_on_ranks(learn, cwd=path)


def test_ranks_end_with_the_same_parameters(ranks: Ranks) -> None:
    folder, (first, second) = ranks
    assert first["hash"] == second["hash"]
    told = result(folder / "run")
    assert (told["stop_reason"], told["train_iter"], told["world_size"]) == ("train_epoch", 3 * PER_EPOCH, 2)


@pytest.mark.parametrize("name", BAD)
def test_a_data_set_that_cannot_be_used_is_an_error_on_every_rank(ranks: Ranks, name: str) -> None:
    folder, reports = ranks
    for report in reports:
        message, seconds = report["errors"][name]
        assert "'data.npz'" in message
        assert BAD[name][1] in message
        assert seconds < 30
    assert not list(folder.glob(f"{name}?/run*"))


def test_what_only_one_rank_lacks_is_an_error_on_the_others_too(ranks: Ranks) -> None:
    for errors in (report["errors"] for report in ranks[1]):
        assert errors["gone"][0].startswith("[rank 1] Data set 'data.npz' does not exist")
        assert "transitions is 601 on rank 0, 600 on rank 1: give all ranks the same" in errors["differs"][0]
