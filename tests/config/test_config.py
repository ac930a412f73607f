"""What a user writes is what runs, or a line says why not, before anything starts."""

from __future__ import annotations

import copy
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import gymnasium
import numpy as np
import pytest
from easydict import EasyDict
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from ding_lite.config import check_shapes, compile_config, read_config, save_config
from ding_lite.config.compat import IGNORED_KEYS, RENAMED_KEYS
from ding_lite.config.schema import describe, get_key, matches, set_key
from ding_lite.envs.vector_env import EnvSpec, check_env
from ding_lite.policy import DQNPolicy
from ding_lite.utils.registry import (
    BUFFER_REGISTRY,
    ENV_REGISTRY,
    MODEL_REGISTRY,
    POLICY_REGISTRY,
    ConfigError,
)

ROOT = Path(__file__).parents[2]
CARTPOLE = ROOT / "dizoo/classic_control/cartpole/config/cartpole_dqn_config.py"
PPO = ROOT / "dizoo/classic_control/cartpole/config/cartpole_ppo_config.py"
PONG = ROOT / "dizoo/atari/pong_dqn_ddp_config.py"


class TinyModel:
    def __init__(
        self, obs_shape: int | Sequence[int], action_shape: int, sizes: Sequence[int] = (8,), act: str | None = None
    ) -> None:
        self.arguments = (obs_shape, action_shape, sizes, act)


class WideModel(TinyModel):
    def __init__(self, obs_shape: int, action_shape: int, width: int) -> None:
        super().__init__(obs_shape, action_shape, (width,))


class BasePolicy:
    config = dict(
        type="base",
        on_policy=False,
        cuda=False,
        multi_gpu=False,
        priority=False,
        nstep=1,
        discount_factor=0.99,
        model=dict(),
        learn=dict(batch_size=64, learning_rate=0.001, schedule=dict()),
        collect=dict(n_sample=None, n_episode=None),
        other=dict(),
    )
    config_types = {"collect.n_sample": (int, None), "collect.n_episode": (int, None), "learn.schedule": dict}

    def default_model(self):  # a plain method, as DI-engine writes it
        return "config_test", ["ding_lite.model"]

    @classmethod
    def check_config(cls, cfg):
        if cfg.policy.learn.learning_rate == 0.5:
            raise ConfigError("policy.learn.learning_rate=0.5 contradicts env.type")


class TinyPolicy(BasePolicy):
    config = dict(
        learn=dict(theta=None, mode="fast"),
        other=dict(replay_buffer=dict(type="", replay_buffer_size=1000)),
        eval=dict(evaluator=dict(eval_freq=10)),
    )
    config_types = {"learn.theta": (float, type(None)), "learn.mode": Literal["fast", "slow"]}
    action_spaces = (Discrete,)


class PlainPolicy(BasePolicy):
    config = dict(type="config_test_plain")


class TinyBuffer:
    config = dict(chunk=4)


class TinyEnv(gymnasium.Env):
    config = dict(stop_value=10.0, difficulty=1)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """Keep the classes of this file out of what other tests find in the registries."""
    monkeypatch.setitem(MODEL_REGISTRY, "config_test", TinyModel)
    monkeypatch.setitem(MODEL_REGISTRY, "config_test_wide", WideModel)
    monkeypatch.setitem(POLICY_REGISTRY, "config_test", TinyPolicy)
    monkeypatch.setitem(POLICY_REGISTRY, "config_test_plain", PlainPolicy)
    monkeypatch.setitem(BUFFER_REGISTRY, "config_test", TinyBuffer)
    monkeypatch.setitem(ENV_REGISTRY, "config_test", TinyEnv)


def pair(main: dict | None = None, **create: dict) -> tuple[dict, dict]:
    base = dict(env=dict(type="config_test"), policy=dict(type="config_test"))
    return main or {}, {**base, **create}


def nested(path: str, value: object) -> dict:
    cfg: dict = {}
    set_key(cfg, path, value)
    return cfg


# Merging.


def test_defaults_of_all_classes_come_together():
    cfg = compile_config(pair())
    assert (cfg.exp_name, cfg.seed) == ("default_experiment", 0)
    assert (cfg.env.collector_env_num, cfg.env.difficulty, cfg.env.stop_value) == (8, 1, 10.0)
    assert (cfg.policy.learn.batch_size, cfg.policy.learn.mode) == (64, "fast")  # base class, class
    assert cfg.policy.other.replay_buffer == dict(type="uniform", replay_buffer_size=1000)
    assert cfg.policy.model == {}
    assert cfg.notes == []


