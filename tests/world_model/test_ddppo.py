"""The second ensemble of DDPPO: neighbours and slopes by hand, whose derivatives a policy gets, and its state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ding_lite.entry import serial_pipeline_dream
from ding_lite.world_model.ddppo import find_neighbors
from tests.run.helpers import metrics, result
from tests.survival.common import differences
from tests.world_model.helpers import pair, trained
from tests.world_model.test_serial_entry_mbrl import last_state

WORDS = ("world_model.type=ddppo", "world_model.model.train_freq_gradient_model=40", "world_model.model.reg=50.0")


def linear(network: Any, *slopes: float) -> None:
    """Let the ensemble's members predict rewards of `slopes` times about the first number of an input, near 0.

    silu(x) is x + log of 2 for large x, in slope 1: each layer passes x + 100 on, and the last one subtracts it.
    """
    for weight, bias in zip(network.weights, network.biases, strict=True):
        weight.data.zero_()
        bias.data.zero_()
        weight.data[:, 0, 0] = 1.0
    network.biases[0].data[:, 0, 0] = 100.0  # silu(100 + x) = 100 + x to float32
    network.weights[-1].data[:, 0, 0] = torch.tensor(slopes)
    network.biases[-1].data[:, 0, 0] = -100.0 * torch.tensor(slopes)
    network.scale.load_state_dict(
        {key: torch.full((3,), number).double() for key, number in (("mean", 0.0), ("var", 1.0), ("count", 1.0))}
    )


def test_the_nearest_neighbours_and_their_differences() -> None:
    """Of the points 0, 1, 3 and 10 on a line, the two nearest to 3 are 1 and 0, or differences of -2 and -3."""
    input_MI = torch.tensor([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0], [10.0, 0.0]])
    found = find_neighbors(input_MI, input_MI[:, :1] ** 2, 2)
    assert found["offset"][2].tolist() == [[-2.0, 0.0], [-3.0, 0.0]]
    assert found["change"][2].flatten().tolist() == [1.0 - 9.0, 0.0 - 9.0]
    assert found["offset"][3, :, 0].tolist() == [-7.0, -9.0]
    assert find_neighbors(input_MI[:2], input_MI[:2], 3)["offset"].shape == (2, 1, 2)


def test_the_error_of_the_slopes_by_hand() -> None:
    """Slopes of 1, 2 and 3 in direction 0.5, where the reward changes by 1: errors 0.5, 0, -0.5, of three outputs."""
    model = trained(*WORDS)
    linear(model._gradient_network, 1.0, 2.0, 3.0)
    batch = {"input": torch.zeros(3, 1, 3), "target": torch.zeros(3, 1, 3), "point": torch.zeros(3, 1, 3)}
    batch |= {"offset": torch.tensor([0.5, 9.0, 9.0]).expand(3, 1, 1, 3), "change": torch.eye(3)[0].expand(3, 1, 1, 3)}
    loss, figures = model._gradient_loss(batch)
    assert figures["slope_error"].item() == pytest.approx((0.25 / 3 + 0.0 + 0.25 / 3) / 3, rel=1e-4)
    plain = model._likelihood(model._gradient_network, batch)
    assert (loss - plain).item() == pytest.approx(50 * (0.25 / 3 + 0.25 / 3), rel=1e-4)


def test_a_step_has_the_first_models_values_and_the_second_ones_slopes() -> None:
    model = trained(*WORDS)
    linear(model._network, 1.0, 1.0, 1.0)
    linear(model._gradient_network, 5.0, 5.0, 5.0)
    obs = torch.tensor([[0.25, 0.0]], requires_grad=True)
    reward, *_ = model.step(obs, torch.zeros(1, 1), torch.rand(1))
    assert reward.item() == pytest.approx(0.25, abs=1e-4)
    (slope,) = torch.autograd.grad(reward.sum(), obs)
    assert slope[0].tolist() == pytest.approx([5.0, 0.0])
    with torch.no_grad():
        assert model.step(obs, torch.zeros(1, 1), torch.rand(1))[0].item() == pytest.approx(0.25, abs=1e-4)


@pytest.mark.slow
def test_the_second_model_learns_the_slope_of_the_environment() -> None:
    """The change of the point is 0.2 of the action, whatever the state."""
    words = ("policy.random_collect_size=600", "world_model.model.max_epochs_since_update=20")
    model = trained(
        *WORDS, *words, "world_model.model.hidden_size=32", "world_model.learning_rate=0.003", max_env_step=608
    )
    action = torch.zeros(8, 1, requires_grad=True)
    obs: Tensor = torch.stack([torch.linspace(-0.8, 0.8, 8), torch.full((8,), 3.0)], 1)
    _, next_obs, _ = model.step(obs, action, torch.rand(8))
    (slope,) = torch.autograd.grad(next_obs[:, 0].sum(), action)
    torch.testing.assert_close(slope, torch.full_like(slope, 0.2), atol=0.03, rtol=0)


def test_a_run_that_is_stopped_and_resumed_equals_the_whole_run() -> None:
    words = [*WORDS, "policy.eval.evaluator.eval_freq=2", "policy.learn.learner.hook.log_show_after_iter=4"]
    for name, steps, more in (("whole", 136, []), ("parts", 88, []), ("parts", 136, ["resume_training=True"])):
        overrides = [*words, f"exp_name={name}", *(f"policy.learn.{word}" for word in more)]
        serial_pipeline_dream(pair("mbsac"), seed=0, max_env_step=steps, overrides=overrides)
    assert result(Path("parts"))["envstep"] == 136
    assert not differences(last_state("whole"), last_state("parts"))
    figures = [record for record in metrics(Path("whole")) if "world_model/gradient_slope_error" in record]
    records = [record for record in metrics(Path("whole")) if "world_model/holdout_mse" in record]
    assert 0 < len(figures) < len(records)  # it is trained less often, after 40 env steps instead of 24
