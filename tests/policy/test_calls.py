"""From the training loop to the loss there are few calls, and an editor finds each of them."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import jedi
import pytest

from ding_lite.entry import Callback, serial_pipeline, serial_pipeline_onpolicy
from ding_lite.multi_agent.rows import AgentPolicy
from ding_lite.worker import Learner
from tests.distributed import parity
from tests.policy.helpers import OURS, batches_of
from tests.policy.test_modes import create

ROOT = Path(__file__).parents[2]
MOST_CALLS = 7  # `serial_pipeline`, `Experiment.learn`, and five from `Learner.train` to the loss
WAY = ["learn", "train", "learn", "_forward_learn", "step", "_loss"]  # after the pipeline's function


def watch_losses(policy: Any) -> list[list[str]]:
    """Return a list to which each call of a loss adds the names of this package's functions on its stack."""
    stacks: list[list[str]] = []

    def watched(name: str) -> Any:
        loss = getattr(policy, name)

        def call(batch: Any, *args: Any) -> Any:
            frames = traceback.extract_stack()
            ours = [each.name for each in frames if Path(each.filename).is_relative_to(ROOT / "ding_lite")]
            if not any(each.endswith("_loss") for each in ours):  # a loss may be a sum of others
                stacks.append([*ours, name])
            return loss(batch, *args)

        return call

    for name in [name for name in dir(policy) if name.endswith("_loss") and callable(getattr(policy, name))]:
        setattr(policy, name, watched(name))
    return stacks


@pytest.mark.parametrize("name", OURS)
def test_few_calls_lie_between_the_loop_and_every_loss(name: str) -> None:
    cfg, policy = create(name)
    stacks = watch_losses(policy)
    batch = next(batches_of(policy, cfg, parity.collect_block(cfg)))
    Learner(policy, 100, lambda values: None).train([batch, batch])  # TD3 steps its actor at every second one
    assert stacks
    in_front = 2 * isinstance(policy, AgentPolicy)  # `learn` and `_forward_learn` of a class in front of another one
    assert max(map(len, stacks)) <= MOST_CALLS - 2 + in_front


class Watch(Callback):
    """Records the stacks of the losses."""

    def on_start(self, run: Any) -> None:
        self.stacks = watch_losses(run.policy)


@pytest.mark.parametrize("name", ["dqn", "ppo"])
@pytest.mark.parametrize("normalized", [False, True])
def test_the_way_of_a_real_run_is_the_documented_one(name: str, normalized: bool) -> None:
    env: dict[str, Any] = dict(
        type="parity", kind="discrete", collector_env_num=2, evaluator_env_num=1, n_evaluator_episode=1
    )
    env["norm_obs"] = env["norm_reward"] = dict(use_norm=normalized)
    policy = dict(collect=dict(n_sample=16), learn=dict(batch_size=8))
    create_config = dict(env=dict(type="parity", import_names=["tests.distributed.parity"]), policy=dict(type=name))
    pipeline = {"dqn": serial_pipeline, "ppo": serial_pipeline_onpolicy}[name]
    watch = Watch()
    pipeline((dict(exp_name="run", env=env, policy=policy), create_config), seed=0, max_env_step=64, callbacks=[watch])
    assert watch.stacks
    assert all(stack == [pipeline.__name__, *WAY] for stack in watch.stacks)
    assert len([pipeline.__name__, *WAY]) <= MOST_CALLS


STEP = "torch_utils.optimizer_step.OptimizerStep.step"
# The text of a call, its file, and the definition that "go to definition" must find.
CALLS = [
    ("experiment.learn(", "run/serial_entry.py", "run.experiment.Experiment.learn"),
    ("self.learner.train(", "run/experiment.py", "worker.learner.Learner.train"),
    ("self._policy.learn(", "worker/learner.py", "policy.base.Policy.learn"),
    ("self._forward_learn(", "policy/base.py", "policy.base.Policy._forward_learn"),
    ("self._optimizer.step(", "policy/value/dqn.py", STEP),
    ("step(self._loss", "policy/value/dqn.py", "policy.value.dqn.DQNPolicy._loss"),
    ("self._optimizer.step(", "policy/policy_gradient/ppo.py", STEP),
    ("step(self._loss", "policy/policy_gradient/ppo.py", "policy.policy_gradient.ppo.PPOPolicy._loss"),
]


def test_an_editor_finds_the_definition_of_each_call() -> None:
    project = jedi.Project(ROOT)
    for call, file, definition in CALLS:
        path = ROOT / "ding_lite" / file
        lines = path.read_text().splitlines()
        row = next(row for row, line in enumerate(lines) if call in line)
        column = lines[row].index(call) + len(call.rstrip("(")) - 1
        found = jedi.Script(path=path, project=project, environment=jedi.InterpreterEnvironment()).goto(
            row + 1, column, follow_imports=True
        )
        assert [each.full_name for each in found] == [f"ding_lite.{definition}"], call
