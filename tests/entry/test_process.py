"""Only `policy_process` changes the process of a run, and restores the threads."""

from __future__ import annotations

import torch

from ding_lite.entry.experiment import Experiment
from ding_lite.entry.process import policy_process
from ding_lite.entry.setup import prepare_run
from ding_lite.utils.seed import random_state
from tests.entry.helpers import SHORT, pair
from tests.policy.helpers import parameter_hash


def test_a_policy_is_built_from_its_seed_with_its_threads() -> None:
    setup = prepare_run(pair(), 3, overrides=SHORT)
    threads, hashes = torch.get_num_threads(), []
    for path in (("policy",), ("policy",), (1, "policy")):
        with policy_process(setup, *path) as policy:
            hashes.append(parameter_hash(policy.model))
            assert torch.get_num_threads() == 1  # a small network
        assert torch.get_num_threads() == threads
    assert hashes[0] == hashes[1] != hashes[2]


def drawn() -> list[object]:
    """Return the states of the process's random generators, in types that can be compared."""
    state = random_state()
    return [state["python"], state["numpy"], state["torch"].tolist()]


def test_building_the_parts_of_a_run_changes_nothing_of_the_process() -> None:
    setup = prepare_run(pair(), 0, overrides=SHORT, limits={"max_env_step": 100, "max_train_iter": 100})
    with policy_process(setup, 0, "policy") as policy:
        before, threads = drawn(), torch.get_num_threads()
        experiment = Experiment(setup, policy, replays=True)
        experiment.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
        assert drawn() == before
        assert torch.get_num_threads() == threads
