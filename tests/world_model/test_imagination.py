"""Imagined steps: how many trainings keep theirs, and what a mixed batch consists of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from ding_lite.torch_utils.data import Batch
from ding_lite.world_model.imagination import Imagination, MixedReplay


def steps(*values: float) -> dict[str, Any]:
    reward = torch.tensor(values)
    obs = reward[:, None].expand(-1, 2)
    return {"obs": obs, "action": obs[:, :1], "reward": reward, "next_obs": obs + 1, "done": reward < 0}


class Real:
    """A replay buffer whose rewards are 100."""

    def count(self) -> int:
        return 7

    def batches(self, batch_size: int, number: int) -> Any:
        for _ in range(number):
            real: Batch = steps(*[100.0] * batch_size)
            yield real | {"index": torch.arange(batch_size), "traj_flag": real["done"], "value_gamma": real["reward"]}


def mixed(imagination: Imagination, real_ratio: float) -> Any:
    policy: Any = SimpleNamespace(current_config=SimpleNamespace(discount_factor=0.9))
    replay: Any = Real()
    return MixedReplay(replay, imagination, real_ratio, policy)


def test_the_steps_of_the_last_trainings_are_kept() -> None:
    imagination = Imagination(retain=2)
    for block in (steps(1.0), steps(2.0, 3.0), steps(4.0)):
        imagination.push(block)
    assert imagination.steps["reward"].tolist() == [2.0, 3.0, 4.0]
    assert len(imagination) == 3
    copy = Imagination(retain=2)
    copy.load_state_dict(imagination.state_dict(), torch.device("cpu"))
    for each in (imagination, copy):
        each.push(steps(5.0))
        assert each.steps["reward"].tolist() == [4.0, 5.0]


def test_a_batch_has_its_share_of_real_samples() -> None:
    imagination = Imagination(retain=1)
    imagination.push(steps(1.0, -2.0))
    for ratio, number in ((0.05, 1), (0.25, 5), (0.001, 1), (1.0, 20)):  # of 20; at least one
        (batch,) = mixed(imagination, ratio).batches(20, 1)
        assert (batch["reward"] == 100.0).sum() == number
        assert len(batch["next_obs"]) == 20
    (batch,) = mixed(imagination, 0.25).batches(200, 1)
    own = batch["reward"] < 100
    assert {*batch["reward"][own].tolist()} == {1.0, -2.0}
    assert torch.equal(batch["done"][own], batch["reward"][own] < 0)
    assert torch.equal(batch["next_obs"][own], batch["obs"][own] + 1)
    assert (batch["value_gamma"][own] == 0.9).all()
    assert (batch["traj_flag"] == batch["done"]).all()


def test_all_samples_are_real_before_anything_is_imagined() -> None:
    (batch,) = mixed(Imagination(retain=1), 0.05).batches(20, 1)
    assert (batch["reward"] == 100.0).all()
    assert mixed(Imagination(retain=1), 0.05).count() == 7
