"""`policy.compile=True`: the step is that of the same policy without it, or one line says why it cannot be compiled."""

from __future__ import annotations

import os
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ding_lite.gpu.compiled_loss import CapturedGradient
from ding_lite.policy import DQNPolicy
from ding_lite.torch_utils.nonfinite import StepCheck
from ding_lite.utils.ranks.flat_parameters import FlatParameters
from ding_lite.utils.registry import ConfigError, UserError
from tests.distributed import parity
from tests.distributed.launcher import finish, launch, start
from tests.distributed.test_parity import PROBLEMS, largest_difference
from tests.distributed.test_training import CARTPOLE, train
from tests.policy.helpers import make_batch, make_cfg

CXX = os.environ.get("CXX", "g++")
needs_compiler = pytest.mark.skipif(
    shutil.which(CXX) is None or " " in torch.__file__,
    reason="torch.compile needs a C++ compiler, and a folder without a space in its name",
)
FAST = "dqn-discrete-0"
CASES = [FAST, *(pytest.param(case, marks=pytest.mark.slow) for case in PROBLEMS if case != FAST)]


@needs_compiler
@pytest.mark.parametrize("case", CASES)
def test_every_policy_takes_the_same_steps(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parity, "PartlyTouched", lambda model: model)  # it looks at its inputs, which stops a compiler
    name, kind, overrides = PROBLEMS[case]
    cfg = parity.compile_problem(name, kind, overrides)
    block = parity.collect_block(cfg)
    states = []
    for cfg.policy.compile in (False, True):
        torch.manual_seed(0)
        states += parity.learn(cfg, block, range(parity.NUM_ENVS))
    difference, where = largest_difference(*states)
    assert difference < 1e-9, where


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "paths", "overrides"),
    [
        ("dqn", ("learn.learning_rate", "learn.grad_clip_value"), ["policy.learn.grad_clip_type=clip_norm"]),
        ("dqn", ("learn.target_theta",), []),
        ("ppo", ("learn.clip_ratio",), []),
        ("mdqn", ("entropy_tau",), []),
        ("sac", ("learn.alpha",), ["policy.learn.auto_alpha=False"]),
    ],
)
def test_a_schedule_neither_compiles_again_nor_is_lost(
    name: str, paths: tuple[str, ...], overrides: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parity, "PartlyTouched", lambda model: model)
    schedule = "{'type': 'linear', 'start': 0.2, 'end': 0.001, 'over': 5, 'by': 'iteration'}"
    kind = "continuous" if name == "sac" else "discrete"
    cfg = parity.compile_problem(name, kind, [*overrides, *(f"policy.{path}={schedule}" for path in paths)])
    block = parity.collect_block(cfg)
    states = []
    for cfg.policy.compile in (False, True):
        torch.manual_seed(0)
        torch._dynamo.utils.counters.clear()
        states += parity.learn(cfg, block, range(parity.NUM_ENVS))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == (2 if name == "sac" else 1)  # one an optimizer
    difference, where = largest_difference(*states)
    assert difference < 1e-6, where


@needs_compiler
@pytest.mark.slow
def test_two_ranks_stay_equal_and_a_second_run_is_the_same(tmp_path: Path) -> None:
    hashes = set()
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        hashes |= {report["online"] for report in train(tmp_path / name, "policy.compile=True")}
    assert len(hashes) == 1


class Undecided(DQNPolicy):
    """Its loss reads a number of the batch."""

    def _loss(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Any]]:
        if batch["reward"].sum() > 0:
            batch = batch | {"reward": -batch["reward"]}
        return super()._loss(batch)


def test_a_loss_that_cannot_be_compiled_is_one_line() -> None:
    policy = Undecided(make_cfg("compile=True"))
    with pytest.raises(ConfigError, match=r"torch.compile failed for Undecided._loss: .*Set policy.compile=False.$"):
        policy.learn(make_batch(8))


