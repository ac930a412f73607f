"""rsl_rl's side of `batched`: its runner with PPO. Run it with the interpreter of its own environment.

rsl_rl has no discrete actions. In CartPole, the sign of a normal variable says to which side the cart is pushed.
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
    """Return the environments in rsl_rl's form."""
    import torch
    from rsl_rl.env import VecEnv
    from tensordict import TensorDict

    class Env(VecEnv):  # type: ignore[misc]  # of a package that is not installed here
        num_actions, cfg = 1, None

        def __init__(self) -> None:
            self._env = task.make_env()
            self.num_envs, self.device = task.num_envs, self._env.device
            self.max_episode_length = self._env.max_episode_steps
            self._obs, _ = self._env.reset(seed=0)

        @property
        def episode_length_buf(self) -> Tensor:
            return self._env.elapsed_steps

        def get_observations(self) -> Any:
            return TensorDict({"policy": self._obs}, batch_size=[self.num_envs])

        def step(self, actions: Tensor) -> tuple[Any, Tensor, Tensor, dict[str, Any]]:
            actions = (actions[:, 0] > 0).to(torch.int64) if task.discrete else 2 * actions
            self._obs, reward, terminated, truncated, _ = self._env.step(actions)
            return self.get_observations(), reward, terminated | truncated, {"time_outs": truncated}

    return Env()


def make_config(task: BatchedTask) -> dict[str, Any]:
    model = {"class_name": "MLPModel", "hidden_dims": [task.hidden, task.hidden], "activation": "tanh"}
    algorithm = {
        "class_name": "PPO",
        "num_learning_epochs": EPOCHS,
        "num_mini_batches": MINIBATCHES,
        "clip_param": CLIP,
        "gamma": GAMMA,
        "lam": LAMBDA,
        "value_loss_coef": VALUE_WEIGHT / 2,  # of the whole squared error here
        "entropy_coef": ENTROPY_WEIGHT,
        "learning_rate": LEARNING_RATE,
        "max_grad_norm": GRAD_NORM,
        "use_clipped_value_loss": True,
        "schedule": "fixed",
        "normalize_advantage_per_mini_batch": True,
    }
    return {
        "num_steps_per_env": STEPS,
        "save_interval": 10**9,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "actor": model | {"distribution_cfg": {"class_name": "GaussianDistribution"}},
        "critic": model,
        "algorithm": algorithm,
    }


def train(args: argparse.Namespace) -> None:
    from rsl_rl.runners import OnPolicyRunner

    window = Window("rsl_rl", args)
    runner = OnPolicyRunner(make_env(window.task), make_config(window.task))
    with suppress(Finished):
        runner.learn(10**9)


if __name__ == "__main__":
    train(parse_peer(__doc__))