def test_higher_layers_win():
    main = dict(policy=dict(learn=dict(batch_size=3, learning_rate=0.3)))
    create_policy = dict(type="config_test", learn=dict(batch_size=2, learning_rate=0.2, theta=0.2))
    cfg = compile_config(pair(main, policy=create_policy), overrides=["policy.learn.batch_size=4"])
    # override 4 over main 3 over create 2 over class 64; main 0.3 over create 0.2; create 0.2 over None
    assert (cfg.policy.learn.batch_size, cfg.policy.learn.learning_rate, cfg.policy.learn.theta) == (4, 0.3, 0.2)


def test_seed_argument_wins_over_the_configs_seed():
    assert compile_config(pair(dict(seed=3))).seed == 3
    assert compile_config(pair(dict(seed=3)), seed=0).seed == 0


@pytest.mark.parametrize("kind", [dict, EasyDict])
def test_what_the_user_passed_in_is_not_modified(kind):
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


def test_compiling_does_not_leak_into_class_defaults():
    before = copy.deepcopy((BasePolicy.config, TinyPolicy.config, TinyEnv.config))
    cfg = compile_config(pair(dict(policy=dict(learn=dict(schedule=dict(a=1))))))
    cfg.policy.learn.schedule.a = 2
    cfg.env.kwargs.x = 1
    assert (BasePolicy.config, TinyPolicy.config, TinyEnv.config) == before
    assert compile_config(pair()).env.kwargs == {}


def test_numpy_numbers_become_python_numbers_and_tuples_lists():
    shape = Box(0, 1, (np.int64(4), 84, 84)).shape
    cfg = compile_config(pair(dict(policy=dict(model=dict(obs_shape=shape, action_shape=np.int64(6))))))
    assert cfg.policy.model == dict(obs_shape=[4, 84, 84], action_shape=6)
    assert type(cfg.policy.model.action_shape) is int


# Unknown keys.


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("exp_nam", "exp_name"),
        ("polcy", "policy"),
        ("env.collector_env_nun", "env.collector_env_num"),
        ("env.dificulty", "env.difficulty"),
        ("env.manager.typ", "env.manager.type"),
        ("policy.lern", "policy.learn"),
        ("policy.learn.batchsize", "policy.learn.batch_size"),
        ("policy.model.szes", "policy.model.sizes"),
        ("policy.other.replay_bufer", "policy.other.replay_buffer"),
        ("policy.other.replay_buffer.replay_bufer_size", "policy.other.replay_buffer.replay_buffer_size"),
        ("policy.eval.evaluator.eval_frq", "policy.eval.evaluator.eval_freq"),
        # right name, wrong level
        ("policy.batch_size", "policy.learn.batch_size"),
        ("batch_size", "policy.learn.batch_size"),
        ("policy.learn.n_sample", "policy.collect.n_sample"),
        ("policy.stop_value", "env.stop_value"),
        ("policy.eval.eval_freq", "policy.eval.evaluator.eval_freq"),
    ],
)
@pytest.mark.parametrize("by", ["main", "create", "override"])
def test_misspelt_key_is_an_error_that_names_the_closest(wrong, right, by):
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


def test_key_like_no_other_lists_what_its_level_knows():
    with pytest.raises(ConfigError, match=r"'policy.learn.zzz'. Known in 'policy.learn': batch_size, learning_rate, "):
        compile_config(pair(nested("policy.learn.zzz", 1)))


def test_option_of_a_buffer_that_is_not_in_use_is_unknown():
    cfg = compile_config(pair(nested("policy.other.replay_buffer.chunk", 2), replay_buffer=dict(type="config_test")))
    assert cfg.policy.other.replay_buffer == dict(type="config_test", replay_buffer_size=1000, chunk=2)
    with pytest.raises(ConfigError, match=r"Unknown key 'policy.other.replay_buffer.chunk'"):
        compile_config(pair(nested("policy.other.replay_buffer.chunk", 2)))


def test_section_without_options_takes_none():
    assert compile_config(pair(policy=dict(type="config_test_plain"))).policy.other == {}
    with pytest.raises(ConfigError, match=r"Unknown key 'policy\.other\.anything'"):
        compile_config(pair(nested("policy.other.anything", 1), policy=dict(type="config_test_plain")))


def test_content_of_a_declared_free_dict_is_not_checked():
    main = dict(policy=dict(learn=dict(schedule={"any": [1, {"thing": None}]})), env=dict(kwargs=dict(render_fps=4)))
    cfg = compile_config(pair(main))
    assert cfg.policy.learn.schedule == {"any": [1, {"thing": None}]}
    assert cfg.env.kwargs == dict(render_fps=4)


# Types.


