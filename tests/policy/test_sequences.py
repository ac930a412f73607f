"""PPO with a recurrent model: values, minibatches of sequences. With R2D2 it shares states, and runs with a memory."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from easydict import EasyDict

from ding_lite.entry import serial_pipeline, serial_pipeline_onpolicy
from ding_lite.envs import create_vector_env
from ding_lite.policy.policy_gradient.actor_critic import estimate_advantages
from ding_lite.policy.sequences import evaluate_sequences, learned_rows
from ding_lite.utils.registry import POLICY_REGISTRY
from ding_lite.utils.tree import tree_leaves, tree_map
from ding_lite.worker import SampleCollector
from tests.distributed import parity
from tests.policy.helpers import OURS, compile_for, same_tree
from tests.run.helpers import result

memory_ppo_config, memory_r2d2_config = (
    import_module(f"dizoo.memory.config.{name}") for name in ("memory_ppo_config", "memory_r2d2_config")
)

N, T = 6, 20
OPTIONS = ("policy.learn.value_norm=False", "policy.model.lstm_type=lstm")


def build(name: str, *overrides: str, kind: str = "discrete") -> tuple[Any, Any]:
    """Return config and policy, in float64."""
    cfg = parity.compile_problem(name, kind, ["policy.multi_gpu=False", *overrides])
    torch.manual_seed(0)
    policy_cls: Any = POLICY_REGISTRY.find(name)
    return cfg, policy_cls(cfg.policy, policy_cls(cfg.policy, enable_field=()).model.double())


def play(*overrides: str, kind: str = "discrete", blocks: int = 1) -> tuple[Any, dict[str, Any]]:
    """Return a policy, untrained, and the last of some blocks, with episodes of 2 to 8 steps."""
    cfg, policy = build("ppo", *OPTIONS, *overrides, kind=kind)
    return policy, collect(cfg, policy, T, N, blocks)


def collect(cfg: Any, policy: Any, steps: int, num_envs: int, blocks: int = 1) -> dict[str, Any]:
    """Return the last of some blocks."""
    env = create_vector_env(cfg.env, num_envs, 0, True)
    collector = SampleCollector(env, policy, steps * num_envs, list(range(num_envs)))
    for _ in range(blocks):
        block, _ = collector.collect()
    env.close()
    return copy.deepcopy(block)


@torch.no_grad()
def step_by_step(network: Any, block: dict[str, Any], n: int) -> Iterator[tuple[Any, dict[str, Any], dict[str, Any]]]:
    """Run over the rows of an environment one by one, from the stored state of the first.

    Yield for each row the state before it, None at the start of an episode; the network's output, and its output for
    the observation that followed.
    """
    finals = dict(zip(block["final_index"].tolist(), block["final_obs"], strict=True))
    obs_T, (steps, num_envs) = [*block["obs"][:, n], block["last_obs"][n]], block["reward"].shape
    state: Any = tree_map(lambda column: column[0, n][None], block["prev_state"])
    for t in range(steps):
        before = None if block["episode_step"][t, n] == 0 else state
        output = network(obs_T[t].double()[None, None], prev_state=before)
        state = output["next_state"]
        next_obs = finals.get(t * num_envs + n, obs_T[t + 1]).double()[None, None]
        yield before, output, network(next_obs, prev_state=state)


@pytest.mark.parametrize(("recompute", "share"), [(False, True), (True, True), (True, False)])
def test_values_are_those_of_one_step_after_the_other(recompute: bool, share: bool) -> None:
    policy, block = play(f"policy.model.share_encoder={share}", blocks=2)  # the second block starts inside episodes
    assert (block["episode_step"][0] > 0).any()
    if recompute:
        with torch.no_grad():
            for parameter in policy.model.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
    value_TN, next_value_TN = policy._values(policy._to_device(block), recompute=recompute)
    for n in range(N):
        rows = list(step_by_step(policy.model, block, n))
        own, following = (
            [float(output["value"]) for output in outputs] for outputs in list(zip(*rows, strict=True))[1:]
        )
        assert value_TN[:, n].tolist() == pytest.approx(own, abs=1e-6)  # observations are float32
        assert next_value_TN[:, n].tolist() == pytest.approx(following, abs=1e-6)


@pytest.mark.parametrize("kind", ["discrete", "hybrid"])
def test_an_unchanged_model_gives_the_logits_and_values_of_the_collect_again(kind: str) -> None:
    policy, block = play("policy.learn.batch_size=40", kind=kind, blocks=2)
    batches = list(policy.batches(block))
    assert len(batches) == 10 * N // 2  # 40 steps are two sequences of 20
    for batch in batches:
        output = evaluate_sequences(policy, batch)
        for key in ("logit", "value"):
            for one, other in zip(tree_leaves({"": output[key]}), tree_leaves({"": batch[key]}), strict=True):
                torch.testing.assert_close(one.detach(), other, atol=1e-6, rtol=1e-6)
    _, info = policy.loss(batches[0])
    assert info["approx_kl"].item() == pytest.approx(0.0, abs=1e-6)
    assert info["clipfrac"].item() == 0.0


def test_minibatches_hold_whole_sequences_and_every_sample_once() -> None:
    policy, block = play(
        "policy.learn.batch_size=60", "policy.learn.epoch_per_collect=1", "policy.learn.adv_norm=False"
    )
    adv_TN, return_TN = estimate_advantages(policy, block, *policy._values(policy._to_device(block), False))
    seen: list[int] = []
    for batch in policy.batches(block):
        size = batch["obs"].shape[1]
        assert batch["obs"].shape == (T, size, 4)
        assert {key: len(batch[key]) for key in ("action", "logit", "value", "adv", "return_")} == dict.fromkeys(
            ("action", "logit", "value", "adv", "return_"), T * size
        )
        for b in range(size):
            (n,) = (n for n in range(N) if torch.equal(batch["obs"][:, b], block["obs"][:, n].double()))
            seen.append(n)
            mine = slice(b, None, size)
            assert torch.equal(batch["action"][mine], block["action"][:, n])
            torch.testing.assert_close(batch["adv"][mine], adv_TN[:, n])
            torch.testing.assert_close(batch["return_"][mine], return_TN[:, n])
            assert torch.equal(batch["episode_start"][:, b], block["episode_step"][:, n] == 0)
            for name, part in batch["prev_state"].items():
                assert torch.equal(part[b], block["prev_state"][name][0, n])
    assert sorted(seen) == list(range(N))


def test_a_loss_reads_the_rows_after_burn_in_and_counts_last_steps_from_the_first() -> None:
    row_T1 = torch.arange(6.0)[:, None]  # 2 of burn-in, 3 to learn from, and one more that n steps may need
    batch = dict.fromkeys(("action", "reward", "done", "value_gamma"), row_T1) | {"last_step": row_T1.long() + 1}
    rows = learned_rows(batch, EasyDict(burnin_step=2, unroll_len=3))
    assert rows["reward"].flatten().tolist() == rows["action"].flatten().tolist() == [2.0, 3.0, 4.0]
    assert rows["last_step"].flatten().tolist() == [1, 2, 3]


def test_the_gradient_reaches_back_through_time_but_not_past_the_start_of_an_episode() -> None:
    policy, block = play(
        "policy.collect.n_sample=120", "policy.learn.batch_size=120", "policy.learn.epoch_per_collect=1"
    )
    (batch,) = policy.batches(block)
    batch["obs"] = batch["obs"].clone().requires_grad_(True)
    value_TN = evaluate_sequences(policy, batch)["value"].view(T, N)
    value_TN[10, 0].backward()
    start = max(t for t in range(11) if batch["episode_start"][t, 0])
    reached = (batch["obs"].grad[:, 0] != 0).any(-1).tolist()
    assert reached == [start <= t <= 10 for t in range(T)]
    assert not batch["obs"].grad[:, 1:].any()


PPO = [name for name in OURS if getattr(POLICY_REGISTRY.find(name), "recurrent", False)]  # its memory is an option


@pytest.mark.parametrize("name", [*PPO, *(name for name in OURS if POLICY_REGISTRY.find(name).remembers)])
def test_states_of_collects_and_evaluations_are_apart_and_begin_anew_with_an_episode(name: str) -> None:
    cfg = compile_for(name, *(["policy.model.lstm_type=lstm"] if name in PPO else []))
    torch.manual_seed(0)
    policy, other = (POLICY_REGISTRY.find(name)(cfg.policy) for _ in range(2))
    other.model.load_state_dict(policy.model.state_dict())
    obs = parity.observations(name, 3, np.float32)
    policy.act(obs)  # every environment is inside an episode now
    before = copy.deepcopy(policy.local_state_dict())

    def evaluate() -> torch.Tensor:
        output = policy.act(obs, explore=False)
        return next(tree_leaves(output.get("logit", output["action"])))

    first, second = evaluate(), evaluate()
    policy.reset(np.array([0, 2]), explore=False)
    third = evaluate()
    assert not torch.equal(first, second)
    torch.testing.assert_close(third[[0, 2]], first[[0, 2]])
    assert not torch.equal(third[1], first[1])
    assert same_tree(policy.local_state_dict(), before)
    other.load_local_state_dict(before)
    for each in (policy, other):
        each.reset(np.array([1]))
    state, again = (each.act(obs)["prev_state"] for each in (policy, other))
    assert same_tree(state, again)
    assert all(part.flatten(1).any(1).tolist() == [True, False, True] for part in tree_leaves(state))
    policy.reset()
    assert not any(part.any() for part in tree_leaves(policy.act(obs)["prev_state"]))


# -- runs -------------------------------------------------------------------------------------------------------------


RUNS: dict[str, Any] = {
    "ppo": (serial_pipeline_onpolicy, memory_ppo_config),
    "r2d2": (serial_pipeline, memory_r2d2_config),
}


def train(name: str, exp_name: str, *words: str, **options: Any) -> Any:
    pipeline, module = RUNS[name]
    overrides = [f"exp_name={exp_name}", *words]
    return pipeline((module.main_config, module.create_config), seed=0, overrides=overrides, **options)


@pytest.mark.parametrize(
    ("name", "core"),
    [("ppo", "lstm_type=lstm"), ("ppo", "lstm_type=gru"), ("ppo", "memory=gtrxl"), ("r2d2", "memory=gtrxl")],
)
def test_it_learns_what_needs_a_memory(name: str, core: str) -> None:
    words = ["env.length=4", f"policy.model.{core}", "policy.eval.evaluator.eval_freq=40"]
    train(name, "run", *words, max_env_step=8000)
    assert result(Path("run"))["stop_reason"] == "stop_value"


# Half of a run, and where it ends within episodes. PPO collects 64 rows at once.
@pytest.mark.parametrize(
    ("name", "unit", "half", "length"), [("ppo", "env_step", 512, 7), ("r2d2", "train_iter", 12, 5)]
)
def test_a_resumed_run_goes_on_within_its_episodes(name: str, unit: str, half: int, length: int) -> None:
    quick = [f"env.length={length}", "policy.eval.evaluator.eval_freq=1000", "env.n_evaluator_episode=8"]
    whole = train(name, "whole", *quick, **{f"max_{unit}": 2 * half})
    train(name, "part", *quick, **{f"max_{unit}": half})
    hook = "policy.learn.learner.hook.load_ckpt_before_run=part/ckpt/ckpt_last.pth.tar"
    resumed = train(name, "rest", "policy.learn.resume_training=True", hook, *quick, **{f"max_{unit}": 2 * half})
    assert resumed.checksum() == whole.checksum()
    states = [each.local_state_dict()["state"] for each in (resumed, whole)]
    assert same_tree(*states)
    assert all(part.any() for part in states[0].values())
