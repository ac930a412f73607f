"""A key that a user's class declares and nothing reads is a note; every key of the package is read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from ding_lite.config import compile_config
from ding_lite.config.unread import unread_keys
from ding_lite.run import setup
from ding_lite.utils.registry import ENV_REGISTRY, POLICY_REGISTRY, REWARD_MODEL_REGISTRY

CLASSES = {
    f"{kind} {name}": cls
    for kind, registry in {"policy": POLICY_REGISTRY, "env": ENV_REGISTRY, "reward": REWARD_MODEL_REGISTRY}.items()
    for name, cls in registry.items()
}
OWN = '''
import helper_of_own
from ding_lite.policy import DQNPolicy
from ding_lite.utils import POLICY_REGISTRY
from ding_lite.utils.key import Key


@POLICY_REGISTRY.register("own_keys")
class OwnPolicy(DQNPolicy):
    """Its loss says `huber_dleta`. `nowhere_named` is never read, not even here."""

    config = dict(
        type="own_keys",
        learn=dict(huber_delta=Key(1.0, "", above=0), nowhere_named=2.0, target_theta=0.1, by_text=1, elsewhere=1),
        model=dict(argument=1),
        section=dict(one=1),
        **{"quoted": 1, "unroll_len": 1},  # others of this package read `unroll_len`
    )

    def _loss(self, batch):
        helper_of_own.use(self._cfg)
        return self._cfg.learn.huber_dleta, self._cfg.learn.get("by_text"), dict(self._cfg.section)
'''


def test_a_key_that_no_code_names_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_keys.py").write_text(OWN)
    (tmp_path / "helper_of_own.py").write_text("def use(cfg):\n    return cfg.learn.elsewhere\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(POLICY_REGISTRY, "data", dict(POLICY_REGISTRY.data))
    create: dict[str, Any] = dict(env=dict(env_id="CartPole-v1"), policy=dict(type="own_keys"))
    create["policy"]["import_names"] = ["own_keys"]
    cfg = compile_config(({}, create), model_given=True)
    for name in ("own_keys", "helper_of_own"):
        sys.modules.pop(name)
    assert [note for note in cfg.notes if "reads" in note] == [
        f"policy.{path} has no effect: OwnPolicy declares it, but no code reads it."
        for path in "learn.huber_delta learn.nowhere_named quoted".split(" ")  # noqa: SIM905 (in a text of its own, each would count as read)
    ]


@pytest.mark.parametrize("name", CLASSES)
def test_every_key_of_the_package_is_read(name: str) -> None:
    assert setup is not None, "it reads keys too"
    assert unread_keys(CLASSES[name], package="builtins") == []


def test_another_default_of_a_key_of_every_environment_is_no_note() -> None:
    main: dict[str, Any] = {"env": {"env_id": "PongNoFrameskip-v4"}}
    create = {"env": {"type": "atari", "import_names": ["dizoo.atari.envs.atari_env"]}, "policy": {"type": "dqn"}}
    cfg = compile_config((main, create), model_given=True)
    assert cfg.env.clip_rewards
    assert not [note for note in cfg.notes if "no code reads" in note]
