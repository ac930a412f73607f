"""A recurrent Q-learner: what it stores, its errors step by step, its state in a checkpoint, its memory."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ding_lite.entry import serial_pipeline
from ding_lite.envs import create_vector_env
from ding_lite.utils import BUFFER_REGISTRY, ConfigError, tree_map
from ding_lite.worker import SampleCollector
from tests.seams.ranks import QUICK, build, check_two_step_as_one, metrics, pair_of, to_double, train, train_on_two

NAME = "recurrent_q"
NUM_ENVS, NUM_STEPS, HIDDEN = 4, 40, 32


def play(*overrides: str) -> tuple[Any, Any, dict[str, Any]]:
    """Return config and policy, untrained, and a rollout block that the policy has played."""
    cfg, policy = build(NAME, *overrides)
    env = create_vector_env(cfg.env, NUM_ENVS, 0, True)
    block, _ = SampleCollector(env, policy, NUM_STEPS * NUM_ENVS, list(range(NUM_ENVS))).collect()
    env.close()
    return cfg, policy, copy.deepcopy(block)


def value(policy: Any, obs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Return Q `[A]` and the new state `[H]` of one observation after a state `[H]`."""
    with torch.no_grad():
        output = policy.model(obs.double()[None, None], state[None])
    return output["logit"][0, 0], output["state"][0, 0]


def test_the_state_before_each_step_is_stored_and_begins_anew_with_each_episode() -> None:
    _, policy, block = play()
    for n in range(NUM_ENVS):
        state = torch.zeros(HIDDEN, dtype=torch.float64)
        for t in range(NUM_STEPS):
            if block["episode_step"][t, n] == 0:
                state = torch.zeros_like(state)
            torch.testing.assert_close(block["prev_state"][t, n], state, rtol=0, atol=1e-12)
            _, state = value(policy, block["obs"][t, n], state)
    assert (block["episode_step"] == 0).sum() == NUM_ENVS * NUM_STEPS // 5


def errors_step_by_step(cfg: Any, policy: Any, block: dict[str, Any]) -> Tensor:
    """Return the n-step errors `[T - n + 1, N]` of a block, from the states that are stored with each step."""
    gamma, nstep = cfg.policy.discount_factor, cfg.policy.nstep
    finals = dict(zip(block["final_index"].tolist(), block["final_obs"], strict=True))
    obs_TN = torch.cat([block["obs"], block["last_obs"][None]])
    error_TN = torch.zeros(NUM_STEPS - nstep + 1, NUM_ENVS, dtype=torch.float64)
    for t in range(NUM_STEPS - nstep + 1):
        for n in range(NUM_ENVS):
            target, discount, last = 0.0, 1.0, t
            for last in range(t, t + nstep):
                target += discount * float(block["reward"][last, n])
                discount *= gamma
                if block["traj_flag"][last, n]:
                    break
            if not block["done"][last, n]:
                cut = bool(block["traj_flag"][last, n])
                next_obs = finals[last * NUM_ENVS + n] if cut else obs_TN[last + 1, n]
                _, state = value(policy, block["obs"][last, n], block["prev_state"][last, n])
                target += discount * float(value(policy, next_obs, state)[0].max())
            q, _ = value(policy, block["obs"][t, n], block["prev_state"][t, n])
            error_TN[t, n] = target - q[block["action"][t, n]]
    return error_TN


