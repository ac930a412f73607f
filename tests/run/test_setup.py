"""Only `policy_process` changes the process of a run, and restores the threads; ranks may share environments."""

from __future__ import annotations

from pathlib import Path

import gymnasium
import pytest
import torch

from ding_lite.run.experiment import Experiment
from ding_lite.run.setup import policy_process, prepare_run
from ding_lite.utils.ranks.launch_environment import usable_cores
from ding_lite.utils.seed import random_state
from tests.distributed.launcher import run_forked
from tests.distributed.on_ranks import call_on_ranks
from tests.policy.helpers import parameter_hash
from tests.run.helpers import SHORT, pair


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
        experiment = Experiment(setup, policy)
        experiment.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
        assert drawn() == before
        assert torch.get_num_threads() == threads


# Prints the share of denormal products in each half of a tensor, which a thread of its own computes, and in a thread of
# Python's own: first as torch does it, then in a run.
DENORMALS = """
from threading import Thread
import torch
from ding_lite.run.setup import policy_process, prepare_run
from tests.run.helpers import SHORT, pair
def show():
    product = torch.full((1 << 21,), 2e-38) * 0.1
    print(*(product.view(torch.int32) != 0).view(2, -1).float().mean(1).tolist())
torch.set_num_threads(2)
show()
with policy_process(prepare_run(pair(), 3, overrides=["policy.num_threads=2", *SHORT])):
    show()
    other = Thread(target=show)
    other.start()
    other.join()
"""


@pytest.mark.skipif(usable_cores() < 2, reason="one core")
def test_denormals_are_rounded_to_zero_in_threads_that_were_there_before(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(DENORMALS)
    done = run_forked([str(script)], status=None)
    assert done.stdout.splitlines() == ["1.0 1.0", "0.0 0.0", "0.0 0.0"], done.stderr


def limited_cartpole(limit: int) -> gymnasium.Env:
    return gymnasium.make("CartPole-v1", max_episode_steps=limit)


def own_limits() -> list[int]:
    """Return the limits of the environments that this rank builds, of four."""
    setting = (limited_cartpole, [7, 8, 9, 10], [11])
    setup = prepare_run(pair(), env_setting=setting, overrides=["policy.divide=True"])
    assert setup.cfg.env.collector_env_num == len(setup.builders[0])
    specs = [build(None).spec for build in setup.builders[0]]
    return [spec.max_episode_steps for spec in specs]


def test_ranks_share_the_environments_of_env_setting() -> None:
    assert call_on_ranks(own_limits, nproc=3) == [[7, 8], [9], [10]]
