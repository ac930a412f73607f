"""How often ranks meet in one turn of a loop, as docs/distributed.md says; each rank runs this file as a module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ding_lite import entry
from ding_lite.run.experiment import Experiment
from ding_lite.utils.ranks.machine_group import machine_group
from tests.distributed.on_ranks import call_on_ranks
from tests.policy.helpers import parameter_hash

AVERAGE = 2  # meetings of one average: all gradients are there, all parts are averaged
EPOCHS = 3
# policy: (pipeline, keys of the policy, meetings of a turn besides the averages)
POLICIES: dict[str, tuple[str, dict[str, Any], int]] = {
    "dqn": ("serial_pipeline", dict(learn=dict(update_per_collect=3)), 1),
    "pg": ("serial_pipeline_onpolicy", dict(collect=dict(n_episode=2)), 2),
    "a2c": ("serial_pipeline_onpolicy", dict(collect=dict(n_sample=64)), 3),
    "ppo": (
        "serial_pipeline_onpolicy",
        dict(learn=dict(epoch_per_collect=EPOCHS), collect=dict(n_sample=64)),
        4 + EPOCHS,
    ),
}


def count(name: str, folder: str) -> tuple[list[int], str]:
    """Train; return the meetings of each turn between two collects, without its averages, and the model's hash."""
    pipeline, keys, _ = POLICIES[name]
    seen: list[int] = []

    def collect(self: Experiment) -> dict[str, Any]:
        seen.append(machine_group().met - AVERAGE * self.learner.train_iter)
        return original(self)

    original, Experiment.collect = Experiment.collect, collect  # type: ignore[method-assign]
    hook = dict(log_show_after_iter=10**6, check_ranks_after_iter=0, save_ckpt_after_iter=10**6)
    learn = dict(learner=dict(hook=hook), batch_size=16) | keys.pop("learn", {})
    policy = dict(multi_gpu=True, learn=learn, eval=dict(evaluator=dict(eval_freq=10**6)), **keys)
    env = dict(env_id="CartPole-v1", collector_env_num=2, evaluator_env_num=1, n_evaluator_episode=1)
    main = dict(exp_name=str(Path(folder, name)), env=env, policy=policy)
    trained = getattr(entry, pipeline)((main, dict(policy=dict(type=name))), seed=0, max_env_step=640)
    Experiment.collect = original  # type: ignore[method-assign]
    turns = [after - before for before, after in zip(seen[-4:], seen[-3:], strict=False)]
    return turns, parameter_hash(trained.model)


def count_all(folder: str) -> dict[str, tuple[list[int], str]]:
    return {name: count(name, folder) for name in POLICIES}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, tuple[list[int], str]]]:
    return call_on_ranks(count_all, str(tmp_path_factory.mktemp("meetings")))


@pytest.mark.parametrize("name", POLICIES)
def test_a_turn_meets_as_often_as_the_docs_say_and_ranks_end_alike(
    name: str, found: list[dict[str, tuple[list[int], str]]]
) -> None:
    first, second = (rank[name] for rank in found)
    assert first == second
    assert first[0] == [POLICIES[name][2]] * 3
