"""Whole runs in step: each has its own directory, records and end, and is the run that it would be alone."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import ding_lite
from ding_lite.entry import serial_pipeline, serial_pipeline_onpolicy
from ding_lite.policy import Policy
from ding_lite.results.run import read_run
from ding_lite.run.callbacks import Callback, WatchedRun
from ding_lite.together.runs import RunState, train_together
from ding_lite.utils.checkpoint.file import load_checkpoint
from ding_lite.utils.registry import ConfigError

SMALL: dict[str, Any] = dict(
    env=dict(env_id="CartPole-v1", collector_env_num=4, evaluator_env_num=2, n_evaluator_episode=2, stop_value=None),
    policy=dict(cuda=False, eval=dict(evaluator=dict(eval_freq=60))),
)
PPO = dict(policy=dict(collect=dict(n_sample=64), learn=dict(batch_size=16, epoch_per_collect=5)))
DQN = dict(
    policy=dict(
        model=dict(encoder_hidden_size_list=[16, 16]),
        random_collect_size=64,
        learn=dict(batch_size=16, update_per_collect=2),
        collect=dict(n_sample=4),
    )
)
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {"ppo": (serial_pipeline_onpolicy, PPO), "dqn": (serial_pipeline, DQN)}
ITERATIONS = 200


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def start(kind: str, directory: str, seed: int, words: Sequence[str] = (), **given: Any) -> Policy:
    """Train a small run, by default of 200 iterations, alone or with the callbacks of others."""
    pipeline, own = KINDS[kind]
    main: dict[str, Any] = copy.deepcopy(SMALL) | {"exp_name": directory}
    main["policy"] |= copy.deepcopy(own["policy"])
    create = dict(env=dict(type="gymnasium"), policy=dict(type=kind))
    given.setdefault("max_train_iter", ITERATIONS)
    policy: Policy = pipeline((main, create), seed, overrides=words, **given)
    return policy


def largest_difference(policy: Policy, other: Policy) -> float:
    """Return the largest difference of any two weights of two policies."""
    pairs = zip(policy.model.parameters(), other.model.parameters(), strict=True)
    return max(float((one.detach() - two.detach()).abs().max()) for one, two in pairs)


def all_policies(states: Sequence[RunState]) -> list[Policy]:
    """Return the policies of runs, none of which has failed."""
    for state in states:
        if state.error is not None:
            raise state.error
    return [state.policy for state in states if state.policy is not None]


def returns(directory: Path) -> list[Any]:
    """Return the mean returns of a run's evaluations and collects, and its figures."""
    names = ("envstep", "train_iter", "eval/return_mean", "collect/return_mean", "train/total_loss")
    return [[record.get(name) for name in names] for record in read_run(str(directory)).records]


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_among_others_is_the_run_alone(kind: str, tmp_path: Path) -> None:
    alone = [start(kind, str(tmp_path / f"alone{seed}"), seed) for seed in range(3)]
    runs = {f"seed {seed}": partial(start, kind, str(tmp_path / f"joint{seed}"), seed) for seed in range(3)}
    states = train_together(runs)
    for seed, policy in enumerate(all_policies(states)):
        assert largest_difference(policy, alone[seed]) < 1e-10
        ours, theirs = returns(tmp_path / f"joint{seed}"), returns(tmp_path / f"alone{seed}")
        assert len(ours) == len(theirs) > 3
        for one, other in zip(ours, theirs, strict=True):
            assert one == pytest.approx(other, rel=1e-8)
        assert (tmp_path / f"joint{seed}/ckpt/ckpt_best.pth.tar").exists()
        assert ding_lite.load(str(tmp_path / f"joint{seed}")) is not None


WORDS = {
    "ppo": ("policy.learn.learning_rate=1e-3", "policy.learn.clip_ratio=0.1", "policy.discount_factor=0.9"),
    "dqn": ("policy.learn.learning_rate=1e-4", "policy.discount_factor=0.9", "policy.learn.target_theta=0.02"),
}


@pytest.mark.parametrize("kind", [pytest.param("ppo", marks=pytest.mark.slow), "dqn"])
def test_runs_that_differ_in_numbers_are_those_alone(kind: str, tmp_path: Path) -> None:
    words = [(), WORDS[kind][:1], WORDS[kind]] if kind == "ppo" else [WORDS[kind][2:], WORDS[kind]]
    alone = [start(kind, str(tmp_path / f"alone{n}"), 0, own) for n, own in enumerate(words)]
    runs = {str(n): partial(start, kind, str(tmp_path / f"joint{n}"), 0, own) for n, own in enumerate(words)}
    for policy, other in zip(all_policies(train_together(runs)), alone, strict=True):
        assert largest_difference(policy, other) < 1e-10


