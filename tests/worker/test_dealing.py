"""Runs that go on with another number of ranks: whole streams are dealt, and nothing of them changes."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from ding_lite.envs import create_vector_env
from ding_lite.utils import CheckpointError
from ding_lite.utils.registry import POLICY_REGISTRY
from ding_lite.utils.seed import random_state
from ding_lite.worker import EpisodeCollector, SampleCollector
from ding_lite.worker.dealing import check_streams, deal, find_parts
from tests.distributed import parity
from tests.distributed.launcher import run_forked
from tests.distributed.test_parity import CASES, PROBLEMS
from tests.run.helpers import CONFIG
from tests.survival.common import differences

POLICIES = [
    case for case in CASES if POLICY_REGISTRY.find(str(case.values[0]).partition("-")[0]).learns_from != "dataset"
]


def play(case: str) -> dict[str, Any]:
    """Return the local state of one rank after it has played a policy of the registry in six environments."""
    cfg = parity.compile_problem(*PROBLEMS[case])
    env, policy, seeds = create_vector_env(cfg.env, parity.NUM_ENVS, 0, True), parity.create_policy(cfg), list(range(6))
    if "n_episode" in cfg.policy.collect:
        collector: SampleCollector = EpisodeCollector(env, policy, 6, seeds)
    else:
        collector = SampleCollector(env, policy, 30, seeds)
    collector.set_attr("_terminates", [True, False, True, True, False, False])
    block, _ = collector.collect()
    policy.to_samples(block)
    state = {"collector": collector.local_state_dict(), "collect_mode": policy.local_state_dict()}
    state["reward_model"] = {"means": {}, "scale": {"running_return": torch.arange(6.0)}}
    return copy.deepcopy(state | {"random": random_state(), "learner": {"means": {"loss": [6.0, 3, 1]}}})


def dealt(states: Sequence[dict[str, Any] | None], ranks: int, name: str = "iteration_1") -> list[dict[str, Any]]:
    """Deal six environments to ranks, each of which has read only the parts that it needs; None: a lost part."""
    lost = [part for part, state in enumerate(states) if state is None]
    needed = [find_parts(rank, ranks, len(states), lost, 6) for rank in range(ranks)]
    assert set().union(*needed) == set(range(len(states))) - set(lost)
    read = [[state if part in own else None for part, state in enumerate(states)] for own in needed]
    return [deal(each, lost, rank, ranks, 6, None, 0, name) for rank, each in enumerate(read)]


@pytest.mark.parametrize("case", POLICIES)
def test_episodes_and_memories_come_back_from_other_numbers_of_ranks(case: str) -> None:
    whole = play(case)
    states: list[dict[str, Any]] = [whole]
    for ranks, num_envs in ((2, [3, 3]), (4, [2, 2, 1, 1]), (3, [2, 2, 2]), (1, [6])):
        states = dealt(states, ranks)
        assert [len(state["collector"]["env"]["seed"]) for state in states] == num_envs
    assert not differences(states[0], whole)


def test_a_run_without_environments_is_dealt_too() -> None:
    state = {"collector": {}, "collect_mode": {}, "random": random_state(), "learner": {"means": {}}}
    assert [each["collector"] for each in dealt([state, None], 3)] == [{}, {}, {}]


def test_new_ranks_have_random_generators_of_their_own() -> None:
    saved = [play("dqn-discrete-0")]
    states = [*dealt(saved, 3), *dealt(saved, 3, "iteration_2")[1:]]  # ranks 1 and 2 come for the second time
    generators = [[state["collector"]["env"]["draws"], state["random"]["torch"].tolist()] for state in states]
    assert all(one != other for one, other in itertools.combinations(generators, 2))


def test_figures_are_summed_over_the_ranks_that_are_gone() -> None:
    states = dealt([play("dqn-discrete-0")], 3)
    assert [state["learner"]["means"] for state in states] == [{"loss": [6.0, 3, 1]}, {}, {}]
    states[1]["learner"]["means"], states[2]["learner"]["means"] = {"loss": [1.0, 1, 0]}, {"q": [2.0, 2, 0]}
    (alone,) = dealt(states, 1)
    assert alone["learner"]["means"] == {"loss": [7.0, 4, 1], "q": [2.0, 2, 0]}


@pytest.mark.parametrize("ranks", [511, 513, 256, 1024])
def test_a_rank_reads_few_parts_of_many(ranks: int) -> None:
    # 1024 environments of 512 ranks: 2 in a part. A rank of 256 gets 4 of them, of 2 parts; one of 511 gets 3 at most,
    # of 2 parts. Beside these are the part of its own number, and those of its share of the parts, 2 at most.
    most = {511: 5, 513: 5, 256: 3, 1024: 3}
    needed = [find_parts(rank, ranks, 512, (), 1024) for rank in range(ranks)]
    assert max(map(len, needed)) <= most[ranks]
    assert {part for own in needed for part in own} == set(range(512))


def test_environments_of_lost_parts_begin_anew_with_the_replay_of_others() -> None:
    whole = play("dqn-discrete-0")
    first, _, last = dealt([whole], 3)
    two = dealt([first, None, last], 2)  # environments 2 and 3 are lost; rank 0 gets 0 to 2
    assert [state["lost"] for state in two] == [[2], [0]]
    later = dealt([first, None, last], 2, "iteration_2")  # lost once more
    assert later[0]["collector"]["env"]["seed"][2] != two[0]["collector"]["env"]["seed"][2]
    (joined,) = dealt(two, 1)
    old, new = (state["collector"]["env"] for state in (whole, joined))
    assert (new["length"] == -1).tolist() == [False, False, True, True, False, False]
    assert len({*new["seed"].tolist(), *old["seed"].tolist()}) == 8
    for n in (0, 1, 4, 5):
        assert all(not differences(old[key][n], new[key][n]) for key in ("seed", "actions"))


@pytest.mark.parametrize(
    ("ranks", "advice"), [(2, "=3, or 6 and policy.divide=True"), (4, "=6 and policy.divide=True"), (1, "=6")]
)
def test_another_number_of_environments_is_refused(ranks: int, advice: str) -> None:
    message = rf"6 collecting .* 3 rank\(s\), and this run has 8 on {ranks}: set env\.collector_env_num{advice}\."
    for counts in ({0: 2, 1: 2, 2: 2}, {0: 2, 2: 2}):  # a lost part had as many
        with pytest.raises(CheckpointError, match=message):
            check_streams(counts, 3, 8, ranks)
        check_streams(counts, 3, 6, ranks)
    check_streams({0: 0, 1: 0}, 2, 8, ranks)  # a run without environments


def go_on(folder: Path, ranks: int, steps: int, *words: str) -> str:
    """Start a run, or resume it, with this number of ranks, up to so many env steps; return what it says."""
    command = ["resume", str(folder)] if folder.exists() else ["train", "-c", str(CONFIG), f"exp_name={folder}"]
    command += ["--nproc", str(ranks)] if ranks > 1 else []
    done = run_forked(["-m", "ding_lite", *command, *words, f"max_env_step={steps}"], timeout=200)
    assert "start new episodes" not in done.stderr + done.stdout
    result = json.loads((folder / "result.json").read_text())
    assert (result["envstep"], result["world_size"]) == (steps, ranks)
    assert len(list((folder / "ckpt").glob("*.rank_*"))) == ranks
    return done.stderr + done.stdout


@pytest.mark.slow
def test_a_run_whose_ranks_share_its_sizes_goes_on_with_any_number(tmp_path: Path) -> None:
    words = ["policy.priority=True", "policy.learn.learner.hook.save_ckpt_after_iter=50", "env.stop_value=None"]
    words += ["env.norm_reward=True", "policy.eval.evaluator.eval_freq=1000", "policy.divide=True"]
    words += ["env.collector_env_num=6", "policy.collect.n_sample=6", "policy.learn.batch_size=65"]
    folder = tmp_path / "run"
    for number, ranks in enumerate((1, 2, 3)):
        said = go_on(folder, ranks, 240 * (number + 1), *([] if number else words))
        assert "65 global, " in said
        assert (f"{ranks} rank(s) continue a run of " in said) == (number > 0)
        assert ("they share 6 environments and batches of 65." in said) == (number > 0)

    next((folder / "ckpt").glob("*.rank_1.*")).unlink()
    refused = run_forked(["-m", "ding_lite", "resume", str(folder), "max_env_step=960"], timeout=200, status=2)
    (line,) = refused.stderr.splitlines()
    assert (
        "No such file or directory. The part of rank 1 of 3 is lost: bring it back, or let its environments begin "
        "anew, without its replay: ding_lite resume DIR --allow-lost-replay." in line
    )
    said = go_on(folder, 2, 960, "--allow-lost-replay")
    assert "environments [2, 3] of 0 to 5 begin anew, with copies of the replay of others." in said


@pytest.mark.slow
def test_a_run_with_sizes_of_each_rank_says_what_a_step_learns_from(tmp_path: Path) -> None:
    words = ["policy.learn.learner.hook.save_ckpt_after_iter=50", "env.stop_value=None", "env.collector_env_num=6"]
    go_on(tmp_path / "run", 1, 240, *words)
    said = go_on(tmp_path / "run", 2, 480, "env.collector_env_num=3")
    assert "2 rank(s) continue a run of 1: a step of all learns from 128 samples instead of 64." in said
