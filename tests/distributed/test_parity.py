"""N processes take the step that one would take on the joined batch: for every registered policy, in float64.

The parameters, running statistics and optimizer state after three learning steps are the same to 1e-9 for one process
with all samples, and for real gloo processes with a part each: two with torch's DistributedDataParallel. From their
state three go on, with our average, and from theirs one. The parts differ in which parameters they touch and, unless
they are of a data set, in size.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ding_lite.policy import A2CPolicy, DQNPolicy, PPOPolicy
from ding_lite.utils.registry import POLICY_REGISTRY
from tests.algorithms import ALGORITHMS, policy_keys, row
from tests.distributed import parity
from tests.distributed.launcher import run_ranks
from tests.policy.helpers import KINDS

TOLERANCE = 1e-9


class LocalGradients(DQNPolicy):
    """Forgets to average gradients."""

    def _init_learn(self) -> None:
        super()._init_learn()
        self._optimizer.flat.average_grad = lambda: None  # type: ignore[method-assign]


class LocalAdvantages(A2CPolicy):
    """Normalises advantages by this rank's own mean."""

    def _loss(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        return super()._loss(batch | {"adv": batch["adv"] - batch["adv"].mean()})


class LocalStatistics(PPOPolicy):
    """Keeps statistics of this rank's own returns."""

    def _targets(self, block: dict[str, Any], epoch: int) -> dict[str, Tensor]:
        targets = super()._targets(block, epoch)
        self._value_stats.mean += targets["return_"].mean()
        return targets


BROKEN = {"local_gradients": LocalGradients, "local_advantages": LocalAdvantages, "local_statistics": LocalStatistics}


def registered() -> dict[str, tuple[str, str, list[str]]]:
    """Return name, kind of action and overrides of every policy's problems."""
    found = {}
    for name, kinds in KINDS.items():
        own, short = row(name), policy_keys(row(name).short)
        for kind in kinds:
            for number, words in enumerate(own.agents if is_folded(name, kind) else own.cases):
                found[f"{name}-{kind}-{number}"] = (name, kind, short + policy_keys(words))
            if own.masked and kind.endswith("discrete"):
                found[f"{name}-{kind}-masked"] = (name, kind, [*short, "env.masked=True"])
    return found


def is_folded(name: str, kind: str) -> bool:
    """Return whether a policy of one agent learns for several."""
    return kind == "agents" and not POLICY_REGISTRY.find(name).multi_agent


def is_variant(case: str) -> bool:
    """Return whether another case has this one's options, with a policy's first kind of action."""
    name, kind, number = case.split("-")
    if is_folded(name, kind) and row(name).agents == ("",):
        return True
    return kind != KINDS[name][0] and number not in row(name).quick.split()


PROBLEMS = registered()
CASES = [pytest.param(case, marks=[pytest.mark.slow] if is_variant(case) else []) for case in PROBLEMS]
ONE = 0  # stands for the one process that takes all steps, instead of a number of ranks
States = dict[tuple[int, int], dict[str, Any]]  # by (number of ranks, rank), or (ONE, phase), and case


def run_all(folder: str) -> None:
    """Run every problem of `folder`/problems.pt on this rank."""
    POLICY_REGISTRY.update(BROKEN)
    parity.run_all(folder)


@pytest.fixture(scope="module")
def states(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[States]:
    """Yield the states of all cases that are tested."""
    here = (item for item in request.session.items if item.path == request.path and hasattr(item, "callspec"))
    selected = {item.callspec.params.get("case") for item in here}
    POLICY_REGISTRY.update(BROKEN)
    folder = tmp_path_factory.mktemp("parity")
    cases = {case: problem for case, problem in PROBLEMS.items() if case in selected}
    cases |= {name: (name, "discrete", []) for name in BROKEN}
    problems = {}
    for case, (name, kind, overrides) in cases.items():
        cfg = parity.compile_problem(name, kind, overrides)
        problems[case] = {"cfg": cfg, "block": parity.collect_block(cfg)}
    torch.save(problems, folder / "problems.pt")
    for size in (2, 3):
        run_ranks(["-m", "tests.distributed.call", __name__, "run_all", str(folder)], nproc=size, timeout=240)
    found: States = {}
    alone = {case: parity.run_problem(problem, range(3)) for case, problem in problems.items()}
    for phase in range(3):
        found[ONE, phase] = {case: done if isinstance(done, str) else done[phase] for case, done in alone.items()}
    for size in (2, 3):
        for rank in range(size):
            found[size, rank] = torch.load(Path(folder, f"world{size}_rank{rank}.pt"), weights_only=False)
    found[1, 0] = parity.run_phase(problems, found[3, 0])
    yield found
    for name in BROKEN:
        del POLICY_REGISTRY[name]


def leaves(state: Any, path: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield every number of a state, with its path."""
    if isinstance(state, dict):
        for key, value in state.items():
            yield from leaves(value, f"{path}.{key}")
    elif isinstance(state, (list, tuple)):
        for number, value in enumerate(state):
            yield from leaves(value, f"{path}.{number}")
    elif state is not None:
        yield path, torch.as_tensor(state).double()


def largest_difference(left: Any, right: Any) -> tuple[float, str]:
    """Return by how much two states differ at most, and where."""
    pairs = zip(leaves(left), leaves(right), strict=True)
    return max((float((a - b).abs().max()) if a.numel() else 0.0, path) for (path, a), (_, b) in pairs)


def check_parity(states: States, case: str, size: int) -> None:
    """Raise AssertionError, naming the case, unless `size` processes ended as the one does, all of them alike."""
    expected = states[ONE, parity.PHASES[size]][case]
    assert not isinstance(expected, str), expected
    for rank in range(size):
        state = states[size, rank][case]
        assert not isinstance(state, str), f"{case}: rank {rank} of {size}: {state}"
        difference, path = largest_difference(expected, state)
        assert difference <= TOLERANCE, f"{case}: {path} of rank {rank} of {size} is off by {difference}"
        assert largest_difference(states[size, 0][case], state)[0] == 0.0, f"{case}: ranks 0 and {rank} differ"


@pytest.mark.parametrize("case", CASES)
def test_changing_numbers_of_processes_step_as_one_does_and_move_all(states: States, case: str) -> None:
    for size in parity.PHASES:
        check_parity(states, case, size)
    name, kind, overrides = PROBLEMS[case]
    before = parity.create_policy(parity.compile_problem(name, kind, overrides)).model.state_dict()
    after = states[ONE, 0][case]["model"]
    unchanged = [key for key in before if torch.equal(before[key], after[key])]
    assert unchanged == []


@pytest.mark.parametrize("case", BROKEN)
def test_a_policy_without_synchronisation_fails_with_its_name(states: States, case: str) -> None:
    with pytest.raises(AssertionError, match=case):
        check_parity(states, case, 3)


def test_only_some_ranks_touch_the_rare_parameters() -> None:
    """What makes the parity above worth something: environment 0 alone is marked, and is on rank 0."""
    cfg = parity.compile_problem("ppo", "discrete", [])
    block = parity.collect_block(cfg)
    touched = [(parity.take_columns(block, part)["obs"][..., 0] == parity.MARK).any() for part in parity.UNEVEN[3]]
    assert touched == [True, False, False]


def test_every_registered_policy_is_in_the_table_and_among_the_problems() -> None:
    ours = {name for name, cls in POLICY_REGISTRY.items() if cls.__module__.startswith("ding_lite.")}
    assert {name for name, _, _ in PROBLEMS.values()} == ours == {*ALGORITHMS}
