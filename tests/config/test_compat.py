"""Values that DI-engine's config files hold and that are written otherwise here."""

from __future__ import annotations

import gymnasium
import pytest
from torch import nn

from ding_lite.config import compile_config
from ding_lite.config.compat import RENAMED_IDS
from ding_lite.config.schema import plain
from ding_lite.utils.registry import ConfigError

CREATE = dict(policy=dict(type="dqn"))


@pytest.mark.parametrize(("old", "new"), RENAMED_IDS.items())
def test_a_retired_id_has_a_successor_that_gymnasium_knows(old: str, new: str) -> None:
    main = dict(env=dict(env_id=old))
    cfg = compile_config((main, CREATE))
    assert cfg.env.env_id == new
    assert cfg.notes == [f"env.env_id '{old}' is '{new}' here: gymnasium has retired the old version."]
    assert main == dict(env=dict(env_id=old))
    assert gymnasium.spec(new).id == new


def test_a_retired_id_on_the_command_line_has_its_successor_too() -> None:
    cfg = compile_config((dict(env=dict(env_id="CartPole-v0")), CREATE), overrides=["env.env_id=LunarLander-v2"])
    assert cfg.env.env_id == "LunarLander-v3"


def test_ids_that_still_work_are_left_alone() -> None:
    cfg = compile_config((dict(env=dict(env_id="CartPole-v0")), CREATE))
    assert (cfg.env.env_id, cfg.notes) == ("CartPole-v0", [])


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (nn.Tanh(), "tanh"),
        (nn.ReLU(), "relu"),
        (nn.ReLU(inplace=True), "relu"),
        (nn.GELU(), "gelu"),
        (nn.ELU(), "elu"),
    ],
)
def test_an_activation_object_is_its_name(module: nn.Module, name: str) -> None:
    cfg = compile_config((dict(policy=dict(model=dict(activation=module))), CREATE))
    assert cfg.policy.model.activation == name


@pytest.mark.parametrize("module", [nn.ELU(alpha=0.5), nn.GELU(approximate="tanh"), nn.PReLU(), nn.Linear(1, 1)])
def test_a_module_that_no_name_stands_for_is_an_error(module: nn.Module) -> None:
    with pytest.raises(ConfigError, match=r"main_config\.policy\.model\.activation: expected numbers, texts"):
        plain({"policy": {"model": {"activation": module}}}, "main_config")
