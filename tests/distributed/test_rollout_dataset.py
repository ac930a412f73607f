"""Data sets of experience under two ranks: in a plain torch loop, and in Lightning's, whose ranks run this file."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

from ding_lite.entry import RolloutDataset
from ding_lite.utils import get_rank
from tests.distributed.launcher import finish, start
from tests.distributed.on_ranks import call_on_ranks
from tests.entry.test_rollout_dataset import hashes, make
from tests.policy.helpers import parameter_hash

STEPS = 8


def train_plainly(num_workers: int) -> dict[str, Any]:
    """Train by nothing but torch; return what this rank played and what it ended with."""
    dataset = make("a2c")
    model, batches = dataset.policy.model, []
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for batch in itertools.islice(DataLoader(dataset, batch_size=None, num_workers=num_workers), STEPS):
        batches.append(batch)
        optimizer.zero_grad()
        dataset.policy.loss(batch)[0].backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        dataset.publish()
    return report(dataset, batches)


def report(dataset: RolloutDataset, batches: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "model": parameter_hash(dataset.policy.model),
        "played": hashes(batches),
        "versions": [int(batch["version"].max()) for batch in batches],
        "own": dataset.figures()["env_step"],
        "envstep": dataset.envstep,
    }


def run_plainly() -> dict[str, Any]:
    told: dict[str, Any] = {f"plain{num_workers}": train_plainly(num_workers) for num_workers in (0, 1)}
    # a rank that plays more than another waits for nobody
    return told | {"uneven": hashes(list(itertools.islice(make("ppo"), 3 * get_rank() + 1)))}


def run_lightning() -> dict[str, Any]:
    import lightning  # noqa: PLC0415 (an optional package)

    from dizoo.classic_control.cartpole.entry.cartpole_a2c_lightning import A2CModule  # noqa: PLC0415 (imports lightning)

    class Watch(lightning.Callback):
        def __init__(self) -> None:
            self.batches: list[dict[str, Any]] = []
            self.told: dict[str, Any] = {}

        def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            self.batches.append(batch)

        def on_train_end(self, trainer: Any, module: Any) -> None:
            self.told = {"rank": trainer.global_rank, "lightning": report(module.dataset, self.batches)}

    module, watch = A2CModule(num_workers=1), Watch()
    before = parameter_hash(module.model)
    quiet: dict[str, Any] = dict(
        logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False
    )
    options: dict[str, Any] = dict(accelerator="cpu", devices=2, strategy="ddp", max_steps=STEPS, callbacks=[watch])
    lightning.Trainer(**quiet, **options).fit(module)
    return watch.told | {"before": before}


def check(ranks: list[dict[str, Any]], name: str, num_workers: int) -> None:
    first, second = (rank[name] for rank in ranks)
    assert first["model"] == second["model"]
    assert len(set(first["played"] + second["played"])) == 2 * STEPS
    assert 0 < first["versions"][-1] <= STEPS
    for told in (first, second):
        assert told["envstep"] in range(2 * int(told["own"]), 2 * int(told["own"]) + (320 if num_workers else 1))


def test_a_plain_torch_loop_on_two_ranks() -> None:
    ranks = call_on_ranks(run_plainly)
    check(ranks, "plain0", 0)
    check(ranks, "plain1", 1)
    # nothing is prefetched: every batch is of parameters as of its collect, which makes two batches
    assert ranks[0]["plain0"]["versions"] == [t - t % 2 for t in range(STEPS)]
    assert [len(rank["uneven"]) for rank in ranks] == [1, 4]


@pytest.mark.slow
def test_lightning_on_two_processes_keeps_parameters_equal_and_trajectories_apart(tmp_path: Path) -> None:
    pytest.importorskip("lightning", reason="needs the extra lightning")
    words = ["-m", "tests.distributed.test_rollout_dataset", str(tmp_path)]
    done = finish(start([sys.executable, *words], cwd=tmp_path), timeout=120)
    assert done.returncode == 0, done.stderr
    ranks = [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(2)]
    check(ranks, "lightning", 1)
    assert ranks[0]["before"] == ranks[1]["before"] != ranks[0]["lightning"]["model"]


if __name__ == "__main__":
    torch.set_num_threads(1)
    outcome = run_lightning()
    Path(sys.argv[1], f"rank{outcome['rank']}.json").write_text(json.dumps(outcome))
