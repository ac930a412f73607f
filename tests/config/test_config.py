"""What a user writes is what runs, or a line says why not, before anything starts."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from easydict import EasyDict
from gymnasium.spaces import Box

from ding_lite.config import compile_config, read_config
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError
from tests.config.helpers import CARTPOLE, BasePolicy, TinyEnv, TinyPolicy, nested, pair

# Merging.


def test_defaults_of_all_classes_come_together() -> None:
    cfg = compile_config(pair())
    assert (cfg.exp_name, cfg.seed) == ("default_experiment", 0)
    assert (cfg.env.collector_env_num, cfg.env.difficulty, cfg.env.stop_value) == (8, 1, 10.0)
    assert (cfg.policy.learn.batch_size, cfg.policy.learn.mode) == (64, "fast")  # base class, class
    assert cfg.policy.other.replay_buffer == dict(type="uniform", replay_buffer_size=1000)
    assert cfg.policy.model == {}
    assert cfg.notes == []


def test_higher_layers_win() -> None:
    main = dict(policy=dict(learn=dict(batch_size=3, learning_rate=0.3)))
    create_policy = dict(type="config_test", learn=dict(batch_size=2, learning_rate=0.2, theta=0.2))
    cfg = compile_config(pair(main, policy=create_policy), overrides=["policy.learn.batch_size=4"])
    # override 4 over main 3 over create 2 over class 64; main 0.3 over create 0.2; create 0.2 over None
    assert (cfg.policy.learn.batch_size, cfg.policy.learn.learning_rate, cfg.policy.learn.theta) == (4, 0.3, 0.2)


def test_a_tilde_in_exp_name_is_the_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert compile_config(pair(), overrides=["exp_name=~/runs/x"]).exp_name == "/home/me/runs/x"


def test_seed_argument_wins_over_the_configs_seed() -> None:
    assert compile_config(pair(dict(seed=3))).seed == 3
    assert compile_config(pair(dict(seed=3)), seed=0).seed == 0
    with pytest.raises(
        ConfigError, match="seed: expected a number from 0 to 9223372036854775807, got 9223372036854775808"
    ):
        compile_config(pair(dict(seed=3)), seed=2**63)  # a run could not save it


@pytest.mark.parametrize("kind", [dict, EasyDict])
def test_what_the_user_passed_in_is_not_modified(kind: type[dict[str, Any]]) -> None:
    main = kind(
        policy=dict(learn=dict(multi_gpu=True, batch_size=2), model=dict(sizes=(1, 2))), env=dict(is_train=True)
    )
    create = kind(
        env=dict(type="config_test"), env_manager=dict(type="async_subprocess"), policy=dict(type="config_test_command")
    )
    before = copy.deepcopy((main, create))
    cfg = compile_config((main, create), seed=7, overrides=["policy.learn.batch_size=5", "exp_name=x"])
    cfg.policy.model.sizes.append(3)
    cfg.env.manager.type = "changed"
    assert (main, create) == before


def test_compiling_does_not_leak_into_class_defaults() -> None:
    before = copy.deepcopy((BasePolicy.config, TinyPolicy.config, TinyEnv.config))
    cfg = compile_config(pair(dict(policy=dict(learn=dict(schedule=dict(a=1))))))
    cfg.policy.learn.schedule.a = 2
    cfg.env.kwargs.x = 1
    assert (BasePolicy.config, TinyPolicy.config, TinyEnv.config) == before
    assert compile_config(pair()).env.kwargs == {}


def test_numpy_numbers_become_python_numbers_and_tuples_lists() -> None:
    shape = Box(0, 1, (np.int64(4), 84, 84)).shape
    cfg = compile_config(pair(dict(policy=dict(model=dict(obs_shape=shape, action_shape=np.int64(6))))))
    assert cfg.policy.model == dict(obs_shape=[4, 84, 84], action_shape=6)
    assert type(cfg.policy.model.action_shape) is int


# Unknown keys.


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("exp_nam", "exp_name"),
        ("env.collector_env_nun", "env.collector_env_num"),
        ("env.dificulty", "env.difficulty"),
        ("policy.learn.batchsize", "policy.learn.batch_size"),
        ("policy.model.szes", "policy.model.sizes"),
        ("policy.other.replay_buffer.replay_bufer_size", "policy.other.replay_buffer.replay_buffer_size"),
        # right name, wrong level
        ("policy.batch_size", "policy.learn.batch_size"),
        ("policy.stop_value", "env.stop_value"),
    ],
)
@pytest.mark.parametrize("by", ["main", "create", "override"])
def test_misspelt_key_is_an_error_that_names_the_closest(wrong: str, right: str, by: str) -> None:
    overrides: list[str] = []
    main, create = pair()
    if by == "main":
        main = nested(wrong, 1)
    elif by == "create" and wrong.split(".")[0] in ("env", "policy"):
        section, _, rest = wrong.partition(".")
        create = pair(**{section: {"type": "config_test", **nested(rest, 1)}})[1]
    else:
        overrides = [f"{wrong}=1"]
    with pytest.raises(ConfigError) as error:
        compile_config((main, create), overrides=overrides)
    assert str(error.value) == f"Unknown key '{wrong}'. Did you mean '{right}'?"


def test_option_of_a_buffer_that_is_not_in_use_is_unknown() -> None:
    cfg = compile_config(pair(nested("policy.other.replay_buffer.chunk", 2), replay_buffer=dict(type="config_test")))
    assert cfg.policy.other.replay_buffer == dict(type="config_test", replay_buffer_size=1000, chunk=2)
    with pytest.raises(ConfigError, match=r"Unknown key 'policy.other.replay_buffer.chunk'"):
        compile_config(pair(nested("policy.other.replay_buffer.chunk", 2)))


def test_content_of_a_declared_free_dict_is_not_checked() -> None:
    main = dict(policy=dict(learn=dict(schedule={"any": [1, {"thing": None}]})), env=dict(kwargs=dict(render_fps=4)))
    cfg = compile_config(pair(main))
    assert cfg.policy.learn.schedule == {"any": [1, {"thing": None}]}
    assert cfg.env.kwargs == dict(render_fps=4)


# Types.


@pytest.mark.parametrize(
    ("path", "value", "expected", "got"),
    [
        ("seed", True, "int", "bool True"),
        ("env.collector_env_num", "8", "int", "str '8'"),
        ("env.stop_value", "20", "float or None", "str '20'"),
        ("env.clip_rewards", 1, "bool", "int 1"),
        ("env.kwargs", [1], "dict", "list [1]"),
        ("env.manager", "base", "a dict of options", "str 'base'"),
        ("policy.learn", None, "a dict of options", "NoneType None"),
        ("policy.learn.batch_size", 1e6, "int", "float 1000000.0"),
        ("policy.learn.learning_rate", "1e-3", "float", "str '1e-3'"),
        ("policy.model.obs_shape", [4, "84"], "int or list[int]", "list [4, '84']"),
        ("policy.model.action_shape", [6], "int", "list [6]"),
    ],
)
def test_wrong_type_names_key_expected_and_got(path: str, value: Any, expected: str, got: str) -> None:
    with pytest.raises(ConfigError) as error:
        compile_config(pair(nested(path, value)))
    assert str(error.value).startswith(f"{path}: expected {expected}, got {got}.")


def test_objects_that_a_file_cannot_hold_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"main_config\.policy\.model\.sizes\[1\]: expected a number.* got .*lambda"):
        compile_config(pair(nested("policy.model.sizes", [1, lambda x: x])))
    with pytest.raises(ConfigError, match=r"main_config\.env: expected strings as keys, got int 3"):
        compile_config(pair({"env": {3: 4}}))


def test_what_holds_itself_or_nests_too_deep_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    for value in (circle, nested(".".join("a" * 5000), 1)):
        with pytest.raises(ConfigError, match=r"main_config\.env\.kwargs.*nested deeper than 50 levels"):
            compile_config(pair({"env": {"kwargs": value}}))


def test_a_message_is_one_short_line_whatever_it_quotes() -> None:
    with pytest.raises(ConfigError) as error:
        compile_config(pair({"a\nb\x1b[2J\u200b": 1}))
    assert str(error.value).startswith("Unknown key 'a\\nb\\x1b[2J\\u200b'.")
    with pytest.raises(ConfigError) as error:
        compile_config(pair({"x" * 10**6: 1}))
    assert len(str(error.value)) <= 400
    assert str(error.value).endswith("exp_name, max_seconds, policy, seed, tracker.")


def test_model_parameters_are_those_of_the_chosen_model() -> None:
    main = dict(policy=dict(model=dict(type="config_test_wide", width=3)))
    assert compile_config(pair(main)).policy.model == dict(type="config_test_wide", width=3)
    with pytest.raises(ConfigError, match=r"Unknown key 'policy\.model\.width'"):
        compile_config(pair(nested("policy.model.width", 3)))
    with pytest.raises(ConfigError, match=r"Unknown model type 'config_test_wde'\. Did you mean 'config_test_wide'"):
        compile_config(pair(nested("policy.model.type", "config_test_wde")))


def test_model_section_is_free_when_a_model_is_given() -> None:
    main = nested("policy.model.whatever", [1])
    assert compile_config(pair(main), model_given=True).policy.model == dict(whatever=[1])
    with pytest.raises(ConfigError, match=r"Unknown key 'policy\.model\.whatever'"):
        compile_config(pair(main))


# Which loop trains a policy, and sizes that processes share.


@pytest.mark.parametrize(
    ("kind", "key", "value"), [("ppo", "on_policy", True), ("bc", "offline", True), ("dqn", "on_policy", False)]
)
def test_keys_that_say_what_the_class_says_compile(kind: str, key: str, value: bool) -> None:
    collect = dict(n_sample=64) if kind == "ppo" else {}
    main = dict(env=dict(env_id="CartPole-v1"), policy={key: value, "collect": collect})
    assert key not in compile_config((main, dict(policy=dict(type=kind)))).policy


def test_a_class_whose_config_contradicts_its_pipeline_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    class Declares(TinyPolicy):
        config = dict(type="config_test_loop", on_policy=True)

    monkeypatch.setitem(POLICY_REGISTRY, "config_test_loop", Declares)
    with pytest.raises(ConfigError, match="`learns_from`, such as learns_from = 'collect'"):
        compile_config(pair(policy=dict(type="config_test_loop")))
    Declares.learns_from = "collect"
    assert compile_config(pair(policy=dict(type="config_test_loop"))).policy.on_policy


# Overrides.


def test_overrides_are_python_values_or_texts() -> None:
    items = ["policy.learn.theta=None", "policy.model.sizes=[1, 2]", "policy.cuda=True", "exp_name=data/run=1"]
    cfg = compile_config(pair(), overrides=[*items, "env.kwargs={'a': 1}", "env.type=config_test"])
    assert (cfg.policy.learn.theta, cfg.policy.model.sizes, cfg.policy.cuda) == (None, [1, 2], True)
    assert (cfg.exp_name, cfg.env.kwargs) == ("data/run=1", {"a": 1})


def test_override_of_a_text_may_look_like_a_number() -> None:
    assert compile_config(pair(), overrides=["exp_name=007"]).exp_name == "007"
    assert compile_config(pair(), overrides=["exp_name=12"]).exp_name == "12"


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("policy.learn.batch_size", "expected dotted.key=value"),
        ("=3", "expected dotted.key=value"),
        ("policy.learn.batch_size.x=3", "expected 'batch_size' to be a dict of options, got int 2"),
        ("policy.cuda=true", r"policy.cuda: expected bool, got str 'true': write True\."),
        ("env.stop_value=none", r"env.stop_value: expected float or None, got str 'none': write None\."),
        ("policy.learn.batch_size=", "policy.learn.batch_size: expected int, got str ''"),
        ("policy..x=3", r"Unknown key 'policy\.\.x'|Unknown key 'policy\.'"),
    ],
)
def test_wrong_overrides(item: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compile_config(pair(nested("policy.learn.batch_size", 2)), overrides=[item])


@pytest.mark.parametrize(
    ("word", "key"),
    [
        ("gamma", "policy.discount_factor"),
        ("policy.learn.lr", "policy.learn.learning_rate"),
        ("n_envs", "env.collector_env_num"),
        ("net_arch", "policy.model.encoder_hidden_size_list"),
        ("device", "policy.cuda"),
        ("buffer_size", "policy.other.replay_buffer.replay_buffer_size"),
        ("num_timesteps", "max_env_step"),
        ("max_iterations", "max_train_iter"),
        ("step_per_collect", "policy.collect.n_sample"),
        ("exploration_final_eps", "policy.other.eps.end"),
        ("policy.learn.optim_type", "policy.learn.optimizer"),
        ("stop_value", "env.stop_value"),
        ("batch_size", "policy.learn.batch_size"),
        ("policy.learn.BATCH_SIZE", "policy.learn.batch_size"),
    ],
)
def test_a_key_of_another_library_or_without_its_sections_is_answered_by_ours(word: str, key: str) -> None:
    with pytest.raises(ConfigError, match=rf"^Unknown key '{word}'\. Did you mean '{key}'\?"):
        compile_config(str(CARTPOLE), overrides=[f"{word}=3"])


def test_words_name_the_parts_of_create_config_too() -> None:
    assert compile_config(str(CARTPOLE), overrides=["env_manager.type=subprocess"]).env.manager.type == "subprocess"
    main, create = read_config(CARTPOLE)
    with pytest.raises(ConfigError, match=r"create_config\.env_manager\.type 'async'.* Known: base, subprocess, "):
        compile_config((main, create | {"env_manager": {"type": "async"}}))
    with pytest.raises(ConfigError, match=r"create_config\.env_manager: expected a dict.* Its types: base, "):
        compile_config((main, create | {"env_manager": "async"}))
