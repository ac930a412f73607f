"""skrl's side of `batched`: its sequential trainer with PPO. Run it with the interpreter of its own environment.

Its loss has no `max` of the clipped and the other error of the value, and advantages are normalised once a collect.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Last, not first: the names of this project's packages must not hide those of a peer.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from tests.benchmarks.batched_task import (
    CLIP,
    ENTROPY_WEIGHT,
    EPOCHS,
    GAMMA,
    GRAD_NORM,
    LAMBDA,
    LEARNING_RATE,
    MINIBATCHES,
    STEPS,
    VALUE_WEIGHT,
    BatchedTask,
    Window,
    parse_peer,
)
from tests.benchmarks.meter import Finished

if TYPE_CHECKING:
    from torch import Tensor


def make_env(task: BatchedTask) -> Any:
    """Return the environments in skrl's form."""
    from skrl.envs.wrappers.torch import Wrapper

    class Env(Wrapper):  # type: ignore[misc]  # of a package that is not installed here
        observation_space = property(lambda self: self._env.single_observation_space)
        action_space = property(lambda self: self._env.single_action_space)

        def reset(self) -> tuple[Tensor, dict[str, Any]]:
            return self._env.reset(seed=0)

        def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Any]]:
            actions = actions[:, 0] if task.discrete else 2 * actions
            obs, *columns, _ = self._env.step(actions)
            reward, terminated, truncated = (column[:, None] for column in columns)
            return obs, reward, terminated, truncated, {}

        def state(self) -> None:
            return None

        def render(self, *args: Any, **kwargs: Any) -> None:
            return None

        def close(self) -> None:
            self._env.close()

    return Env(task.make_env())


def make_models(env: Any, task: BatchedTask) -> dict[str, Any]:
    import torch
    from skrl.models.torch import CategoricalMixin, DeterministicMixin, GaussianMixin, Model
    from torch import nn

    def make_mlp(outputs: int) -> nn.Module:
        size, hidden = env.observation_space.shape[0], task.hidden
        inner = (nn.Linear(size, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        return nn.Sequential(*inner, nn.Linear(hidden, outputs))

    spaces = dict(observation_space=env.observation_space, action_space=env.action_space, device="cpu")

    class Discrete(CategoricalMixin, Model):  # type: ignore[misc]
        def __init__(self) -> None:
            Model.__init__(self, **spaces)
            CategoricalMixin.__init__(self)
            self.net = make_mlp(2)

        def compute(self, inputs: dict[str, Any], role: str) -> tuple[Tensor, dict[str, Any]]:
            return self.net(inputs["observations"]), {}

    class Continuous(GaussianMixin, Model):  # type: ignore[misc]
        def __init__(self) -> None:
            Model.__init__(self, **spaces)
            GaussianMixin.__init__(self)
            self.net, self.log_std = make_mlp(1), nn.Parameter(torch.full((1,), -0.5))

        def compute(self, inputs: dict[str, Any], role: str) -> tuple[Tensor, dict[str, Any]]:
            return self.net(inputs["observations"]), {"log_std": self.log_std}

    class Value(DeterministicMixin, Model):  # type: ignore[misc]
        def __init__(self) -> None:
            Model.__init__(self, **spaces)
            DeterministicMixin.__init__(self)
            self.net = make_mlp(1)

        def compute(self, inputs: dict[str, Any], role: str) -> tuple[Tensor, dict[str, Any]]:
            return self.net(inputs["observations"]), {}

    return {"policy": Discrete() if task.discrete else Continuous(), "value": Value()}


def train(args: argparse.Namespace) -> None:
    from skrl.agents.torch.ppo import PPO, PPO_CFG
    from skrl.memories.torch import RandomMemory
    from skrl.trainers.torch import SequentialTrainer

    window = Window("skrl", args)
    env = make_env(window.task)
    cfg = PPO_CFG(
        rollouts=STEPS,
        learning_epochs=EPOCHS,
        mini_batches=MINIBATCHES,
        discount_factor=GAMMA,
        gae_lambda=LAMBDA,
        learning_rate=LEARNING_RATE,
        grad_norm_clip=GRAD_NORM,
        ratio_clip=CLIP,
        value_clip=CLIP,
        entropy_loss_scale=ENTROPY_WEIGHT,
        value_loss_scale=VALUE_WEIGHT / 2,  # of the whole squared error here
        time_limit_bootstrap=True,
    )
    cfg.experiment.write_interval = cfg.experiment.checkpoint_interval = 0
    agent = PPO(
        models=make_models(env, window.task),
        memory=RandomMemory(memory_size=STEPS, num_envs=env.num_envs, device="cpu"),
        observation_space=env.observation_space,
        action_space=env.action_space,
        device="cpu",
        cfg=cfg,
    )
    options = {"timesteps": 10**9, "headless": True, "disable_progressbar": True, "close_environment_at_exit": False}
    with suppress(Finished):
        SequentialTrainer(env=env, agents=agent, cfg=options).train()


if __name__ == "__main__":
    train(parse_peer(__doc__))
