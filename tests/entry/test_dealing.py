"""Runs that go on with another number of ranks: whole streams are dealt, and nothing of them changes."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from ding_lite.entry.dealing import deal
from ding_lite.envs import create_vector_env
from ding_lite.utils import CheckpointError
from ding_lite.utils.registry import POLICY_REGISTRY
from ding_lite.utils.seed import random_state
from ding_lite.worker import EpisodeCollector, SampleCollector
from tests.distributed import parity
from tests.distributed.launcher import run_forked
from tests.distributed.test_parity import PROBLEMS
from tests.entry.helpers import CONFIG

POLICIES = {
    case: problem for case, problem in PROBLEMS.items() if POLICY_REGISTRY.find(problem[0]).learns_from != "dataset"
}


def play(case: str) -> dict[str, Any]:
    """Return the local state of one rank after it has played a policy of the registry in six environments."""
    cfg = parity.compile_problem(*POLICIES[case])
    env, policy, seeds = create_vector_env(cfg.env, parity.NUM_ENVS, 0, True), parity.create_policy(cfg), list(range(6))
    if "n_episode" in cfg.policy.collect:
        collector: SampleCollector = EpisodeCollector(env, policy, 6, seeds)
    else:
        collector = SampleCollector(env, policy, 30, seeds)
    collector.set_attr("_terminates", [True, False, True, True, False, False])
    block, _ = collector.collect()
    policy.to_samples(block)
    state = {"collector": collector.local_state_dict(), "collect_mode": policy.local_state_dict()}
    return copy.deepcopy(state | {"random": random_state(), "learner": {"means": {"loss": [6.0, 3, 1]}}})


def dealt(states: list[dict[str, Any]], ranks: int) -> list[dict[str, Any]]:
    return [deal(states, rank, ranks, 6 // ranks, None, seed=0) for rank in range(ranks)]


def same(left: Any, right: Any) -> bool:
    if isinstance(left, torch.Tensor):
        return torch.equal(left, right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


@pytest.mark.parametrize("case", POLICIES)
def test_episodes_and_memories_come_back_from_other_numbers_of_ranks(case: str) -> None:
    whole = play(case)
    states = [whole]
    for ranks in (2, 3, 1):
        states = dealt(states, ranks)
        assert [len(state["collector"]["env"]["seed"]) for state in states] == [6 // ranks] * ranks
    assert same(states[0], whole)


def test_new_ranks_have_random_generators_of_their_own() -> None:
    states = dealt([play("dqn-discrete-0")], 3)
    first, second, third = ([state["collector"]["env"]["draws"], state["random"]["torch"].tolist()] for state in states)
    assert first != second != third != first


def test_figures_are_summed_over_the_ranks_that_are_gone() -> None:
    states = dealt([play("dqn-discrete-0")], 3)
    assert [state["learner"]["means"] for state in states] == [{"loss": [6.0, 3, 1]}, {}, {}]
    states[1]["learner"]["means"], states[2]["learner"]["means"] = {"loss": [1.0, 1, 0]}, {"q": [2.0, 2, 0]}
    (alone,) = dealt(states, 1)
    assert alone["learner"]["means"] == {"loss": [7.0, 4, 1], "q": [2.0, 2, 0]}


@pytest.mark.parametrize(
    ("ranks", "num_envs", "advice"),
    [(2, 6, "set env.collector_env_num=3"), (4, 2, "resume with a number of ranks that divides it: 1, 2, 3, 6")],
)
def test_another_number_of_environments_is_refused(ranks: int, num_envs: int, advice: str) -> None:
    states, found = [play("dqn-discrete-0")], ranks * num_envs
    with pytest.raises(
        CheckpointError, match=rf"6 collecting .* 1 rank\(s\), and this run has {found} on {ranks}: {advice}\."
    ):
        deal(states, 0, ranks, num_envs, None, seed=0)


def test_a_run_goes_on_with_one_rank_and_with_three(tmp_path: Path) -> None:
    words = ["policy.priority=True", "policy.learn.learner.hook.save_ckpt_after_iter=50", "env.stop_value=None"]
    words += ["env.norm_reward=True", "policy.eval.evaluator.eval_freq=1000"]
    steps, folder = 0, tmp_path / "run"
    for ranks in (2, 1, 3, 2):
        steps += 240
        sizes = [f"env.collector_env_num={6 // ranks}", f"policy.collect.n_sample={6 // ranks}"]
        command = (
            ["train", "-c", str(CONFIG), f"exp_name={folder}", *words] if steps == 240 else ["resume", str(folder)]
        )
        command += ["--nproc", str(ranks)] if ranks > 1 else []
        done = run_forked(["-m", "ding_lite", *command, *sizes, f"max_env_step={steps}"], timeout=200)
        assert done.returncode == 0, done.stderr
        assert "start new episodes" not in done.stderr + done.stdout
        result = json.loads((folder / "result.json").read_text())
        assert (result["envstep"], result["world_size"]) == (steps, ranks)
        assert len(list((folder / "ckpt").glob("*.rank_*"))) == ranks