@pytest.mark.parametrize(
    ("path", "value", "expected", "got"),
    [
        ("seed", True, "int", "bool True"),
        ("seed", 0.5, "int", "float 0.5"),
        ("exp_name", 3, "str", "int 3"),
        ("env.collector_env_num", "8", "int", "str '8'"),
        ("env.stop_value", "20", "float or None", "str '20'"),
        ("env.clip_rewards", 1, "bool", "int 1"),
        ("env.collector_env_num", None, "int", "NoneType None"),
        ("env.kwargs", [1], "dict", "list [1]"),
        ("env.manager", "base", "a dict of options", "str 'base'"),
        ("policy.cuda", "yes", "bool", "str 'yes'"),
        ("policy.learn", None, "a dict of options", "NoneType None"),
        ("policy.learn.batch_size", 1e6, "int", "float 1000000.0"),
        ("policy.learn.learning_rate", "1e-3", "float", "str '1e-3'"),
        ("policy.learn.learning_rate", True, "float", "bool True"),
        ("policy.learn.theta", "x", "float or None", "str 'x'"),
        ("policy.learn.mode", "quick", "Literal['fast', 'slow']", "str 'quick'"),
        ("policy.model.obs_shape", "4", "int or list[int]", "str '4'"),
        ("policy.model.obs_shape", [4, "84"], "int or list[int]", "list [4, '84']"),
        ("policy.model.action_shape", [6], "int", "list [6]"),
        ("policy.model.act", 1, "str or None", "int 1"),
    ],
)
def test_wrong_type_names_key_expected_and_got(path, value, expected, got):
    with pytest.raises(ConfigError) as error:
        compile_config(pair(nested(path, value)))
    assert str(error.value) == f"{path}: expected {expected}, got {got}."


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("policy.learn.learning_rate", 1),
        ("policy.learn.theta", None),
        ("policy.learn.theta", 1),
        ("env.stop_value", None),
        ("env.stop_value", math.inf),
        ("policy.model.act", None),
        ("policy.model.sizes", (1, 2)),
        ("policy.model.obs_shape", [4, 84, 84]),
        ("policy.learn.mode", "slow"),
    ],
)
def test_values_of_a_fitting_type_are_taken(path, value):
    assert get_key(compile_config(pair(nested(path, value))), path) == (
        list(value) if isinstance(value, tuple) else value
    )


def test_objects_that_a_file_cannot_hold_are_refused():
    with pytest.raises(ConfigError, match=r"main_config\.policy\.model\.sizes\[1\]: expected numbers.* got .*lambda"):
        compile_config(pair(nested("policy.model.sizes", [1, lambda x: x])))
    with pytest.raises(ConfigError, match=r"main_config\.env: expected names as keys, got int 3"):
        compile_config(pair({"env": {3: 4}}))


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def test_an_object_that_cannot_be_shown_is_refused_by_its_type():
    with pytest.raises(ConfigError, match=r"main_config\.seed: .* got Unshowable \(its repr fails with RuntimeError\)"):
        compile_config(pair(dict(seed=Unshowable())))


def test_what_holds_itself_or_nests_too_deep_is_refused():
    circle: list = []
    circle.append(circle)
    deep: dict = {}
    for _ in range(5000):
        deep = {"a": deep}
    for value in (circle, deep):
        with pytest.raises(ConfigError, match=r"main_config\.env\.kwargs.*nested deeper than 50 levels"):
            compile_config(pair({"env": {"kwargs": value}}))


def test_a_message_is_one_short_line_whatever_it_quotes():
    with pytest.raises(ConfigError) as error:
        compile_config(pair({"a\nb\x1b[2J\u200b": 1}))
    assert str(error.value).startswith("Unknown key 'a\\nb\\x1b[2J\\u200b'.")
    with pytest.raises(ConfigError) as error:
        compile_config(pair({"x" * 10**6: 1}))
    assert len(str(error.value)) <= 400
    assert str(error.value).endswith("exp_name, policy, seed.")


def test_literal_true_is_not_one():
    assert not matches(True, Literal[1])
    assert matches(1, Literal[1])
    assert describe((float, type(None))) == "float or None"


def test_model_parameters_are_those_of_the_chosen_model():
    main = dict(policy=dict(model=dict(type="config_test_wide", width=3)))
    assert compile_config(pair(main)).policy.model == dict(type="config_test_wide", width=3)
    with pytest.raises(ConfigError, match=r"Unknown key 'policy\.model\.width'"):
        compile_config(pair(nested("policy.model.width", 3)))
    with pytest.raises(ConfigError, match=r"Unknown model type 'config_test_wde'\. Did you mean 'config_test_wide'"):
        compile_config(pair(nested("policy.model.type", "config_test_wde")))


def test_model_section_is_free_when_a_model_is_given():
    main = nested("policy.model.whatever", [1])
    assert compile_config(pair(main), model_given=True).policy.model == dict(whatever=[1])
    with pytest.raises(ConfigError, match=r"Unknown key 'policy\.model\.whatever'"):
        compile_config(pair(main))


