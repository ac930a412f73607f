"""What every side of a comparison is given.

The driver and every peer's interpreter read this file, so it needs no package but torch, to limit its threads.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Task:
    """One training task; the same numbers go to every library.

    Attributes:
        hidden: Hidden layers: three convolutions' channels and a dense layer for Pong, dense layers otherwise.
        collect_steps: Environment steps, of all environments together, between two rounds of updates.
        updates: Optimizer steps in a round.
        warm_steps: Environment steps before the clock starts (learning is under way by then).
        run_steps: Environment steps of the measured window; None: as many as fit into the seconds that are asked for.
        parameters: Trainable parameters of the network, checked on every side.
    """

    env_id: str
    hidden: tuple[int, ...]
    collect_steps: int
    updates: int
    batch_size: int
    learning_rate: float
    gamma: float
    parameters: int
    warm_steps: int = 2000
    run_steps: int | None = None
    num_envs: int = 8

    @property
    def pong(self) -> bool:
        """Whether it is Pong; CartPole if not."""
        return self.env_id.startswith("Pong")

    @property
    def ratio(self) -> float:
        """Optimizer steps per environment step."""
        return self.updates / self.collect_steps

    def policy_config(self) -> dict[str, Any]:
        """``policy`` of a config file, but for the model; DI-engine's keys are ours."""
        return {
            "cuda": False,
            "discount_factor": self.gamma,
            "learn": {"batch_size": self.batch_size, "learning_rate": self.learning_rate},
            "collect": {"n_sample": self.collect_steps},
            "eval": {"evaluator": {"eval_freq": 10**9}},
        }


@dataclass(frozen=True, kw_only=True)
class DQNTask(Task):
    """DQN.

    Attributes:
        target_freq: Optimizer steps between two copies of the network into the target.
        learning_starts: Environment steps before the first update.
    """

    nstep: int
    buffer_size: int
    target_freq: int
    learning_starts: int
    epsilon: float = 0.1

    def policy_config(self) -> dict[str, Any]:
        """``policy`` of a config file, but for the model."""
        config = super().policy_config()
        target = {"target_update_freq": self.target_freq, "target_theta": None}
        config["learn"] |= {"update_per_collect": self.updates, **target}
        return config | {
            "nstep": self.nstep,
            "random_collect_size": self.learning_starts,
            "other": {
                "eps": {"type": "linear", "start": self.epsilon, "end": self.epsilon, "decay": 1},
                "replay_buffer": {"replay_buffer_size": self.buffer_size},
            },
        }


@dataclass(frozen=True, kw_only=True)
class QRDQNTask(DQNTask):
    """QR-DQN.

    Attributes:
        quantiles: Of each action.
    """

    quantiles: int


@dataclass(frozen=True, kw_only=True)
class QACTask(Task):
    """SAC, with a learned temperature and two critics, or TD3.

    Attributes:
        algorithm: 'sac' or 'td3'.
        iterations: Updates of the critics in a round; `updates` counts those of all optimizers.
    """

    algorithm: str
    iterations: int
    buffer_size: int = 100_000
    learning_starts: int = 1000
    tau: float = 0.005
    noise: float = 0.1

    def policy_config(self) -> dict[str, Any]:
        """``policy`` of a config file, but for the model."""
        config = super().policy_config()
        rate, names = (
            config["learn"].pop("learning_rate"),
            {"sac": ("q", "policy", "alpha"), "td3": ("actor", "critic")},
        )
        config["learn"] |= {f"learning_rate_{name}": rate for name in names[self.algorithm]}
        config["learn"] |= {"update_per_collect": self.iterations, "target_theta": self.tau, "ignore_done": False}
        if self.algorithm == "sac":
            config["learn"] |= {"auto_alpha": True}
        else:
            config["collect"] |= {"noise_sigma": self.noise}
        return config | {
            "random_collect_size": self.learning_starts,
            "other": {"replay_buffer": {"replay_buffer_size": self.buffer_size}},
        }


