from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ding_lite.results.groups import Group, describe_groups, differing_keys, group_runs
from ding_lite.results.run import Run
from ding_lite.utils.registry import UserError


def run(path: str, seed: int = 0, **config: Any) -> Run:
    keys = {key.replace("__", "."): value for key, value in config.items()}
    return Run(Path(path), {"exp_name": path, "seed": seed, "policy.type": "dqn", "env.env_id": "A-v0", **keys}, {})


def names(groups: list[Group]) -> list[tuple[str, int]]:
    return [(group.name, len(group.runs)) for group in groups]


def test_runs_that_differ_only_in_seed_and_directory_are_a_group() -> None:
    runs = [run("a", 0), run("b", 1), run("c", 0, policy__nstep=3), run("d", 1, policy__nstep=3)]
    assert names(group_runs(runs)) == [("dqn, nstep=-", 2), ("dqn, nstep=3", 2)]
    assert names(group_runs(runs[:2])) == [("dqn", 2)]


def test_a_limit_and_the_number_of_processes_are_differences_too() -> None:
    runs = [run("a", max_env_step=100), run("b", max_env_step=200), run("c", max_env_step=100, processes=2)]
    assert len(group_runs(runs)) == 3


def test_where_a_run_is_recorded_makes_no_difference() -> None:
    runs = [run("a"), run("b", 1, tracker__type=None), run("c", 2, tracker__type="wandb", tracker__group="x")]
    assert names(group_runs(runs)) == [("dqn", 3)]
    assert not any("differ" in line for line in describe_groups(group_runs(runs)))


def test_names_say_what_differs_within_an_algorithm() -> None:
    """All keys differ between the first two; nstep tells the third from the first, and three keys are enough."""
    first = {"policy.nstep": 1, "policy.learn.learning_rate": 0.001, "policy.learn.batch_size": 8, "x.y": 1, "x.z": 1}
    second = {"policy.nstep": 1, "policy.learn.learning_rate": 0.01, "policy.learn.batch_size": 16, "x.y": 2, "x.z": 2}
    configs: list[dict[str, Any]] = [first, second, {**first, "policy.nstep": 3}, {"policy.type": "ppo"}]
    runs = [run("a", **config) for config in configs]
    assert [group.name for group in group_runs(runs)] == [
        "dqn, nstep=1, learning_rate=0.001, batch_size=8",
        "dqn, nstep=1, learning_rate=0.01, batch_size=16",
        "dqn, nstep=3, learning_rate=0.001, batch_size=8",
        "ppo",
    ]


def test_environments_are_never_joined_unless_asked() -> None:
    runs = [run("a"), run("b", env__env_id="B-v0"), run("c", policy__type="ppo")]
    assert [(group.env, group.name, len(group.runs)) for group in group_runs(runs, "algorithm")] == [
        ("A-v0", "dqn", 1),
        ("B-v0", "dqn", 1),
        ("A-v0", "ppo", 1),
    ]
    assert names(group_runs(runs, "env")) == [("A-v0", 2), ("B-v0", 1)]
    assert {group.env for group in group_runs(runs, "env")} == {"all environments"}


def test_runs_are_grouped_by_a_key_or_one_by_one() -> None:
    runs = [run("p/a", policy__nstep=1), run("q/a", 1, policy__nstep=1), run("b", policy__nstep=3)]
    assert names(group_runs(runs, "policy.nstep")) == [("nstep=1", 2), ("nstep=3", 1)]
    assert names(group_runs(runs, "run")) == [("p/a", 1), ("q/a", 1), ("b", 1)]
    with pytest.raises(UserError, match=r"--by policy.nstop: expected .* Did you mean 'policy.nstep'"):
        group_runs(runs, "policy.nstop")


def test_what_a_group_mixes_is_said() -> None:
    runs = [run("a", policy__nstep=1), run("b", policy__nstep=3)]
    assert not any("differ" in line for line in describe_groups(group_runs(runs)))
    (group,) = group_runs(runs, "algorithm")
    assert describe_groups([group])[0] == "The runs of 'dqn' differ in more than the seed: policy.nstep."
    assert group.values("policy.nstep") == "1, 3"
    assert differing_keys([run.config for run in runs]) == ["policy.nstep"]


def test_runs_that_are_no_repetitions_or_not_whole_are_named() -> None:
    whole = [run("a", 0), run("b", 1)]
    ended = [Run(each.path, each.config, {"stop_reason": "max_env_step"}) for each in whole]
    assert describe_groups(group_runs(ended)) == []
    again = Run(Path("old/a"), ended[0].config, {"stop_reason": "stop_value"})
    assert describe_groups(group_runs([*ended, again])) == [
        "Some runs of 'dqn' repeat the config and the seed of another one, so intervals are too short: a."
    ]
    active = Run(Path("c"), run("c", 2).config, {}, active=True)
    stopped = Run(Path("d"), run("d", 3).config, {"stop_reason": "interrupted"})
    assert describe_groups(group_runs([ended[0], whole[1], active, stopped])) == [
        "Some runs of 'dqn' count only as far as they got: b (killed), c (running), d (interrupted)."
    ]
    other = Run(Path("e"), run("e", 0, policy__nstep=3).config, {"stop_reason": "max_env_step"})
    assert describe_groups(group_runs([*ended, other], "algorithm")) == [  # the seed of another config
        "The runs of 'dqn' differ in more than the seed: policy.nstep."
    ]


def test_values_that_differ_in_a_late_digit_are_different_groups_with_own_names() -> None:
    runs = [run(str(rate), policy__learning_rate=rate) for rate in (0.00012345671, 0.00012345672)]
    told = ["learning_rate=0.00012345671", "learning_rate=0.00012345672"]
    assert names(group_runs(runs)) == [(f"dqn, {name}", 1) for name in told]
    assert names(group_runs(runs, "policy.learning_rate")) == [(name, 1) for name in told]


def test_equal_numbers_of_different_types_are_one_group() -> None:
    (group,) = group_runs([run("a", env__stop_value=2_000_000), run("b", env__stop_value=2e6)])
    assert group.values("env.stop_value") == "2000000"


def test_keys_with_the_same_last_word_keep_their_path() -> None:
    runs = [run("a", env__type="x", buffer__type="x"), run("b", env__type="y", buffer__type="z")]
    assert group_runs(runs)[1].name == "dqn, env.type=y, buffer.type=z"
