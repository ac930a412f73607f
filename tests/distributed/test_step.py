"""What a policy holds is alike on two real ranks, and several optimizers take the step of one process."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ding_lite.policy import DQNPolicy
from ding_lite.utils import get_rank
from ding_lite.utils.ranks import machine_group as groups
from ding_lite.utils.tree import tree_map
from tests.distributed.on_ranks import call_on_ranks
from tests.policy.helpers import OBS, make_batch, make_cfg, make_policy, parameter_hash

WAYS = {"flat": [], "ddp": ["data_parallel=ddp"]}


class Keeper:
    """A helper that keeps a network of its own."""

    def __init__(self) -> None:
        self.network = nn.Linear(2, 2)


class Hoarder(DQNPolicy):
    """Keeps networks in every way that a policy might."""

    def _init_learn(self) -> None:
        super()._init_learn()
        self._by_name = {"a": nn.Linear(2, 2), "nested": [nn.Linear(2, 2)]}
        self._ensemble = (nn.Linear(2, 2), nn.BatchNorm1d(2))
        self._keeper = Keeper()
        self._ensemble[1].get_buffer("running_mean").fill_(float(get_rank()))

    def everything(self) -> dict[str, nn.Module]:
        nested, keeper = self._by_name["nested"], self._keeper.network
        return {"dict": self._by_name["a"], "list": nested[0], "buffer": self._ensemble[1], "helper": keeper}  # type: ignore[dict-item,index]


class Normalised(nn.Module):
    """A Q-network with batch normalisation, whose statistics are of each rank's own samples."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.BatchNorm1d(OBS), nn.Linear(OBS, 3))

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        return {"logit": self.layers(obs)}


class Turns(DQNPolicy):
    """Alternates two losses on one optimizer."""

    def _first(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        return self._model(batch["obs"])["logit"].square().mean(), {}

    def _second(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        return self._model(batch["next_obs"])["logit"].mean(), {}

    def _forward_learn(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return self._optimizer.step((self._first, self._second)[self.iteration % 2], batch)


def look_at_networks() -> dict[str, Any]:
    torch.manual_seed(get_rank())
    policy = Hoarder(make_cfg("multi_gpu=True"))
    found: dict[str, Any] = {name: parameter_hash(each) for name, each in policy.everything().items()}
    checksum = policy.checksum
    found["sums"] = [checksum()]
    for network in policy.everything().values():
        with torch.no_grad():
            tensor = next(iter(network.buffers()), next(iter(network.parameters())))
            tensor += get_rank()
        found["sums"].append(checksum())
        with torch.no_grad():
            tensor -= get_rank()
    normalised = make_policy("multi_gpu=True", model=Normalised())
    normalised.learn(make_batch(8, get_rank()))
    found["normalised"] = normalised.checksum()
    found["mean"] = normalised.model.get_buffer("layers.0.running_mean").tolist()
    create_memory, found["overlaps"] = groups.create_memory, {}
    for name, groups.create_memory in {"shared": create_memory, "sent": lambda length: None}.items():
        for sync in (True, False):
            optimizer = make_policy("multi_gpu=True", f"bp_update_sync={sync}")._optimizer
            found["overlaps"][f"{name} {sync}"] = (optimizer.flat.is_shared, type(optimizer.gradient).__name__)
    groups.create_memory = create_memory
    found["turns"] = {}
    for way, overrides in WAYS.items():
        torch.manual_seed(0)
        turns = Turns(make_cfg("multi_gpu=True", "learn.optimizer=sgd", *overrides))
        turns.learn(make_batch(8, get_rank()))
        turns.learn(make_batch(8, get_rank()))
        found["turns"][way] = torch.cat([parameter.detach().flatten() for parameter in turns.model.parameters()])
    return found


@pytest.fixture(scope="module")
def found() -> list[dict[str, Any]]:
    return call_on_ranks(look_at_networks)


@pytest.mark.parametrize("name", ["dict", "list", "buffer", "helper"])
def test_networks_begin_alike_however_they_are_kept(found: list[dict[str, Any]], name: str) -> None:
    assert found[0][name] == found[1][name]


def test_a_difference_between_ranks_in_any_of_them_is_seen(found: list[dict[str, Any]]) -> None:
    begin, *changed = (
        [sums[number] for sums in (found[0]["sums"], found[1]["sums"])] for number in range(len(found[0]["sums"]))
    )
    assert begin[0] == begin[1]
    assert len(changed) == 4
    assert all(first == begin[0] != second for first, second in changed)


def test_statistics_of_batch_normalisation_are_averaged(found: list[dict[str, Any]]) -> None:
    assert found[0]["normalised"] == found[1]["normalised"]
    # after a step the running mean is a tenth of the batches' mean, from 0, and then that of both ranks; the losses'
    # second forward pass, of the next observations, makes it 0.09 and 0.1 of the two
    batches = [make_batch(8, rank) for rank in range(2)]
    means = [0.09 * batch["obs"].mean(0) + 0.1 * batch["next_obs"].mean(0) for batch in batches]
    assert found[0]["mean"] == pytest.approx(((means[0] + means[1]) / 2).tolist(), abs=1e-6)


def test_two_losses_that_take_turns_on_one_optimizer_are_both_averaged(found: list[dict[str, Any]]) -> None:
    alone = Turns(make_cfg("learn.optimizer=sgd"))
    alone.learn(joined := tree_map(lambda *parts: torch.cat(parts), *(make_batch(8, rank) for rank in range(2))))
    alone.learn(joined)
    expected = torch.cat([parameter.detach().flatten() for parameter in alone.model.parameters()])
    for each in found:
        for way in WAYS:
            torch.testing.assert_close(each["turns"][way], expected, rtol=1e-5, atol=1e-7)


def test_averaging_overlaps_with_backward_if_asked_for_and_gradients_are_sent(found: list[dict[str, Any]]) -> None:
    expected = {
        "shared True": (True, "EagerGradient"),
        "shared False": (True, "EagerGradient"),
        "sent True": (False, "EagerGradient"),
        "sent False": (False, "OverlappedGradient"),
    }
    assert [each["overlaps"] for each in found] == [expected] * 2
