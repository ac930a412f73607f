"""Packages of config files have the dicts of these files as names, as DI-engine's mains import them."""

from __future__ import annotations

from importlib import import_module

import pytest

from dizoo.classic_control.cartpole.config.cartpole_ppo_config import create_config, main_config


def test_a_package_has_the_dicts_of_its_files_as_names() -> None:
    package = import_module("dizoo.classic_control.cartpole.config")
    assert package.cartpole_ppo_config is main_config  # although the module of this name was imported
    assert package.cartpole_ppo_create_config is create_config
    found = package.cartpole_dqn_config
    assert found is import_module("dizoo.classic_control.cartpole.config.cartpole_dqn_config").main_config
    below = import_module("dizoo.atari.config.serial")
    assert below.pong_dqn_config is import_module("dizoo.atari.config.serial.pong").pong_dqn_config
    with pytest.raises(AttributeError, match="has no config 'cartpole_nosuch_config'"):
        package.cartpole_nosuch_config  # noqa: B018