# Contradictions and ranges.


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["policy.collect.n_sample=12"],
            r"n_sample=12 is not a multiple of env.collector_env_num=8: set it to 8 or 16",
        ),
        (["policy.collect.n_sample=4"], r"n_sample=4 is not a multiple of env.collector_env_num=8: set it to 8\."),
        (["env.n_evaluator_episode=20"], r"n_evaluator_episode=20 .* env.evaluator_env_num=8: set it to 16 or 24"),
        (["policy.collect.n_sample=8", "policy.collect.n_episode=8"], "n_sample or policy.collect.n_episode, not both"),
        (["policy.learn.batch_size=0"], r"policy.learn.batch_size: expected at least 1, got 0"),
        (["policy.learn.batch_size=1001"], r"batch_size=1001 is more than .*replay_buffer_size=1000 holds"),
        (["policy.collect.n_sample=1008"], r"n_sample=1008 is more than .*replay_buffer_size=1000 holds"),
        (["env.collector_env_num=0"], "env.collector_env_num: expected at least 1, got 0"),
        (["policy.discount_factor=1.01"], "policy.discount_factor: expected a number from 0 to 1, got 1.01"),
        (["policy.learn.learning_rate=-1e-4"], "policy.learn.learning_rate: expected at least 0, got -0.0001"),
        (["seed=-1"], "seed: expected at least 0, got -1"),
        (["policy.learn.learning_rate=0.5"], "learning_rate=0.5 contradicts env.type"),  # the policy's own check
        (
            ["policy.priority=True", "policy.other.replay_buffer.type=uniform"],
            r"type='uniform' contradicts policy.priority=True",
        ),
        (["policy.other.replay_buffer.type=prioritized"], r"type='prioritized' contradicts policy.priority=False"),
    ],
)
def test_contradictions_are_errors(overrides, message):
    with pytest.raises(ConfigError, match=message):
        compile_config(pair(), overrides=overrides)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("policy.learn.learning_rate", math.inf, "expected a number from 0 to 1000000, got inf"),
        ("policy.learn.weight_decay", -0.1, "expected at least 0, got -0.1"),
        ("policy.learn.target_update_freq", 0, "expected at least 1, got 0"),
        ("policy.learn.learner.hook.log_show_after_iter", 0, "expected at least 1, got 0"),
        ("policy.learn.learner.hook.save_ckpt_after_iter", -1, "expected at least 1, got -1"),
        ("policy.num_threads", 10**6, "expected a number from 1 to 4096, got 1000000"),
        ("policy.num_threads", -1, "expected at least 1, got -1"),
        ("env.frame_stack", 10**9, "expected a number from 0 to 4096, got 1000000000"),
        ("env.collector_env_num", 10**9, "expected a number from 1 to 4096"),
        ("env.max_episode_steps", 2**31, "expected a number from 1 to 2147483647"),
        ("env.manager.step_timeout", 0.0, "expected at least 0.001, got 0.0"),
        ("env.manager.max_retry", -1, "expected at least 0, got -1"),
        ("policy.model.encoder_hidden_size_list", [64, 0], "expected at least 1, got 0"),
        ("policy.model.encoder_hidden_size_list", [10**9], "expected a number from 1 to 65536"),
        ("policy.model.encoder_hidden_size_list", [], "expected at least one layer's size, got []"),
        ("policy.model.head_layer_num", 10**6, "expected a number from 0 to 1000, got 1000000"),
        ("policy.other.replay_buffer.replay_buffer_size", 10**12, "expected a number from 1 to 2147483647"),
        ("policy.nstep", 10**6, "replay_buffer_size=20000 is too small: 8 environments need at least 8000008 "),
        ("seed", 2**64, "expected a number of at most 64 bits, got int 18446744073709551616"),
        ("seed", [10**5000], r"expected a number of at most 64 bits, got int \(its repr fails with ValueError\)"),
        ("exp_name", " ", "expected the name of a directory, got str ' '"),
        ("exp_name", "a\0b", "expected the name of a directory"),
        ("exp_name", "\ud800", r"expected a text that a file can hold, got str '\\ud800'"),
        ("policy.other.replay_buffer.type", [3], r"Unknown replay buffer type '\[3\]'"),
    ],
)
def test_a_number_that_cannot_work_is_refused_with_its_key(path, value, message):
    main, create = read_config(CARTPOLE)
    set_key(main, path, value)
    with pytest.raises(ConfigError, match=message.replace("[]", r"\[\]")) as error:
        compile_config((main, create))
    assert path.rpartition(".")[2] in str(error.value) or "replay buffer type" in message


