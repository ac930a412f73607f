"""The parts that a config names: types, the modules of import_names, environments, reward models."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from ding_lite.config import compile_config
from ding_lite.utils.registry import ENV_REGISTRY, POLICY_REGISTRY, ConfigError
from ding_lite.utils.tree import dotted_items
from tests.config.helpers import CARTPOLE, nested, pair

ATARI = "dizoo.atari.envs.atari_env"

# Types of parts.


REWARDED = dict(reward_model=dict(type="config_test"))


@pytest.mark.parametrize(
    ("create", "message"),
    [
        (dict(policy=dict(type="config_tst")), "Unknown policy type 'config_tst'. Did you mean 'config_test'"),
        (dict(env=dict(type="config_tst")), "Unknown environment type 'config_tst'. Did you mean 'config_test'"),
        (dict(replay_buffer=dict(type="unifrm")), "Unknown replay buffer type 'unifrm'. Did you mean 'uniform'"),
        (dict(env_manager=dict(type="subproces")), "env_manager.type 'subproces'. Did you mean 'subprocess'"),
        (dict(env_manager=dict(type=["base"])), "env_manager.type: expected a name, got list"),
        (dict(replay_buffer=dict(type=3)), "replay_buffer.type: expected a name, got int 3"),
        (dict(policy={}), "create_config.policy.type: expected a registered name"),
        (dict(policy=dict(type=3)), r"create_config.policy.type: expected .*dict\(type=...\), got int 3"),
        (dict(env=dict(type=None)), r"create_config.env.type: expected a registered name"),
        (dict(env=dict(type="config_test", import_names=["no_such_module"])), "cannot import 'no_such_module'"),
        (dict(env=dict(type="config_test", import_names="abc")), r"env.import_names: expected a list of module names"),
        (dict(env_manger=dict(type="base")), "'create_config.env_manger'. Did you mean 'env_manager'"),
        (dict(reward_model=dict(type="bebold")), r"^Unknown reward model type 'bebold'. Registered: .*config_test"),
        (dict(reward_model={}), r"create_config.reward_model.type: expected a registered name .* got NoneType"),
        (dict(env="config_test"), r"create_config.env: expected a dict such as dict\(type=...\), got str"),
    ],
)
def test_mistakes_in_create_config(create: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compile_config(pair(**create))


@pytest.mark.parametrize(
    ("path", "value", "create", "message"),
    [
        ("reward_model.scal", 1.0, REWARDED, "Unknown key 'reward_model.scal'. Did you mean 'reward_model.scale'"),
        ("reward_model.scale", "big", REWARDED, "reward_model.scale: expected float, got str 'big'. .*of the reward"),
        ("reward_model.scale", -1.0, REWARDED, "reward_model.scale: expected at least 0, got -1.0"),
        ("reward_model", 3, REWARDED, "main_config.reward_model|reward_model"),
        ("reward_model.scale", 2.0, {}, r"create_config.reward_model.type: expected a registered name"),
    ],
)
def test_mistakes_in_a_reward_models_section(path: str, value: Any, create: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compile_config(pair(nested(path, value), **create))


@pytest.mark.parametrize("value", [None, {}, ({},), ({}, 1), ({}, {}, {}), 3])
def test_something_that_is_no_pair(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"Expected \(main_config, create_config\) or the path"):
        compile_config(value)


def test_import_names_register_the_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config_test_plugin.py").write_text(
        "import gymnasium\nfrom ding_lite.utils.registry import ENV_REGISTRY\n"
        "@ENV_REGISTRY.register('config_test_plugin')\nclass Plugin(gymnasium.Env):\n    config = dict(level=2)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(ENV_REGISTRY, "config_test_plugin", None)  # so that the real entry is taken out again
    del ENV_REGISTRY["config_test_plugin"]
    cfg = compile_config(pair(env=dict(type="config_test_plugin", import_names=["config_test_plugin"])))
    assert cfg.env.level == 2


def test_a_config_file_may_name_itself_in_import_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its classes are then registered twice, by the file and by the module."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    for names in (POLICY_REGISTRY, sys.modules):
        monkeypatch.setitem(names, "config_test_own", None)  # so that the real entry is taken out again
        del names["config_test_own"]
    path = tmp_path / "config_test_own.py"
    path.write_text(
        "from ding_lite.policy import DQNPolicy\n"
        "from ding_lite.utils import POLICY_REGISTRY\n"
        "@POLICY_REGISTRY.register('config_test_own')\n"
        "class OwnPolicy(DQNPolicy):\n"
        "    config = dict(type='config_test_own')\n"
        "main_config = dict(exp_name='own')\n"
        "create_config = dict(env=dict(type='config_test'),\n"
        "    policy=dict(type='config_test_own', import_names=['config_test_own']))\n"
    )
    for _ in range(2):
        assert compile_config(str(path)).policy.type == "config_test_own"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raise ValueError('one\\ntwo')", r"'config_test_failing' fails: .*failing\.py, line 1: ValueError: one\.$"),
        ("import sys\nsys.exit(3)", r"'config_test_failing' fails: .*failing\.py, line 2: SystemExit: 3\.$"),
        ("\nx = (", r"'config_test_failing' fails: .*failing\.py, line 2: SyntaxError: '\(' was never closed\.$"),
        ("raise ValueError", r"'config_test_failing' fails: .*failing\.py, line 1: ValueError\.$"),
    ],
)
def test_a_module_of_import_names_that_fails_is_named_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    (tmp_path / "config_test_failing.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=message):
        compile_config(pair(env=dict(type="config_test", import_names=["config_test_failing"])))


def test_atari_without_ale_py_is_an_error_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (ATARI, ATARI.replace("_env", "_engine")):
        monkeypatch.delitem(sys.modules, name, raising=False)  # so that it imports the package again
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(ConfigError, match=r"^Atari games need the package ale-py \(.*\): pip install 'ale-py>=0"):
        compile_config(pair(env=dict(type="atari", import_names=[ATARI])))


# Reward models.


def test_a_reward_model_has_a_section_of_its_own_keys() -> None:
    cfg = compile_config(pair(dict(reward_model=dict(scale=2.0, learn=dict(steps=3))), **REWARDED))
    assert cfg.reward_model == dict(type="config_test", import_names=[], scale=2.0, learn=dict(steps=3))
    assert compile_config(pair(**REWARDED)).reward_model.scale == 1.0


# Keys of options.

OPTIONS = [  # what turns an option on, and the keys that the config then has
    ("tracker.type=wandb", "tracker.project tracker.name tracker.group tracker.tags tracker.patience tracker.options"),
    ("env.stop_value=0", "env.n_confirm_episode env.expected_env_step"),
    ("env.norm_obs=True", "env.norm_obs.offline_stats.use_offline_stats"),
    ("env.norm_reward=True", "env.norm_reward.reward_discount env.norm_reward.clip"),
    ("env.manager.type=subprocess", "env.manager.step_timeout env.manager.max_retry"),
    (
        "policy.multi_gpu=True",
        "policy.bp_update_sync policy.data_parallel policy.learn.learner.hook.check_ranks_after_iter",
    ),
    ("policy.learn.grad_clip_type=clip_norm", "policy.learn.grad_clip_value"),
    ("policy.learn.optimizer=sgd", "policy.learn.momentum"),
    ("policy.priority=True", "policy.priority_IS_weight policy.other.replay_buffer.alpha"),
]


def keys_of(*overrides: str) -> set[str]:
    cfg = compile_config(CARTPOLE, overrides=overrides)
    assert not any("has no effect" in note for note in cfg.pop("notes"))
    return {path for path, _ in dotted_items(cfg)}


def test_a_dqn_has_77_keys_at_most() -> None:
    shapes = ("policy.model.obs_shape=4", "policy.model.action_shape=2")
    assert len(keys_of("env.stop_value=None", *shapes)) <= 77


@pytest.mark.parametrize(("option", "keys"), OPTIONS, ids=[option.partition("=")[0] for option, _ in OPTIONS])
def test_the_keys_of_an_option_are_there_with_the_option(option: str, keys: str) -> None:
    plain = keys_of("env.stop_value=None")
    assert plain.isdisjoint(keys.split())
    assert set(keys.split()) <= keys_of(option) - plain


def test_a_key_of_an_option_that_is_off_has_no_effect_with_a_note() -> None:
    policy = dict(noisy_net=True, learn=dict(grad_clip_value=2), other=dict(eps=dict(start=0.4, decay=10000)))
    main = dict(env=dict(env_id="CartPole-v1"), policy=policy)
    cfg = compile_config((main, dict(policy=dict(type="dqn"))), overrides=["env.manager.max_retry=9"])
    assert cfg.notes == [
        f"{key} has no effect: it is used only if {option}."
        for key, option in (
            ("env.manager.max_retry=9", "env.manager.type=subprocess"),
            ("policy.learn.grad_clip_value=2", "policy.learn.grad_clip_type is set"),
            ("policy.other.eps.start=0.4", "policy.noisy_net=False"),  # that decay is the default
        )
    ]
    assert "eps" not in cfg.policy.other
