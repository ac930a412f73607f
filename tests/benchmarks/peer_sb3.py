"""Stable-Baselines3's side: DQN with no double target, QR-DQN of its contrib, A2C, PPO, SAC and TD3.

Run it with the interpreter of its own environment.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

# Last, not first: the names of this project's packages must not hide those of a peer.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from tests.benchmarks.meter import Finished, Meter
from tests.benchmarks.settings import (
    PONG,
    TASKS,
    A2CTask,
    DQNTask,
    OnPolicyTask,
    PPOTask,
    QACTask,
    QRDQNTask,
    Task,
    parse_side,
)


def make_plain(env_id: str) -> Any:
    """One environment of gymnasium's, monitored as Stable-Baselines3 wants it."""
    import gymnasium
    from stable_baselines3.common.monitor import Monitor

    return Monitor(gymnasium.make(env_id, disable_env_checker=True))


def make_pong() -> Any:
    """One Pong: four frames a step, the last two pooled, 84 x 84 grey, a stack of four."""
    import ale_py
    import gymnasium
    from stable_baselines3.common.monitor import Monitor

    gymnasium.register_envs(ale_py)
    env = gymnasium.make(PONG, disable_env_checker=True)
    env = gymnasium.wrappers.AtariPreprocessing(env, noop_max=30, frame_skip=4, screen_size=84, grayscale_obs=True)
    return Monitor(gymnasium.wrappers.FrameStackObservation(env, 4, padding_type="zero"))


def make_on_policy(task: OnPolicyTask, common: dict[str, Any]) -> Any:
    """The learner of a task without replay, with the arguments `common` of all learners."""
    from stable_baselines3 import A2C, PPO

    hidden = list(task.hidden)
    policy_kwargs: dict[str, Any] = {} if task.pong else {"net_arch": {"pi": hidden, "vf": hidden}}
    common = common | dict(
        n_steps=task.collect_steps // task.num_envs,
        gae_lambda=task.gae_lambda,
        ent_coef=task.entropy_weight,
        vf_coef=task.value_weight / 2,  # of the whole squared error here
        max_grad_norm=task.grad_norm,
    )
    if isinstance(task, A2CTask):
        del common["batch_size"]
        return A2C(**common, policy_kwargs=policy_kwargs)
    assert isinstance(task, PPOTask)
    return PPO(
        **common,
        n_epochs=task.epochs,
        clip_range=task.clip_ratio,
        clip_range_vf=task.clip_ratio,
        policy_kwargs=policy_kwargs | {"optimizer_kwargs": {"eps": 1e-8}},
    )


def make_model(task: Task, env: Any, seed: int, device: str = "cpu") -> Any:
    """The learner, see `trained`."""
    from stable_baselines3 import DQN, SAC, TD3

    common: dict[str, Any] = dict(
        policy="CnnPolicy" if task.pong else "MlpPolicy",
        env=env,
        learning_rate=task.learning_rate,
        batch_size=task.batch_size,
        gamma=task.gamma,
        seed=seed,
        device=device,
    )
    if isinstance(task, OnPolicyTask):
        return make_on_policy(task, common)
    steps, hidden = task.collect_steps // task.num_envs, list(task.hidden)
    if isinstance(task, QACTask):
        common |= dict(train_freq=steps, gradient_steps=task.iterations, policy_kwargs={"net_arch": hidden})
        common |= dict(buffer_size=task.buffer_size, learning_starts=task.learning_starts, tau=task.tau)
        if task.algorithm == "sac":
            return SAC(**common)
        from stable_baselines3.common.noise import NormalActionNoise, VectorizedActionNoise

        shape = env.action_space.shape
        noise = NormalActionNoise(np.zeros(shape), np.full(shape, task.noise))
        return TD3(**common, action_noise=VectorizedActionNoise(noise, task.num_envs))
    assert isinstance(task, DQNTask)
    policy_kwargs: dict[str, Any] = {} if task.pong else {"net_arch": hidden}
    if isinstance(task, QRDQNTask):
        from sb3_contrib import QRDQN as DQN

        policy_kwargs |= {"n_quantiles": task.quantiles}
    return DQN(
        **common,
        buffer_size=task.buffer_size,
        learning_starts=task.learning_starts,
        n_steps=task.nstep,
        train_freq=steps,
        gradient_steps=task.updates,
        target_update_interval=round(task.target_freq / task.ratio),  # environment steps here
        exploration_initial_eps=task.epsilon,
        exploration_final_eps=task.epsilon,
        policy_kwargs=policy_kwargs,
    )


def trained(model: Any, task: Task) -> list[Any]:
    """The networks of a learner that its optimizers train, without targets and temperature."""
    if isinstance(task, QACTask):
        return [model.actor, model.critic]
    return [model.quantile_net if isinstance(task, QRDQNTask) else getattr(model, "q_net", model.policy)]


def main() -> None:
    """Train until the meter says stop."""
    args = parse_side(__doc__)
    task = TASKS[args.task]
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

    from tests.benchmarks.networks import count_parameters

    meter = Meter("sb3", args)

    class Boundary(BaseCallback):  # type: ignore[misc]  # of a package without type hints
        """Tells the meter of each new collect."""

        def _on_rollout_start(self) -> None:
            meter.boundary(self.num_timesteps)

        def _on_step(self) -> bool:
            return True

    make = partial(make_plain, task.env_id)
    env = SubprocVecEnv([make_pong] * task.num_envs) if task.pong else DummyVecEnv([make] * task.num_envs)
    model = make_model(task, env, args.seed, args.device)
    meter.info["parameters"] = sum(map(count_parameters, trained(model, task)))
    try:
        model.learn(10**9, callback=Boundary())
    except Finished:
        env.close()


if __name__ == "__main__":
    main()