@pytest.mark.parametrize(
    ("config", "overrides", "message"),
    [
        (CARTPOLE, ["policy.other.replay_buffer.replay_buffer_size=2000000000"], "replay_buffer_size=2000000000 takes"),
        (CARTPOLE, ["policy.model.encoder_hidden_size_list=[65536,65536]"], r"size_list=\[65536, 65536\] takes 64 GiB"),
        (PPO, ["policy.collect.n_sample=800000000"], "policy.collect.n_sample=800000000 takes"),
        (PPO, ["policy.model.actor_head_hidden_size=65536", "policy.model.actor_head_layer_num=2"], "takes 128 GiB"),
    ],
)
def test_more_than_memory_can_hold_is_refused_before_anything_starts(monkeypatch, config, overrides, message):
    monkeypatch.setattr("os.sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2**20}.__getitem__)  # 4 GiB
    cfg = compile_config(config, overrides=overrides)
    with pytest.raises(ConfigError, match=f"{message}.* and this machine has 4 GiB: lower it"):
        check_shapes(cfg, check_env(cfg.env))


def test_frames_of_a_stack_are_held_once(monkeypatch):
    # 4 * 84 * 84 bytes an observation, of which the replay buffer keeps a quarter: 100,000 are 0.66 GiB
    monkeypatch.setattr("os.sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2**18}.__getitem__)  # 1 GiB
    cfg = compile_config(PONG)
    spec = EnvSpec(Box(0, 255, (4, 84, 84), np.uint8), Discrete(6), 4)
    check_shapes(cfg, spec)
    cfg.policy.other.replay_buffer.replay_buffer_size = 200_000
    with pytest.raises(ConfigError, match=r"takes 1\.31 GiB"):
        check_shapes(cfg, spec)


def test_not_a_number_is_out_of_every_range():
    with pytest.raises(ConfigError, match=r"policy.discount_factor: expected a number from 0 to 1, got nan"):
        compile_config(pair(nested("policy.discount_factor", math.nan)))


def test_priority_decides_the_buffer():
    assert compile_config(pair(), overrides=["policy.priority=True"]).policy.other.replay_buffer.type == "prioritized"


# Types of parts.


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
        (dict(policy=dict(type="config_test", import_names=[1])), r"policy.import_names: expected a list of module"),
        (dict(env_manger=dict(type="base")), "'create_config.env_manger'. Did you mean 'env_manager'"),
        (dict(env="config_test"), r"create_config.env: expected a dict such as dict\(type=...\), got str"),
    ],
)
def test_mistakes_in_create_config(create, message):
    with pytest.raises(ConfigError, match=message):
        compile_config(pair(**create))


@pytest.mark.parametrize("value", [None, {}, ({},), ({}, 1), ({}, {}, {}), 3])
def test_something_that_is_no_pair(value):
    with pytest.raises(ConfigError, match=r"Expected \(main_config, create_config\) or the path"):
        compile_config(value)


