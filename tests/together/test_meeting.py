"""Several runs that compute together: each is the run that it would be alone."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ding_lite.policy import Policy
from ding_lite.run.callbacks import Callback
from ding_lite.together.meeting import Meeting
from ding_lite.utils.tree import tree_map
from tests.distributed import parity
from tests.distributed.test_parity import PROBLEMS, largest_difference

SEEDS = (0, 1, 2)
QUICK = ("dqn-discrete-0", "sac-continuous-0")
REFUSED = ("edac",)  # its loss has a gradient inside
CASES = [pytest.param(case, marks=[] if case in QUICK else pytest.mark.slow) for case in PROBLEMS]


def learn(case: str, seed: int, member: Callback | None = None) -> dict[str, Any]:
    """Return everything that some iterations of a policy change, of one with a seed."""
    cfg = parity.compile_problem(*PROBLEMS[case])
    cfg.policy.learn.batch_size = 10**6
    cfg.seed = seed
    block = parity.collect_block(cfg)
    torch.manual_seed(seed)
    create, policies = parity.create_policy, list[Policy]()

    def created(cfg: Any) -> Any:
        policy = create(cfg)
        policies.append(policy)
        if member is not None:
            parity.create_policy = create
            member.on_start(SimpleNamespace(policy=policy))
        return policy

    parity.create_policy = created
    try:
        (state,) = parity.learn(cfg, block, range(parity.NUM_ENVS))
    finally:
        parity.create_policy = create
    return state | {"played": play(policies[0], block)}


def play(policy: Policy, block: dict[str, Any]) -> dict[str, Any]:
    """Return what a policy does with the first two observations of a block, as in a collect and in an evaluation."""
    outputs = []
    for explore in (True, False):
        policy.reset(explore=explore)
        kwargs = policy.begin_collect(0) if explore else {}
        for t in range(2):
            obs = tree_map(lambda leaf, t=t: leaf[t], block["obs"])
            output = policy.act(obs, explore=explore, **kwargs)
            outputs.append(tree_map(torch.clone, output))
    return {str(number): output for number, output in enumerate(outputs)}


@pytest.mark.parametrize("case", CASES)
def test_a_policy_among_others_learns_what_it_learns_alone(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parity, "PartlyTouched", lambda model: model)  # it decides by its inputs' values
    monkeypatch.setattr(parity, "STEPS", 20)
    alone = [learn(case, seed) for seed in SEEDS]
    meeting = Meeting(len(SEEDS))
    programs = meeting.run([partial(learn, case, seed) for seed in SEEDS], lambda number, program: None)
    for program, state in zip(programs, alone, strict=True):
        if case.startswith(REFUSED):
            assert "cannot learn together with others: " in str(program.error)
            continue
        if program.error is not None:
            raise program.error
        difference, where = largest_difference(program.result, state)
        assert difference < 1e-10, where


def test_a_loss_that_reads_the_values_of_tensors_is_refused_with_its_place() -> None:
    """The model of the parity test does."""
    programs = Meeting(2).run([partial(learn, QUICK[0], seed) for seed in range(2)], lambda number, program: None)
    text = str(programs[0].error)
    assert text.startswith("Policy 'dqn' cannot learn together with others: what it does depends on the values")
    assert "(parity.py, line " in text
    assert text.endswith("Leave --together out.")