@pytest.mark.parametrize("burnin", [0, 2])
@pytest.mark.parametrize("truncates", [False, True])
def test_priorities_are_those_of_errors_worked_out_step_by_step(burnin: int, truncates: bool) -> None:
    cfg, policy, block = play(f"policy.burnin_step={burnin}", f"env.truncates={truncates}")
    error_TN = errors_step_by_step(cfg, policy, block)
    options = dict(unroll_len=8, burnin_step=burnin, nstep=cfg.policy.nstep, gamma=cfg.policy.discount_factor)
    replay: Any = BUFFER_REGISTRY.find("prioritized")(200, NUM_ENVS, **options)
    replay.push(block)
    batch = tree_map(to_double, replay.sample(64))
    assert batch["episode_start"][1:].any(0).all()  # episodes of 5 steps begin inside every sequence
    assert ("final_index" in batch) == truncates
    loss, figures = policy.loss(batch)
    squares = torch.zeros(64, dtype=torch.float64)
    for b, place in enumerate(batch["index"].tolist()):
        begin = place // NUM_ENVS + burnin
        error = error_TN[begin : begin + 8, place % NUM_ENVS].abs()
        squares[b] = error.square().mean()
        expected = 0.9 * error.max() + 0.1 * error.mean()
        torch.testing.assert_close(figures["priority"][b], expected, rtol=0, atol=1e-5)  # replay stores float32
    torch.testing.assert_close(loss.detach(), (batch["weight"] * squares).mean(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("override", ["policy.precision=bf16", "policy.burnin_step=-1"])
def test_options_that_would_mislead_are_refused(override: str) -> None:
    with pytest.raises(ConfigError, match=override.partition("=")[0]):
        build(NAME, override)


def test_burn_in_is_without_gradient() -> None:
    _, policy, block = play("policy.burnin_step=2")
    replay: Any = BUFFER_REGISTRY.find("prioritized")(200, NUM_ENVS, unroll_len=8, burnin_step=2, nstep=3)
    replay.push(block)
    batch = tree_map(to_double, replay.sample(16))
    batch["obs"].requires_grad_(True)
    policy.loss(batch)[0].backward()
    reached = batch["obs"].grad.flatten(1).abs().sum(1) > 0
    assert reached.tolist() == [False] * 2 + [True] * 8 + [False] * 2  # burn-in, steps to learn from, ends of sums


def test_the_state_goes_on_from_a_checkpoint_and_is_forgotten_where_an_episode_ended() -> None:
    _, policy, block = play()
    _, restored = build(NAME)
    obs = block["last_obs"].numpy()
    policy.act(obs)  # every environment is inside an episode now
    restored.load_local_state_dict(copy.deepcopy(policy.local_state_dict()))
    for each in (policy, restored):
        each.reset(np.array([1]))
    state_NH = policy.act(obs)["prev_state"]
    assert state_NH.any(1).tolist() == [True, False, True, True]
    assert torch.equal(restored.act(obs)["prev_state"], state_NH)


def cut(batch: dict[str, Any]) -> list[dict[str, Any]]:
    """Cut a batch of sequences `[T, B, ...]` into two of half as many."""
    size = len(batch["index"]) // 2
    halves = []
    for part in (slice(0, size), slice(size, 2 * size)):
        half = {
            key: leaf[part] if key in ("index", "weight", "prev_state", "last_obs") else leaf[:, part]
            for key, leaf in batch.items()
            if key not in ("final_obs", "final_index")
        }
        if "final_index" in batch:
            t_K, b_K = batch["final_index"] // (2 * size), batch["final_index"] % (2 * size)
            mine = (b_K >= part.start) & (b_K < part.stop)
            half |= {"final_obs": batch["final_obs"][mine], "final_index": t_K[mine] * size + b_K[mine] - part.start}
        halves.append(half)
    return halves


def test_two_processes_step_as_one(tmp_path: Path) -> None:
    check_two_step_as_one(NAME, tmp_path, "env.truncates=True", halves=cut)


def test_it_trains_on_two_processes(tmp_path: Path) -> None:
    train_on_two(NAME, tmp_path)


def test_a_resumed_run_goes_on_within_its_episodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [key for key in QUICK if not key.startswith("exp_name")]
    monkeypatch.chdir(tmp_path)
    whole = train(NAME, "exp_name=whole", *keys, max_train_iter=40)
    train(NAME, "exp_name=part", *keys, max_train_iter=20)  # 56 env steps in each environment
    hook = "policy.learn.learner.hook.load_ckpt_before_run=part/ckpt/ckpt_last.pth.tar"
    resumed = train(NAME, "exp_name=rest", "policy.learn.resume_training=True", hook, *keys, max_train_iter=40)
    assert resumed.checksum() == whole.checksum()
    states = [each.local_state_dict()["state"] for each in (resumed, whole)]
    assert torch.equal(*states)
    assert states[0].any()


@pytest.mark.learn
def test_it_learns_what_a_network_without_memory_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    train(NAME, "exp_name=run", "env.stop_value=0.99", max_train_iter=6000)
    best = {"recurrent": max(record.get("eval/return_mean", -1.0) for record in metrics(tmp_path))}
    main, create = pair_of(NAME)
    for key in ("unroll_len", "burnin_step"):
        del main["policy"][key]
    create["policy"]["type"] = "dqn"
    keys = ["exp_name=plain", "env.n_evaluator_episode=256"]
    serial_pipeline((main, create), seed=0, max_train_iter=2000, overrides=keys)
    best["plain"] = max(record.get("eval/return_mean", -1.0) for record in metrics(tmp_path, "plain"))
    assert best["recurrent"] >= 0.99
    assert best["plain"] < 0.3  # 0 in the mean of 256 episodes, with a standard deviation of 1/16