def test_import_names_register_the_parts(tmp_path, monkeypatch):
    (tmp_path / "config_test_plugin.py").write_text(
        "import gymnasium\nfrom ding_lite.utils.registry import ENV_REGISTRY\n"
        "@ENV_REGISTRY.register('config_test_plugin')\nclass Plugin(gymnasium.Env):\n    config = dict(level=2)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(ENV_REGISTRY, "config_test_plugin", None)  # so that the real entry is taken out again
    del ENV_REGISTRY["config_test_plugin"]
    cfg = compile_config(pair(env=dict(type="config_test_plugin", import_names=["config_test_plugin"])))
    assert cfg.env.level == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raise ValueError('one\\ntwo')", r"'config_test_failing' fails: .*failing\.py, line 1: ValueError: one\.$"),
        ("import sys\nsys.exit(3)", r"'config_test_failing' fails: .*failing\.py, line 2: SystemExit: 3\.$"),
        ("\nx = (", r"'config_test_failing' fails: .*failing\.py, line 2: SyntaxError: '\(' was never closed\.$"),
        ("raise ValueError", r"'config_test_failing' fails: .*failing\.py, line 1: ValueError\.$"),
    ],
)
def test_a_module_of_import_names_that_fails_is_named_with_its_line(tmp_path, monkeypatch, text, message):
    (tmp_path / "config_test_failing.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=message):
        compile_config(pair(env=dict(type="config_test", import_names=["config_test_failing"])))


@pytest.mark.parametrize("name", ["", ".", ".relative"])
def test_a_name_that_no_module_has_is_an_error(name):
    with pytest.raises(ConfigError, match=r"create_config\.env\.import_names: "):
        compile_config(pair(env=dict(type="config_test", import_names=[name])))


def test_an_environment_that_cannot_be_made_is_named_with_the_reason():
    for env_id, kwargs, reason in (
        ("FrozenLake-v1", dict(map_name="9x9"), "KeyError|'9x9'|9x9"),
        ("CartPole-v1", dict(nothing=1), "nothing"),
    ):
        main = dict(env=dict(env_id=env_id, kwargs=kwargs))
        cfg = compile_config((main, dict(env=dict(type="gymnasium"), policy=dict(type="dqn"))))
        with pytest.raises(ConfigError, match=rf"env\.env_id '{env_id}' cannot be made with env\.kwargs .*({reason})"):
            check_env(cfg.env)


def test_nothing_starts_when_the_config_is_wrong(monkeypatch):
    def fail(*args, **kwargs):
        raise AssertionError("an environment was started")

    monkeypatch.setattr(gymnasium, "make", fail)
    monkeypatch.setattr(TinyEnv, "__init__", fail)
    with pytest.raises(ConfigError):
        compile_config(CARTPOLE, overrides=["policy.learn.bach_size=3"])
    compile_config(CARTPOLE)


# DI-engine's keys.


@pytest.mark.parametrize("path", [path for path in IGNORED_KEYS if not path.startswith("create_config")])
def test_key_without_meaning_is_accepted_with_a_note(path):
    accepted, reason = IGNORED_KEYS[path]
    value = dict(some="thing") if accepted is Any else accepted
    if path in ("policy.nstep", "policy.other.replay_buffer", "policy.priority", "policy.priority_IS_weight"):
        cfg = compile_config((nested(path, value), dict(policy=dict(type="pg"))))
    elif path.startswith("policy.learn.learner"):
        create = dict(env=dict(type="cartpole", import_names=["dizoo.classic_control.cartpole.envs.cartpole_env"]))
        cfg = compile_config((nested(path, value), {**create, "policy": dict(type="dqn")}))
    else:
        cfg = compile_config(pair(nested(path, value)))
    assert cfg.notes == [f"{path} is ignored: {reason}."]
    assert get_key(cfg, path, "absent") == "absent"


def test_key_that_would_need_an_effect_is_refused():
    with pytest.raises(ConfigError, match=r"policy.collect.unroll_len: only 1 is possible here \(.*\), got int 8"):
        compile_config(pair(nested("policy.collect.unroll_len", 8)))


def test_ignored_parts_of_create_config():
    cfg = compile_config(pair(learner=dict(type="base"), collector=dict(type="sample")))
    assert sorted(note.split()[0] for note in cfg.notes) == ["create_config.collector", "create_config.learner"]


@pytest.mark.parametrize(("old", "new"), RENAMED_KEYS.items())
def test_older_name_moves_to_the_new_one(old, new):
    values = {"env.n_evaluator_episode": 16, "env.stop_value": 3, "policy.model.action_space": "discrete"}
    values |= {"policy.discount_factor": 0.5, "policy.learn.grad_clip_value": 5.0}
    value = values.get(new, True)
    if new in ("policy.model.action_space", "policy.learn.adv_norm"):
        kind, overrides = "ppo", ["policy.collect.n_sample=64"]
    else:
        kind, overrides = "dqn", ["policy.priority=True"]
    cfg = compile_config((nested(old, value), dict(policy=dict(type=kind))), overrides=overrides)
    assert get_key(cfg, new) == value
    assert get_key(cfg, old, "absent") == "absent"
    assert cfg.notes == [f"{old} is {new} here."]


def test_older_name_that_the_policy_declares_itself_stays():
    @POLICY_REGISTRY.register("config_test_declares")
    class Declares(DQNPolicy):
        config = dict(type="config_test_declares", learn=dict(discount_factor=0.5))

    cfg = compile_config((nested("policy.learn.discount_factor", 0.25), dict(policy=dict(type="config_test_declares"))))
    assert (cfg.policy.learn.discount_factor, cfg.policy.discount_factor, cfg.notes) == (0.25, 0.99, [])


def test_older_name_of_what_the_policy_lacks_is_unknown_as_it_was_written():
    with pytest.raises(ConfigError, match=r"Unknown key 'policy\.action_space'"):
        compile_config((nested("policy.action_space", "discrete"), dict(policy=dict(type="dqn"))))


def test_older_and_new_name_may_not_disagree():
    main = dict(policy=dict(multi_gpu=False, learn=dict(multi_gpu=True)))
    with pytest.raises(ConfigError, match=r"policy.learn.multi_gpu=True contradicts policy.multi_gpu=False"):
        compile_config(pair(main))


def test_older_types_are_understood():
    cfg = compile_config(
        pair(
            policy=dict(type="config_test_command"),
            env_manager=dict(type="async_subprocess", shared_memory=False),
            replay_buffer=dict(type="advanced"),
        )
    )
    assert (cfg.policy.type, cfg.env.manager.type) == ("config_test", "subprocess")
    assert cfg.policy.other.replay_buffer.type == "uniform"
    assert len(cfg.notes) == 4


# Overrides.


def test_overrides_are_python_values_or_texts():
    items = ["policy.learn.theta=None", "policy.model.sizes=[1, 2]", "policy.cuda=True", "exp_name=data/run=1"]
    cfg = compile_config(pair(), overrides=[*items, "env.kwargs={'a': 1}", "env.type=config_test"])
    assert (cfg.policy.learn.theta, cfg.policy.model.sizes, cfg.policy.cuda) == (None, [1, 2], True)
    assert (cfg.exp_name, cfg.env.kwargs) == ("data/run=1", {"a": 1})


def test_override_of_a_text_may_look_like_a_number():
    assert compile_config(pair(), overrides=["exp_name=007"]).exp_name == "007"
    assert compile_config(pair(), overrides=["exp_name=12"]).exp_name == "12"


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("policy.learn.batch_size", "expected dotted.key=value"),
        ("=3", "expected dotted.key=value"),
        ("policy.learn.batch_size.x=3", "'batch_size' must be a dict of options, got int 2"),
        ("policy.cuda=true", "policy.cuda: expected bool, got str 'true'"),
        ("policy.learn.batch_size=", "policy.learn.batch_size: expected int, got str ''"),
        ("policy..x=3", r"Unknown key 'policy\.\.x'|Unknown key 'policy\.'"),
    ],
)
def test_wrong_overrides(item, message):
    with pytest.raises(ConfigError, match=message):
        compile_config(pair(nested("policy.learn.batch_size", 2)), overrides=[item])


