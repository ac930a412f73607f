"""tests/policy/test_masks.py has what all models do with a mask."""

from __future__ import annotations

import pytest
import torch

from ding_lite.model import DQN
from ding_lite.model.masks import allowed_mean, average_allowed, obey_mask

NEVER = -torch.inf


def test_forbidden_actions_are_minus_infinity_unless_nothing_is_allowed() -> None:
    logit = torch.arange(6.0).view(2, 3)
    obs = {"x": torch.zeros(2), "action_mask": torch.tensor([[1, 0, 1], [0, 0, 0]])}
    assert obey_mask(logit, obs).tolist() == [[0, NEVER, 2], [3, 4, 5]]
    branches = {"branches": logit[None]}
    assert obey_mask(branches, {"action_mask": obs["action_mask"][None]})["branches"].tolist() == [
        [[0, NEVER, 2], [3, 4, 5]]
    ]
    assert obey_mask(logit, obs["x"]) is obey_mask(logit, {"x": obs["x"]}) is logit


def test_the_mean_of_action_values_is_that_of_allowed_actions() -> None:
    figures, obs = (
        {"q_value": torch.tensor([[1.0, NEVER, 6.0], [2.0, NEVER, NEVER]]), "loss": torch.ones(())},
        torch.zeros(2, 4),
    )
    assert average_allowed(figures, obs) is figures
    found = average_allowed(figures, {"action_mask": torch.tensor([[1, 0, 1], [1, 0, 0]])})
    assert {key: value.item() for key, value in found.items()} == {"q_value": 3.0, "loss": 1.0}  # (1 + 6 + 2) / 3
    assert average_allowed({"loss": figures["loss"]}, {"action_mask": torch.ones(1, 3)}).keys() == {"loss"}


def test_the_mean_of_advantages_is_that_of_allowed_actions() -> None:
    advantage, mask = torch.tensor([[1.0, 2.0, 6.0]]), torch.tensor([[True, False, True]])
    assert allowed_mean(advantage, mask).tolist() == [[3.5]]
    assert allowed_mean(advantage, None).tolist() == [[3.0]]
    assert allowed_mean(advantage[..., None] * torch.tensor([1.0, 2.0]), mask, dim=-2).tolist() == [[[3.5, 7.0]]]


@pytest.mark.parametrize("others", [{"x": 4}, {"x": 4, "y": 2}])
def test_an_encoder_does_not_see_the_mask(others: dict[str, int]) -> None:
    model = DQN({**others, "action_mask": 3}, 3, [8])
    obs = {key: torch.randn(5, size) for key, size in others.items()}
    masks = [torch.tensor([[1, 0, 1]]).expand(5, 3), torch.tensor([[1.0, 1.0, 0.0]]).expand(5, 3)]
    features = [model.encoder(obs | {"action_mask": mask}) for mask in masks]
    assert torch.equal(*features)