class Turns(DQNPolicy):
    """Alternates two losses on one optimizer; the second reads a list that grows after the third step."""

    def _init_learn(self) -> None:
        super()._init_learn()
        self._history = [1.0]

    def _first(self, factor: float, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Any]]:
        return factor * self._model(batch["obs"])["logit"].square().mean(), {}

    def _second(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Any]]:
        return self._model(batch["obs"])["logit"].mean() * sum(self._history), {}

    def _forward_learn(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        if self.iteration > 2:
            self._history.append(1.0)
        return self._optimizer.step(self._second if self.iteration % 2 else partial(self._first, 1.0), batch)


def test_losses_that_take_turns_are_compiled_each_and_follow_what_they_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))  # all but the C++ compiler
    monkeypatch.setattr(torch._dynamo.config, "recompile_limit", 2)
    losses: list[list[float]] = []
    batch = make_batch(8)
    for compiled in (False, True):
        torch.manual_seed(0)
        policy = Turns(make_cfg(f"compile={compiled}"))
        losses.append([policy.learn(batch)["total_loss"].item() for _ in range(4)])
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    policy.learn(batch)
    with pytest.raises(ConfigError, match=r"failed for Turns._second: it reads values that change all the time"):
        policy.learn(batch)


def captured(network: torch.nn.Module) -> CapturedGradient:
    """Return what a GPU would replay from the third call on."""
    return CapturedGradient(network, make_cfg(), FlatParameters(network), StepCheck("stop", network))


def test_a_loss_that_is_another_one_in_every_step_is_one_line() -> None:
    losses, network = captured(torch.nn.Linear(1, 1)), torch.nn.Linear(1, 1)
    kept = [torch.ones(1) for _ in range(17)]
    for tensor in kept[:-1]:
        losses._find(lambda batch, tensor=tensor: (network(tensor), {}))  # type: ignore[misc]
    with pytest.raises(UserError, match=r"<lambda> is loss number 17 of one optimizer.*pass the same methods"):
        losses._find(lambda batch, tensor=kept[-1]: (network(tensor), {}))  # type: ignore[misc]


def test_a_graph_does_not_go_on_with_parameters_that_were_replaced() -> None:
    """A model that is moved would act with parameters that nobody trains."""
    network, batch = torch.nn.Linear(1, 1), {"x": torch.ones(1, 1)}
    losses = captured(network)

    def loss_of(batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        return network(batch["x"]).mean(), {}

    losses.function(loss_of)(batch)
    network.weight.data = network.weight.data.clone()
    with pytest.raises(RuntimeError, match="a parameter or its gradient was replaced"):
        losses.function(loss_of)(batch)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (lambda loss: loss, r"expected \(loss, figures\), .* got Tensor\[\]"),
        (lambda loss: (loss.detach(), {}), "the loss has no gradient"),
    ],
)
def test_a_graph_says_what_is_wrong_with_a_loss(output: Any, message: str) -> None:
    network = torch.nn.Linear(1, 1)
    with pytest.raises(UserError, match=message):
        captured(network).function(lambda batch: output(network(batch["x"]).mean()))({"x": torch.ones(1, 1)})


@pytest.mark.slow
def test_a_machine_without_a_compiler_is_one_line(tmp_path: Path) -> None:
    missing = {"CXX": str(tmp_path / "none"), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    words = ["-m", "ding_lite", "-c", str(CARTPOLE), "policy.compile=True"]
    done = launch(words, nproc=1, timeout=300, env=missing, cwd=tmp_path, fresh=True)  # torch reads CXX once
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("policy.compile=True")]
    assert "No working C++ compiler found" in line
    assert line.endswith("Set policy.compile=False.")


INTERRUPTING_COMPILER = f"""#!{sys.executable}
import os, signal, sys
if any(word.endswith(".main.cpp") for word in sys.argv) and not os.path.exists(__file__ + ".once"):
    open(__file__ + ".once", "w").close()
    os.kill(0, signal.SIGINT)  # as Ctrl-C does, to all processes of the terminal's foreground group
os.execvp({CXX!r}, [{CXX!r}, *sys.argv[1:]])
"""


@needs_compiler
@pytest.mark.slow
def test_ctrl_c_while_the_compiler_runs_ends_after_the_iteration_and_spoils_no_cache(tmp_path: Path) -> None:
    compiler = tmp_path / "compiler"
    compiler.write_text(INTERRUPTING_COMPILER)
    compiler.chmod(0o755)
    env = {"CXX": str(compiler), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    words = ["-m", "ding_lite", "train", "-c", str(CARTPOLE), "policy.compile=True", "max_train_iter=3"]
    interrupted, again = (finish(start([sys.executable, *words], env, tmp_path), 300) for _ in range(2))
    assert "ended (interrupted)" in interrupted.stderr
    assert again.returncode == 0, again.stderr