# Files.


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\ny = (\n", r"line 2: SyntaxError: '\(' was never closed"),
        ("x = 1\n\nraise KeyError('boom')\n", r"line 3: KeyError: 'boom'"),
        ("def f():\n    return 1 / 0\n\nf()\n", r"line 2: ZeroDivisionError"),
        ("import sys\nsys.exit(3)\n", r"line 2: SystemExit: 3"),
        ("import no_such_module\n", r"line 1: ModuleNotFoundError"),
        ("create_config = {}\n", "expected a dict called 'main_config'"),
        ("main_config = {}\ncreate_confg = {}\n", "called 'create_config', found none. Did you mean 'create_confg'"),
        ("main_config = 3\ncreate_config = {}\n", "expected a dict called 'main_config'"),
        ("\x00", r"line 1: "),
        ("  main_config: {}\n -", r"line \d: IndentationError"),
    ],
)
def test_broken_config_file_is_one_line_with_its_place(tmp_path, text, message):
    path = tmp_path / "broken.py"
    path.write_text(text)
    for read in (read_config, compile_config):
        with pytest.raises(ConfigError, match=message) as error:
            read(str(path))
        assert str(path) in str(error.value)
        assert "\n" not in str(error.value)


def test_missing_config_file(tmp_path):
    for path in (tmp_path / "absent.py", tmp_path):
        with pytest.raises(ConfigError, match=r"does not exist: give the path"):
            read_config(path)


def test_config_file_is_not_run_as_main_and_not_from_a_cache(tmp_path):
    path = tmp_path / "twice.py"
    text = "main_config = dict(seed={})\ncreate_config = dict(name=__name__)\nassert __name__ != '__main__'\n"
    for seed in (1, 2):
        path.write_text(text.format(seed))
        os.utime(path, (1, 1))  # same size and time: a cached bytecode file would still look fresh
        assert read_config(path)[0] == dict(seed=seed)
    assert not (tmp_path / "__pycache__").exists()


@pytest.mark.parametrize("config", [CARTPOLE, PONG])
def test_saved_config_compiles_to_the_same(tmp_path, config):
    cfg = compile_config(config, seed=5, overrides=["policy.learn.batch_size=16", "env.stop_value=None"])
    check_shapes(cfg, check_env(cfg.env))
    save_config(cfg, tmp_path / "total_config.py", max_env_step=100)
    again = compile_config(tmp_path / "total_config.py")
    assert {**again, "notes": None} == {**cfg, "notes": None}
    save_config(again, tmp_path / "again.py", max_env_step=100)
    assert (tmp_path / "again.py").read_text() == (tmp_path / "total_config.py").read_text()


def test_saved_config_keeps_every_kind_of_value(tmp_path):
    main = dict(
        exp_name="quote ' \" \\ and\nnewline é",
        env=dict(stop_value=math.inf, kwargs={"not a name": [None, True, -0.0, 1e-300, {"if": ()}]}),
        policy=dict(priority=True),
    )
    cfg = compile_config(pair(main, env_manager=dict(type="async_subprocess")))
    save_config(cfg, tmp_path / "c.py")
    again = compile_config(tmp_path / "c.py")
    assert len(cfg.notes) == 1
    assert again.notes == []
    del cfg["notes"], again["notes"]
    assert again == cfg


