"""DI-engine's side: double DQN, on-policy PPO and SAC through its own pipelines.

Run this file with the interpreter of its own environment, in a directory that may be written to.

DI-engine 0.5.3 asks for gym 0.25.1, whose Atari package no longer installs; ``AlePong`` puts gym's old interface over
ale-py, and everything above it (preprocessing, environment process manager, collector, buffer) is DI-engine's.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

# Last, not first: DI-engine brings a package ``dizoo`` of its own.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from tests.benchmarks.meter import Finished, Meter
from tests.benchmarks.settings import PONG, TASKS, PPOTask, QACTask, Task, parse_side


def register_pong() -> None:
    """Make ``gym.make("PongNoFrameskip-v4")`` work: the bare game, one frame a step, RGB."""
    import ale_py
    import gym
    import numpy as np

    class AlePong(gym.Env):  # type: ignore[misc]  # of a package that is not installed here
        """The bare game behind gym 0.25's interface."""

        def __init__(self) -> None:
            self.ale = ale_py.ALEInterface()
            self.ale.setLoggerMode(ale_py.LoggerMode.Error)
            self.ale.setFloat("repeat_action_probability", 0.0)
            self.observation_space = gym.spaces.Box(0, 255, (210, 160, 3), np.uint8)
            self.seed(0)

        def seed(self, seed: int | None = None) -> list[int]:
            self.ale.setInt("random_seed", int(seed or 0) % 2**31)
            self.ale.loadROM(Path(str(ale_py.roms.get_rom_path("pong"))))
            self.actions = self.ale.getMinimalActionSet()
            self.action_space = gym.spaces.Discrete(len(self.actions))
            return [int(seed or 0)]

        def reset(self, **_: Any) -> np.ndarray:
            self.ale.reset_game()
            return self.ale.getScreenRGB()

        def step(self, action: int) -> tuple[np.ndarray, float, bool, dict[str, Any]]:
            reward = self.ale.act(self.actions[action])
            return self.ale.getScreenRGB(), reward, self.ale.game_over(), {"lives": self.ale.lives()}

        def get_action_meanings(self) -> list[str]:
            return [action.name for action in self.actions]

    gym.register(PONG, entry_point=AlePong, disable_env_checker=True, order_enforce=False)


def make_config(name: str, task: Task, options: list[str]) -> tuple[Any, Any]:
    """``(main_config, create_config)``. Evaluation happens once, before learning: its interval is out of reach."""
    from easydict import EasyDict

    on_policy = isinstance(task, PPOTask)
    model: dict[str, Any] = {"obs_shape": [4, 84, 84] if task.pong else 4, "action_shape": 6 if task.pong else 2}
    env = {"type": "cartpole", "import_names": ["dizoo.classic_control.cartpole.envs.cartpole_env"]}
    if task.pong:
        env = {"type": "atari", "import_names": ["dizoo.atari.envs.atari_env"]}
    if isinstance(task, QACTask):
        env = {"type": "pendulum", "import_names": ["dizoo.classic_control.pendulum.envs.pendulum_env"]}
        size = task.hidden[0]
        model = {"obs_shape": 3, "action_shape": 1, "twin_critic": True, "action_space": "reparameterization"}
        model |= {"actor_head_hidden_size": size, "critic_head_hidden_size": size}
    main_config = {
        "exp_name": name,
        "env": {"collector_env_num": task.num_envs, "evaluator_env_num": 1, "n_evaluator_episode": 1, "stop_value": 1e9}
        | ({"env_id": task.env_id, "frame_stack": 4} if task.pong else {})
        | ({"act_scale": True} if isinstance(task, QACTask) else {}),
        "policy": task.policy_config() | {"model": model},
    }
    create_config = {
        "env": env,
        "env_manager": {"type": "subprocess" if task.pong else "base"},
        "policy": {"type": task.algorithm if isinstance(task, QACTask) else "ppo" if on_policy else "dqn"},
    }
    if not on_policy and "advanced_buffer" not in options:  # DI-engine's faster one
        create_config["replay_buffer"] = {"type": "deque", "import_names": ["ding.data.buffer.deque_buffer_wrapper"]}
    return EasyDict(main_config), EasyDict(create_config)


def main() -> None:
    """Train until the meter says stop."""
    args = parse_side(__doc__)
    task = TASKS[args.task]
    import numpy as np

    from tests.benchmarks.networks import ActorCriticNetwork, LogitNetwork, count_parameters

    if not hasattr(np, "bool8"):  # gym 0.25 still asks for it
        np.bool8 = np.bool_  # type: ignore[attr-defined]
    register_pong()
    from ding.entry import serial_pipeline, serial_pipeline_onpolicy
    from ding.worker import SampleSerialCollector

    on_policy = isinstance(task, PPOTask)
    config = make_config(args.task, task, args.option)
    if isinstance(task, QACTask):
        from ding.model import ContinuousQAC

        model = ContinuousQAC(**config[0].policy.model)
    else:
        model = (ActorCriticNetwork if on_policy else LogitNetwork)(args.task)
    meter = Meter("di_engine", args, parameters=count_parameters(model))
    collect = SampleSerialCollector.collect

    def collect_and_tell(self: Any, *rest: Any, **keywords: Any) -> Any:
        meter.boundary(self.envstep)
        return collect(self, *rest, **keywords)

    SampleSerialCollector.collect = collect_and_tell
    pipeline = serial_pipeline_onpolicy if on_policy else serial_pipeline
    with suppress(Finished):
        pipeline(config, seed=args.seed, model=model)


if __name__ == "__main__":
    main()
