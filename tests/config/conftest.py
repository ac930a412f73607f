"""What the tests of this folder find in the registries, and no others."""

import pytest

from ding_lite.utils.registry import (
    BUFFER_REGISTRY,
    ENV_REGISTRY,
    MODEL_REGISTRY,
    POLICY_REGISTRY,
    REWARD_MODEL_REGISTRY,
)
from tests.config.helpers import PlainPolicy, TinyBuffer, TinyEnv, TinyModel, TinyPolicy, TinyRewardModel, WideModel


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODEL_REGISTRY, "config_test", TinyModel)
    monkeypatch.setitem(MODEL_REGISTRY, "config_test_wide", WideModel)
    monkeypatch.setitem(POLICY_REGISTRY, "config_test", TinyPolicy)
    monkeypatch.setitem(POLICY_REGISTRY, "config_test_plain", PlainPolicy)
    monkeypatch.setitem(BUFFER_REGISTRY, "config_test", TinyBuffer)
    monkeypatch.setitem(ENV_REGISTRY, "config_test", TinyEnv)
    monkeypatch.setitem(REWARD_MODEL_REGISTRY, "config_test", TinyRewardModel)
