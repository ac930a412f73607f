"""From an expert over what it plays to a policy that learned from that alone, on two processes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from ding_lite.entry import collect_demo_data, evaluate_checkpoint
from tests.distributed.launcher import ROOT, run_forked

CONTROL = ROOT / "dizoo" / "classic_control"
EPISODES, SEED = 200, 77  # of the comparison: both play from the same states
ALLOWED = 0.1  # of the expert's return, that a policy may fall short


class Expert(NamedTuple):
    """How an expert is trained, and how many transitions of it are recorded."""

    words: list[str]
    rows: int


class Case(NamedTuple):
    """A policy that learns from an expert's record, played as in training or not, for so many learner iterations."""

    task: str
    policy: str
    explore: bool
    iterations: int


EXPERTS = {
    "cartpole": Expert(["serial", "-c", f"{CONTROL}/cartpole/config/cartpole_dqn_config.py"], 10_000),
    "pendulum": Expert(
        [
            *("serial_onpolicy", "-c", f"{CONTROL}/pendulum/config/pendulum_ppo_config.py"),
            *("env.stop_value=-150", "env.n_evaluator_episode=100", "max_env_step=200000"),
        ],
        20_000,
    ),
}
CASES = [
    Case("cartpole", "bc", False, 2000),
    Case("cartpole", "discrete_cql", True, 8000),
    Case("pendulum", "bc", False, 4000),
    Case("pendulum", "td3_bc", True, 7500),
    Case("pendulum", "iql", True, 4000),
    Case("pendulum", "cql", True, 9400),
]


def ding_lite(words: list[str], cwd: Path, seconds: float) -> subprocess.CompletedProcess[str]:
    return run_forked(["-m", "ding_lite", *words], seconds, cwd=cwd)


def learn(task: str, policy: str, data: Path, cwd: Path, *words: str, seconds: float = 60) -> float:
    """Learn from a record on two processes; return the mean return that the best checkpoint then plays."""
    config = CONTROL / task / "config" / f"{task}_{policy}_config.py"
    given = [
        f"policy.collect.data_path={data}",
        "policy.collect.data_type=",
        "exp_name=learned",
        "env.stop_value=None",
        *words,
    ]
    ding_lite(["-m", "offline", "-c", str(config), "-s", "0", "--nproc", "2", *given], cwd, seconds)
    return play(cwd / "learned")


def play(folder: Path) -> float:
    checkpoint = folder / "ckpt" / "ckpt_best.pth.tar"
    return evaluate_checkpoint(str(folder / "total_config.py"), str(checkpoint), SEED, EPISODES)["return_mean"]


def enough(expert: float) -> float:
    return expert - ALLOWED * abs(expert)


@pytest.fixture(scope="module")
def experts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the run of each expert, trained when it is first asked for."""

    class Experts(dict[str, Path]):
        def __missing__(self, task: str) -> Path:
            path = tmp_path_factory.mktemp(task)
            ding_lite(["-m", *EXPERTS[task].words, "-s", "0", "exp_name=expert"], path, 600)
            self[task] = path / "expert"
            return self[task]

    return Experts()


@pytest.mark.learn
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.task}_{case.policy}")
def test_an_experts_return_is_reached_from_its_record(case: Case, experts: dict[str, Path], tmp_path: Path) -> None:
    expert, data = experts[case.task], tmp_path / "record.hdf5"
    best = str(expert / "ckpt" / "ckpt_best.pth.tar")
    collect_demo_data(
        str(expert / "total_config.py"),
        seed=1,
        collect_count=EXPERTS[case.task].rows,
        expert_data_path=str(data),
        state_dict_path=best,
        explore=case.explore,
    )
    words = [f"max_train_iter={case.iterations}", "policy.learn.train_epoch=100000", "policy.learn.batch_size=64"]
    reached, goal = learn(case.task, case.policy, data, tmp_path, *words, seconds=850), play(expert)
    print(f"{case.task} {case.policy}: return {reached:.1f}, the expert's {goal:.1f}")
    assert reached >= enough(goal)