@dataclass(frozen=True, kw_only=True)
class OnPolicyTask(Task):
    """A2C or PPO.

    Attributes:
        value_weight: Of half the squared error.
    """

    gae_lambda: float = 0.95
    value_weight: float = 0.5
    entropy_weight: float = 0.01
    grad_norm: float = 0.5

    def policy_config(self) -> dict[str, Any]:
        """``policy`` of a config file, but for the model."""
        config = super().policy_config()
        config["collect"] |= {"gae_lambda": self.gae_lambda, "discount_factor": config.pop("discount_factor")}
        config["learn"] |= {
            "value_weight": self.value_weight,
            "entropy_weight": self.entropy_weight,
            "grad_clip_type": "clip_norm",
            "grad_clip_value": self.grad_norm,
        }
        return config


@dataclass(frozen=True, kw_only=True)
class A2CTask(OnPolicyTask):
    """A2C with RMSprop; a round is one update with all samples."""

    def policy_config(self) -> dict[str, Any]:
        """``policy`` of a config file, but for the model."""
        config = super().policy_config()
        config["learn"] |= {"optimizer": "rmsprop", "adam_eps": 1e-5}
        return config


@dataclass(frozen=True, kw_only=True)
class PPOTask(OnPolicyTask):
    """PPO. Policy and value clip alike; advantages are normalised in each batch, and computed once a collect."""

    clip_ratio: float

    @property
    def epochs(self) -> int:
        """How often a round goes through what was collected."""
        return self.updates * self.batch_size // self.collect_steps

    def policy_config(self) -> dict[str, Any]:
        """``policy`` of a config file, but for the model."""
        config = super().policy_config()
        config["learn"] |= {
            "epoch_per_collect": self.epochs,
            "clip_ratio": self.clip_ratio,
            "value_clip": True,
            "value_norm": False,
            "adv_norm": True,
        }
        action_space = "continuous" if self.env_id == HALFCHEETAH else "discrete"
        return config | {"action_space": action_space, "recompute_adv": False}


