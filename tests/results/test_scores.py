from __future__ import annotations

from pathlib import Path

import pytest

from ding_lite.results.compare import describe_scores, read_references, score_groups, score_table
from ding_lite.results.groups import Group, group_runs
from ding_lite.results.plot import render_profiles
from ding_lite.results.run import find_runs
from ding_lite.utils.registry import UserError
from tests.results.helpers import write_run

pytest.importorskip("scipy")
REFERENCES = {"CartPole-v0": (20.0, 200.0), "CartPole-v1": (20.0, 500.0)}


@pytest.fixture
def groups(tmp_path: Path) -> list[Group]:
    """Two algorithms on two tasks; the scores are 0.25, 0.25 and 1, 1 of DQN, and 0.5, 0.6 and 1, 1 of Rainbow."""
    for env, (low, high) in REFERENCES.items():
        for name, score in (("dqn", 0.25), ("rainbow", 0.5)):
            for seed in range(2):
                value = low + (high - low) * (score + 0.1 * seed * (name == "rainbow") if env == "CartPole-v0" else 1.0)
                write_run(
                    tmp_path / f"{env}{name}{seed}", seed, [0.0, value], f"env.env_id={env}", f"policy.type={name}"
                )
    return group_runs(find_runs([tmp_path]), "algorithm")


def test_a_row_has_the_scores_of_all_tasks(groups: list[Group]) -> None:
    scores = score_groups(groups, REFERENCES)
    assert {name: [list(map(float, task)) for task in tasks] for name, tasks in scores.items()} == {
        "dqn": [[0.25, 0.25], [1.0, 1.0]],
        "rainbow": [[0.5, 0.6], [1.0, 1.0]],
    }
    (dqn, rainbow), header = score_table(scores, 0.55, plain=True).rows, score_table(scores, 0.55).header
    assert header == ["group", "runs", "IQM", "above 0.55", "P(better)"]
    # interquartile means of four are those of the middle two; 3 of 4 are above 0.55; better with 1 and tied 0.5
    assert [float(rainbow[place]) for place in (1, 2, 5, 8)] == [4, 0.8, 0.75, 0.75]
    assert dqn[2:6] == ["0.625", "0.625", "0.625", "0.5"]
    assert dqn[8] == ""
    words = describe_scores(scores, list(REFERENCES))
    assert "Scores in CartPole-v0, CartPole-v1: 0 is" in words
    assert "higher than one of 'dqn'" in words
    assert render_profiles(scores, "svg") == render_profiles(scores, "svg")


def test_groups_that_lack_a_task_a_line_or_a_reference_are_refused(groups: list[Group]) -> None:
    with pytest.raises(UserError, match=r"no line for CartPole-v1. Did you mean 'CartPole-v0'"):
        score_groups(groups, {"CartPole-v0": (0.0, 1.0)})
    with pytest.raises(UserError, match="'dqn' has no evaluated run of CartPole-v1"):
        score_groups([group for group in groups if (group.name, group.env[-1]) != ("dqn", "1")], REFERENCES)
    with pytest.raises(UserError, match="--against ppo: there is no such group"):
        score_table(score_groups(groups, REFERENCES), against="ppo")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("env,random\nA,1\n", "expected a header 'env,random,reference'"),
        ("env,random,reference\nA,1,many\n", "a name and two numbers"),
        ("env,random,reference\nA,1\n", "a name and two numbers"),
        ("env,random,reference\nA,1,1\n", "expected two different returns of A, got 1.0 and 1.0"),
        (None, "Cannot read"),
    ],
)
def test_mistakes_in_the_file_of_references_get_one_line(tmp_path: Path, text: str | None, expected: str) -> None:
    path = tmp_path / "returns.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match=expected):
        read_references(path)
    path.write_text("env,random,reference\nA,1,2\n")
    assert read_references(path) == {"A": (1.0, 2.0)}