def test_saved_config_runs_by_itself(tmp_path):
    cfg = compile_config(CARTPOLE, seed=3, overrides=["exp_name=run", "env.stop_value=None"])
    save_config(cfg, tmp_path / "total_config.py", max_env_step=64)
    result = subprocess.run(
        [sys.executable, "total_config.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    again = compile_config(tmp_path / "run" / "total_config.py")
    check_shapes(cfg, check_env(cfg.env))
    assert {**again, "notes": None} == {**cfg, "notes": None}


# Shapes.


def spec(observation=None, action=None, frame_stack=0):
    return EnvSpec(observation or Box(-1, 1, (4,)), action or Discrete(2), frame_stack)


def test_unset_shapes_are_the_environments():
    cfg = compile_config(pair())
    check_shapes(cfg, spec())
    assert cfg.policy.model == dict(obs_shape=4, action_shape=2)
    cfg = compile_config(pair(nested("env.frame_stack", 4)))
    check_shapes(cfg, spec(Box(0, 255, (4, 84, 84), np.uint8), Discrete(6), 4))
    assert cfg.policy.model == dict(obs_shape=[4, 84, 84], action_shape=6)


@pytest.mark.parametrize("given", [4, [4], (4,)])
def test_one_length_may_be_written_as_number_or_list(given):
    cfg = compile_config(pair(nested("policy.model.obs_shape", given)))
    check_shapes(cfg, spec())
    assert cfg.policy.model.action_shape == 2


@pytest.mark.parametrize(
    ("main", "env_spec", "message"),
    [
        (nested("policy.model.obs_shape", 5), spec(), r"obs_shape is 5, but the environment has 4 .*Leave it out"),
        (nested("policy.model.action_shape", 3), spec(), r"action_shape is 3, but the environment has 2 "),
        (
            nested("policy.model.obs_shape", [4, 84, 84]),
            spec(Box(0, 255, (1, 84, 84), np.uint8)),
            r"obs_shape is \[4, 84, 84\], but the environment has \[1, 84, 84\] \(env.frame_stack=0\)",
        ),
        (nested("env.frame_stack", 4), spec(), "env.frame_stack=4, but the environment stacks 0 frames"),
        ({}, spec(action=Box(-1, 1, (3,))), "Policy 'config_test' takes Discrete actions, the environment has Box"),
        ({}, spec(action=MultiDiscrete([2, 3])), "takes Discrete actions, the environment has MultiDiscrete"),
        ({}, spec(Dict(a=Discrete(2))), "policy.model.obs_shape is not set, and the environment does not tell it"),
        (nested("policy.model.type", "config_test_wide"), spec(), "policy.model.width is not set.* expected int"),
    ],
)
def test_shapes_that_do_not_fit(main, env_spec, message):
    cfg = compile_config(pair(main))
    with pytest.raises(ConfigError, match=message):
        check_shapes(cfg, env_spec)


def test_shapes_of_a_given_model_are_its_own_unless_written_down():
    cfg = compile_config(pair(nested("policy.model.free", 1)), model_given=True)
    check_shapes(cfg, spec(), model_given=True)
    assert cfg.policy.model == dict(free=1)
    cfg = compile_config(pair(nested("policy.model.obs_shape", 5)), model_given=True)
    with pytest.raises(ConfigError, match="obs_shape is 5"):
        check_shapes(cfg, spec(), model_given=True)


# The policy that is there.


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["policy.learn.target_theta=0.1", "policy.learn.target_update_freq=10"], "not both"),
        (["policy.priority_IS_weight=True"], "set policy.priority=True too"),
        (["policy.other.eps.type=cosine"], "policy.other.eps.type"),
        (["policy.learn.target_update_frq=10"], r"Did you mean 'policy\.learn\.target_update_freq'"),
        (["policy.model.encoder_hidden_sizes=[1]"], r"Did you mean 'policy\.model\.encoder_hidden_size_list'"),
        (["policy.model.dueling=1"], "policy.model.dueling: expected bool, got int 1"),
        (["policy.other.replay_buffer.alpha=0.5"], "Unknown key 'policy.other.replay_buffer.alpha'"),
        (["policy.learn.target_theta=hard"], "policy.learn.target_theta: expected float or None, got str 'hard'"),
    ],
)
def test_dqn_contradictions(overrides, message):
    with pytest.raises(ConfigError, match=message):
        compile_config(CARTPOLE, overrides=overrides)


def test_gymnasium_id_needs_no_environment_code():
    main = dict(env=dict(env_id="CartPole-v1"), policy=dict(collect=dict(n_sample=8)))
    cfg = compile_config((main, dict(policy=dict(type="dqn"))))
    check_shapes(cfg, check_env(cfg.env))
    assert (cfg.policy.model.obs_shape, cfg.policy.model.action_shape) == (4, 2)