CARTPOLE, PONG = "CartPole-v0", "PongNoFrameskip-v4"
PENDULUM, HALFCHEETAH = "Pendulum-v1", "HalfCheetah-v5"
CARTPOLE_DQN: dict[str, Any] = dict(
    env_id=CARTPOLE,
    hidden=(128, 128, 64),
    collect_steps=8,
    updates=5,
    batch_size=64,
    learning_rate=1e-3,
    gamma=0.97,
    nstep=1,
    buffer_size=20_000,
    target_freq=100,
    learning_starts=64,
)  # 4-128-128-64-2, or twice 32 quantiles in the place of 2
CONTINUOUS: dict[str, Any] = dict(
    hidden=(256, 256), collect_steps=8, batch_size=256, learning_rate=3e-4, gamma=0.99, iterations=8
)
# SheepRL's table of training times: 65,536 steps of one process, or of two, each with more environments and samples
SHEEPRL: dict[str, Any] = dict(gamma=0.99, run_steps=65_536)
SHEEPRL_PPO: dict[str, Any] = SHEEPRL | dict(
    env_id="CartPole-v1",
    hidden=(64, 64),
    updates=20,  # 10 epochs
    learning_rate=1e-3,
    entropy_weight=0.0,
    parameters=9_155,
    warm_steps=0,
)
SHEEPRL_A2C: dict[str, Any] = SHEEPRL_PPO | dict(updates=1, learning_rate=7e-4)
SHEEPRL_SAC: dict[str, Any] = SHEEPRL | dict(
    env_id="LunarLanderContinuous-v3",
    hidden=(256, 256),
    algorithm="sac",
    iterations=1,
    updates=3,
    learning_rate=3e-4,
    buffer_size=65_536,
    learning_starts=100,
    parameters=206_854,
)
TASKS: dict[str, Task] = {
    "sheeprl_ppo": PPOTask(num_envs=1, collect_steps=128, batch_size=64, clip_ratio=0.2, **SHEEPRL_PPO),
    "sheeprl_ppo_two": PPOTask(num_envs=2, collect_steps=256, batch_size=128, clip_ratio=0.2, **SHEEPRL_PPO),
    "sheeprl_a2c": A2CTask(num_envs=1, collect_steps=5, batch_size=5, **SHEEPRL_A2C),
    "sheeprl_a2c_two": A2CTask(num_envs=2, collect_steps=40, batch_size=40, **SHEEPRL_A2C),
    "sheeprl_sac": QACTask(num_envs=4, collect_steps=4, batch_size=256, **SHEEPRL_SAC),
    "sheeprl_sac_two": QACTask(num_envs=8, collect_steps=8, batch_size=512, **SHEEPRL_SAC),
    "cartpole_dqn": DQNTask(parameters=25_538, **CARTPOLE_DQN),
    "cartpole_ppo": PPOTask(
        env_id=CARTPOLE,
        hidden=(64, 64),
        collect_steps=256,
        updates=40,  # 10 epochs
        batch_size=64,
        learning_rate=1e-3,
        gamma=0.9,
        clip_ratio=0.2,
        parameters=9_155,  # 4-64-64-2 and 4-64-64-1
    ),
    "pong_dqn": DQNTask(
        env_id=PONG,
        hidden=(32, 64, 64, 512),
        collect_steps=96,
        updates=10,
        batch_size=32,
        learning_rate=1e-4,
        gamma=0.99,
        nstep=3,
        buffer_size=100_000,
        target_freq=500,
        learning_starts=1000,
        parameters=1_687_206,  # three convolutions, 3136-512-6
    ),
    "cartpole_qrdqn": QRDQNTask(quantiles=32, parameters=29_568, **CARTPOLE_DQN),
    # an actor D-256-256-A, for SAC with mu and sigma, and two critics (D + A)-256-256-1
    "pendulum_sac": QACTask(env_id=PENDULUM, algorithm="sac", updates=24, parameters=201_988, **CONTINUOUS),
    "pendulum_td3": QACTask(env_id=PENDULUM, algorithm="td3", updates=12, parameters=201_731, **CONTINUOUS),
    "halfcheetah_sac": QACTask(env_id=HALFCHEETAH, algorithm="sac", updates=24, parameters=217_870, **CONTINUOUS),
    "halfcheetah_td3": QACTask(env_id=HALFCHEETAH, algorithm="td3", updates=12, parameters=216_328, **CONTINUOUS),
    "halfcheetah_ppo": PPOTask(
        env_id=HALFCHEETAH,
        hidden=(256, 256),
        collect_steps=2048,
        updates=320,  # 10 epochs
        batch_size=64,
        learning_rate=3e-4,
        gamma=0.99,
        clip_ratio=0.2,
        entropy_weight=0.0,
        parameters=142_605,  # 17-256-256-6 with six sigmas, and 17-256-256-1
    ),
    "pong_ppo": PPOTask(
        env_id=PONG,
        hidden=(32, 64, 64, 512),
        collect_steps=1024,
        updates=16,  # 4 epochs
        batch_size=256,
        learning_rate=2.5e-4,
        gamma=0.99,
        clip_ratio=0.1,
        parameters=1_687_719,  # as above, and 512-1
    ),
}


def parse_side(description: str | None) -> argparse.Namespace:
    """The command line that all sides share. Sets the thread count before anybody imports torch."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--task", choices=sorted(TASKS), required=True)
    parser.add_argument("--threads", type=int, default=1, help="torch threads")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--seconds", type=float, default=20.0, help="length of the measured window")
    parser.add_argument("--steps", type=int, help="its length in environment steps instead, the same for all ranks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--result", default="-", help="file for the JSON line, - for standard output")
    parser.add_argument(
        "--option", action="append", default=[], help="something only this side understands; repeatable"
    )
    args = parser.parse_args()
    limit_threads(args.threads)
    return args


def limit_threads(threads: int) -> None:
    """Have every numeric library of this process, and of its children, use so many threads."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(threads)
    import torch

    torch.set_num_threads(threads)
