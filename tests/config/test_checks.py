"""Contradictions, ranges and memory: what a value must be beyond its type."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from ding_lite.config import compile_config, read_config, set_shapes
from ding_lite.envs import EnvSpec, check_env
from ding_lite.utils.key import get_key, set_key
from ding_lite.utils.registry import ConfigError
from tests.config.helpers import CARTPOLE, PONG, PPO, pair


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["policy.collect.n_sample=8", "policy.collect.n_episode=8"], "n_sample or n_episode, got .*set one"),
        (["policy.learn.batch_size=0"], r"policy.learn.batch_size: expected at least 1, got 0"),
        (["policy.learn.batch_size=1001"], r"_size=1000 offers at most 992 .* fewer than policy.learn.batch_size=1001"),
        (["policy.collect.n_sample=1008"], r"n_sample=1008 exceeds .*replay_buffer_size=1000"),
        (["policy.discount_factor=1.01"], "policy.discount_factor: expected a number from 0 to 1, got 1.01"),
        (["policy.learn.learning_rate=0.5"], "learning_rate=0.5 contradicts env.type"),  # the policy's own check
        (
            ["policy.priority=True", "policy.other.replay_buffer.type=uniform"],
            r"type='uniform' contradicts policy.priority=True",
        ),
        (["policy.other.replay_buffer.type=prioritized"], r"type='prioritized' contradicts policy.priority=False"),
    ],
)
def test_contradictions_are_errors(overrides: list[Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compile_config(pair(), overrides=overrides)


def test_a_burn_in_that_the_buffer_cannot_hold_is_an_error() -> None:
    # 1000 sequences of 40 env steps, of 8 environments
    env = {"env_id": "CartPole-v0", "collector_env_num": 8}
    created = {"policy": {"type": "r2d2"}}
    compile_config(({"env": env, "policy": {"burnin_step": 5000}}, created))
    with pytest.raises(ConfigError, match="burnin_step=5001 exceeds the 5000 env steps that the buffer holds of each"):
        compile_config(({"env": env, "policy": {"burnin_step": 5001}}, created))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("policy.learn.learning_rate", math.inf, "expected a number from 0 to 1000000, got inf"),
        ("policy.discount_factor", math.nan, "policy.discount_factor: expected a number from 0 to 1, got nan"),
        ("env.max_episode_steps", 2**31, "expected a number from 0 to 2147483647"),
        ("policy.model.encoder_hidden_size_list", [64, 0], "expected at least 1, got 0"),
        ("policy.model.encoder_hidden_size_list", [10**9], "expected a number from 1 to 65536"),
        ("policy.model.encoder_hidden_size_list", [], "expected at least one layer's size, got []"),
        ("policy.model.head_layer_num", 10**6, "expected a number from 0 to 1000, got 1000000"),
        ("policy.other.replay_buffer.replay_buffer_size", 10**12, "expected a number from 1 to 2147483647"),
        (
            "policy.nstep",
            10**6,
            r"replay_buffer_size=100000 offers at most 0 samples, with policy.nstep=1000000 .* Set at least 8000064\.",
        ),
        ("seed", 2**64, "expected an integer of at most 64 bits, got int 18446744073709551616"),
        ("seed", [10**5000], r"expected an integer of at most 64 bits, got int \(its repr fails with ValueError\)"),
        ("exp_name", " ", "expected the name of a directory, got str ' '"),
        ("exp_name", "a\0b", "expected the name of a directory"),
        ("exp_name", "\ud800", r"expected a string that can be written as UTF-8, got str '\\ud800'"),
        ("policy.other.replay_buffer.type", [3], r"Unknown replay buffer type '\[3\]'"),
    ],
)
def test_a_number_that_cannot_work_is_refused_with_its_key(path: str, value: Any, message: str) -> None:
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
def test_more_than_memory_can_hold_is_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, config: Any, overrides: list[Any], message: str
) -> None:
    monkeypatch.setattr("os.sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2**20}.__getitem__)  # 4 GiB
    cfg = compile_config(config, overrides=overrides)
    with pytest.raises(ConfigError, match=f"{message}.* but this machine has 4 GiB: reduce it"):
        set_shapes(cfg, check_env(cfg.env))


def test_a_buffer_beyond_memory_is_cut_to_what_the_run_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2**20}.__getitem__)  # 4 GiB
    path, overrides = "policy.other.replay_buffer.replay_buffer_size", ["policy.collect.n_sample=96"]
    cfg = compile_config(CARTPOLE, overrides=[*overrides, f"{path}=2000000000"])
    set_shapes(cfg, check_env(cfg.env), max_env_step=20_000)
    # the run's env steps and one collect more, in whole steps of 8 environments: 20,000 + 96, and the next multiple
    assert cfg.policy.other.replay_buffer.replay_buffer_size == 20_104
    assert f"{path}=2000000000 is 20104 here: the run stores no more." in cfg.notes
    fitting = compile_config(CARTPOLE, overrides=[f"{path}=50000"])
    set_shapes(fitting, check_env(fitting.env), max_env_step=20_000)
    assert fitting.policy.other.replay_buffer.replay_buffer_size == 50_000


def test_frames_of_a_stack_are_held_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # 4 * 84 * 84 bytes an observation, of which the replay buffer keeps a quarter: 100,000 are 0.66 GiB
    monkeypatch.setattr("os.sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2**18}.__getitem__)  # 1 GiB
    cfg = compile_config(PONG)
    spec = EnvSpec(Box(0, 255, (4, 84, 84), np.uint8), Discrete(6), 4)
    set_shapes(cfg, spec)
    cfg.policy.other.replay_buffer.replay_buffer_size = 200_000
    with pytest.raises(ConfigError, match=r"takes 1\.31 GiB"):
        set_shapes(cfg, spec)


@pytest.mark.parametrize(
    ("kind", "overrides", "path", "rounded"),
    [
        ("ppo", ["policy.collect.n_sample=100"], "policy.collect.n_sample", 104),
        ("ppo", ["policy.collect.n_sample=104"], "policy.collect.n_sample", 104),
        ("pg", ["policy.collect.n_episode=2"], "policy.collect.n_episode", 8),
        ("ppo", ["env.n_evaluator_episode=20"], "env.n_evaluator_episode", 24),
        # 3 sequences of 4 are 12 env steps, which 8 environments do not divide; 4 sequences are 16
        ("impala", ["policy.unroll_len=4", "policy.collect.n_sample=3"], "policy.collect.n_sample", 4),
    ],
)
def test_counts_are_rounded_up_to_what_the_environments_play_together(
    kind: str, overrides: list[str], path: str, rounded: int
) -> None:
    main: dict[str, Any] = dict(policy=dict(model={}))
    create = dict(env=dict(env_id="CartPole-v1"), policy=dict(type=kind))
    cfg = compile_config((main, create), overrides=overrides)
    given = int(overrides[-1].partition("=")[2])
    assert get_key(cfg, path) == rounded
    assert cfg.notes == [f"{path}={given} is {rounded} here: 8 environments step together."] * (given != rounded)


def test_a_batch_larger_than_an_on_policy_collect_is_the_collect() -> None:
    main: dict[str, Any] = dict(policy=dict(collect=dict(n_sample=64), learn=dict(batch_size=65)))
    cfg = compile_config((main, dict(env=dict(env_id="CartPole-v1"), policy=dict(type="a2c"))))
    assert cfg.policy.learn.batch_size == 64
    assert cfg.notes == ["policy.learn.batch_size=65 is 64 here: a collect has no more samples."]
