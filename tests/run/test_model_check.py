"""Models, policies and losses of the user's own that do not fit end a run with one line, before it has begun."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ding_lite.entry import serial_pipeline, serial_pipeline_onpolicy
from ding_lite.policy import DQNPolicy
from ding_lite.utils import POLICY_REGISTRY, ConfigError, UserError
from ding_lite.utils.seed import random_state


class Net(nn.Module):
    """A network of the user's, which returns what a test says."""

    def __init__(self, output: Any = lambda logit: {"logit": logit}, size: int = 2) -> None:
        super().__init__()
        self.layer, self.output = nn.Linear(4, size), output

    def forward(self, obs: Tensor) -> Any:
        return self.output(self.layer(obs))


@POLICY_REGISTRY.register("wrong_loss")
class WrongLossPolicy(DQNPolicy):
    """Returns what a test makes of the loss and the figures."""

    config = dict(type="wrong_loss")
    change: Any = None

    def _loss(self, batch: dict[str, Any]) -> Any:
        return type(self).change(*super()._loss(batch))


def pair(policy: str, **own: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    env = {"env_id": "CartPole-v1", "collector_env_num": 2, "evaluator_env_num": 1, "n_evaluator_episode": 1}
    return {"exp_name": "run", "env": env, "policy": {"num_threads": 1, **own}}, {"policy": {"type": policy}}


@pytest.mark.parametrize(
    ("model", "line"),
    [
        (Net(size=3), r"Model 'Net' does not fit policy 'dqn': 'logit': expected \[2, 2\], .* got a Tensor \[2, 3\]"),
        (Net(lambda logit: logit), r"after it returned a Tensor \[2, 2\].* Expected, as DQN.forward\(.*a dict with"),
        (
            Net(lambda logit: {"q": logit}),
            r"KeyError: 'logit' after it returned a dict of q \[2, 2\].*Expected, as DQN",
        ),
        (Net(lambda logit: {"logit": logit.mean(0)}), "does not fit policy 'dqn'"),
    ],
)
def test_a_models_output_that_does_not_fit_is_described(model: nn.Module, line: str) -> None:
    torch.set_num_threads(2)
    with pytest.raises(ConfigError, match=line):
        serial_pipeline(pair("dqn"), model=copy.deepcopy(model), seed=0, max_env_step=8)
    assert torch.get_num_threads() == 2  # the run, which had one, did not begin


def test_an_argument_that_a_model_lacks_is_named() -> None:
    with pytest.raises(
        ConfigError, match=r"Net.forward\(\) got an unexpected keyword argument 'mode'.* as VAC.forward"
    ):
        serial_pipeline_onpolicy(pair("ppo"), model=Net(), seed=0, max_env_step=8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda loss, figures: (loss.detach(), figures), "the loss has no gradient"),
        (lambda loss, figures: loss, r"expected \(loss, figures\), .* got Tensor\[\]\."),
        (lambda loss, figures: (loss.expand(8), figures), r"expected \(loss, figures\), .* got Tensor\[8\], dict\."),
    ],
    ids=["without a gradient", "without figures", "of several numbers"],
)
def test_a_loss_that_does_not_fit_is_named(change: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WrongLossPolicy, "change", staticmethod(change))
    with pytest.raises(UserError, match=rf"WrongLossPolicy\._loss: {message}"):
        serial_pipeline(pair("wrong_loss", learn={"batch_size": 2}), seed=0, max_env_step=16)


def test_a_model_that_fits_trains_as_if_it_had_not_been_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    def train(name: str) -> list[Tensor]:
        torch.manual_seed(0)
        main, create = pair("dqn", learn={"batch_size": 2})
        main["exp_name"] = name
        trained = serial_pipeline((main, create), model=Net(), seed=0, max_env_step=64)
        return [*trained.model.parameters(), random_state()["torch"]]

    tried = train("tried")
    monkeypatch.setattr("ding_lite.run.setup.check_model", lambda *_: None)
    for one, other in zip(tried, train("plain"), strict=True):
        assert torch.equal(one, other)
