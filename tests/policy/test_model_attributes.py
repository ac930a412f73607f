"""What a policy reads of a user's model is declared, and a model without it is one line."""

from __future__ import annotations

import ast
import inspect
import re

import pytest
import torch
from torch import Tensor, nn

from ding_lite.config import compile_config
from ding_lite.utils.registry import MODEL_REGISTRY, POLICY_REGISTRY, ConfigError
from tests.docs.test_docs import ROOT
from tests.policy.helpers import OURS, compile_for, make_policy

NEEDY = [name for name in OURS if POLICY_REGISTRY.find(name).model_attributes]


@pytest.mark.parametrize("name", OURS)
def test_every_attribute_that_is_read_of_the_model_is_declared(name: str) -> None:
    cls = POLICY_REGISTRY.find(name)
    own = [each for each in cls.__mro__ if each.__module__.startswith("ding_lite.")]
    nodes = [node for each in own for node in ast.walk(ast.parse(inspect.getsource(each)))]
    chains = [ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute)]
    read = {match[1] for chain in chains if (match := re.fullmatch(r"(?:self|policy)\._?model\.(\w+)", chain))}
    assert {each for each in read if not hasattr(nn.Module, each)} <= {*cls.model_attributes}


@pytest.mark.parametrize("name", NEEDY)
def test_a_model_without_them_is_one_line(name: str) -> None:
    cfg = compile_for(name)
    wanted = POLICY_REGISTRY.find(name).model_attributes
    model = nn.Linear(1, 1)
    setattr(model, wanted[0], nn.Linear(1, 1))
    message = f"Policy '{name}' needs a model with the attributes {', '.join(wanted)}, but Linear has no "
    with pytest.raises(ConfigError, match=f"^{message}{', '.join(wanted[1:])}: see 'What each policy asks of a model'"):
        POLICY_REGISTRY.find(name)(cfg.policy, model)


def test_the_page_lists_them() -> None:
    page = (ROOT / "docs" / "extending.md").read_text()
    rows = [line.split("|")[1:3] for line in page.splitlines() if line.startswith("| `")]
    listed = {name: row[1] for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    for name in NEEDY:
        assert all(f"`{each}`" in listed[name] for each in POLICY_REGISTRY.find(name).model_attributes)


@MODEL_REGISTRY.register("takes_no_twin")
class TakesNoTwin(nn.Module):
    """A model whose constructor does not take what SAC passes."""

    def __init__(self, obs_shape: int, action_shape: int, action_space: str) -> None:
        super().__init__()


def test_a_constructor_without_a_key_of_the_policy_is_one_line() -> None:
    main = dict(env=dict(env_id="Pendulum-v1"), policy=dict(model=dict(type="takes_no_twin")))
    with pytest.raises(ConfigError, match=r"^policy.model.twin_critic .* its model TakesNoTwin does not take it: add"):
        compile_config((main, dict(policy=dict(type="sac"))))


def test_a_network_that_a_loss_passes_through_is_in_evaluation_mode_in_it() -> None:
    policy = make_policy()
    network = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5)).train()
    x: Tensor = torch.full((8, 4), 3.0, requires_grad=True)
    # The running mean is 0 and the variance 1; the batch's own mean would make zeros of it.
    torch.testing.assert_close(policy._run_frozen(network, x), x / (1.0 + 1e-5) ** 0.5)
    assert all(module.training for module in network.modules())
    assert network[0].num_batches_tracked == 0