@pytest.mark.slow
def test_a_schedule_is_followed(tmp_path: Path) -> None:
    schedule = "{'type':'linear','start':%s,'end':%s,'over':60,'by':'iteration'}"
    numbers = {"clip_ratio": (0.3, 0.1), "learning_rate": (1e-3, 1e-4)}
    words = [f"policy.learn.{key}={schedule % pair}" for key, pair in numbers.items()]
    alone = [start("ppo", str(tmp_path / f"alone{seed}"), seed, words, max_train_iter=60) for seed in range(2)]
    runs = {
        str(seed): partial(start, "ppo", str(tmp_path / f"joint{seed}"), seed, words, max_train_iter=60)
        for seed in range(2)
    }
    for policy, other in zip(all_policies(train_together(runs)), alone, strict=True):
        assert largest_difference(policy, other) < 1e-10


def test_each_run_ends_by_its_own_limit(tmp_path: Path) -> None:
    limits = (40, 100, 160, 200)
    alone = [start("ppo", str(tmp_path / f"alone{n}"), n, max_train_iter=limit) for n, limit in enumerate(limits)]
    runs = {
        str(n): partial(start, "ppo", str(tmp_path / f"joint{n}"), n, max_train_iter=limit)
        for n, limit in enumerate(limits)
    }
    ended = list[str]()
    states = train_together(runs, on_end=lambda state: ended.append(state.name))
    assert ended == ["0", "1", "2", "3"]
    for policy, other in zip(all_policies(states), alone, strict=True):
        assert largest_difference(policy, other) < 1e-10


@pytest.mark.parametrize("kind", ["dqn", pytest.param("ppo", marks=pytest.mark.slow)])
def test_a_run_is_resumed_alone_or_together(kind: str, tmp_path: Path) -> None:
    alone = [start(kind, str(tmp_path / f"alone{seed}"), seed) for seed in range(3)]
    words = ["policy.learn.learner.hook.save_replay_buffer=True"]
    runs = {str(n): partial(start, kind, str(tmp_path / f"{n}"), n, words, max_train_iter=100) for n in range(3)}
    all_policies(train_together(runs))
    words += ["policy.learn.resume_training=True"]
    one = start(kind, str(tmp_path / "0"), 0, words)
    assert largest_difference(one, alone[0]) < 1e-10
    runs = {str(n): partial(start, kind, str(tmp_path / f"{n}"), n, words) for n in (1, 2)}
    for policy, other in zip(all_policies(train_together(runs)), alone[1:], strict=True):
        assert largest_difference(policy, other) < 1e-10
    moments = load_checkpoint(str(tmp_path / "2/ckpt/ckpt_last.pth.tar"))["policy"]["optimizer"]["state"][0]
    expected = load_checkpoint(str(tmp_path / "alone2/ckpt/ckpt_last.pth.tar"))["policy"]["optimizer"]["state"][0]
    assert moments["step"] == expected["step"] == ITERATIONS
    torch.testing.assert_close(moments["exp_avg"], expected["exp_avg"], rtol=0, atol=1e-10)


class Fails(Callback):
    def after_collect(self, run: WatchedRun, figures: Mapping[str, float]) -> None:
        if run.learner.train_iter > 50:
            raise ValueError("a mistake of the user")


def test_a_run_that_fails_does_not_end_the_others(tmp_path: Path) -> None:
    alone = start("ppo", str(tmp_path / "alone"), 1)

    def fails(callbacks: Sequence[Callback]) -> Policy:
        return start("ppo", str(tmp_path / "0"), 0, callbacks=[Fails(), *callbacks])

    first, second = train_together({"0": fails, "1": partial(start, "ppo", str(tmp_path / "1"), 1)})
    assert isinstance(first.error, ValueError)
    assert largest_difference(all_policies([second])[0], alone) < 1e-10


@pytest.mark.slow
def test_policies_of_other_structures_learn_beside_them(tmp_path: Path) -> None:
    words: list[tuple[str, ...]] = [(), ("policy.model.encoder_hidden_size_list=[8,8]",)]
    alone = [start("dqn", str(tmp_path / f"alone{n}"), n, own) for n, own in enumerate(words)]
    runs = {str(n): partial(start, "dqn", str(tmp_path / f"joint{n}"), n, own) for n, own in enumerate(words)}
    for policy, other in zip(all_policies(train_together(runs)), alone, strict=True):
        assert largest_difference(policy, other) == 0.0


def test_other_ways_to_compute_gradients_are_refused(tmp_path: Path) -> None:
    words = ["policy.compile=True"]
    runs = {str(seed): partial(start, "ppo", str(tmp_path / str(seed)), seed, words) for seed in range(2)}
    told = {str(state.error) for state in train_together(runs)}
    assert told == {"policy.compile=True does not work with --together: set it to False."}


def test_a_list_of_seeds_belongs_to_together() -> None:
    config = (dict(env=dict(env_id="CartPole-v1")), dict(policy=dict(type="ppo")))
    for seed, together in (([0, 1], False), (0, True), (None, True)):
        with pytest.raises(ConfigError, match="expected a list of seeds with together=True"):
            ding_lite.train(config, seed, together=together)  # type: ignore[call-overload]
