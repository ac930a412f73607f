"""Classes for the registries, and configs that name them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gymnasium.spaces import Discrete, Space

from ding_lite.utils.key import Key, set_key
from ding_lite.utils.registry import ConfigError
from tests.toys import Toy

ROOT = Path(__file__).parents[2]
CARTPOLE = ROOT / "dizoo/classic_control/cartpole/config/cartpole_dqn_config.py"
PPO = ROOT / "dizoo/classic_control/cartpole/config/cartpole_ppo_config.py"
PONG = ROOT / "dizoo/atari/pong_dqn_ddp_config.py"


class TinyModel:
    def __init__(
        self, obs_shape: int | Sequence[int], action_shape: int, sizes: Sequence[int] = (8,), act: str | None = None
    ) -> None:
        self.arguments = (obs_shape, action_shape, sizes, act)


class WideModel(TinyModel):
    def __init__(self, obs_shape: int, action_shape: int, width: int) -> None:
        super().__init__(obs_shape, action_shape, (width,))


class BasePolicy:
    config = dict(
        type="base",
        cuda=False,
        multi_gpu=False,
        priority=False,
        nstep=1,
        discount_factor=Key(0.99, "gamma", low=0, high=1),
        model=dict(),
        learn=dict(
            batch_size=Key(64, "samples per rank", low=1),
            learning_rate=Key(0.001, "step size", low=0),
            schedule=Key({}, "free content"),
        ),
        collect=dict(n_sample=Key(None, "env steps", type=int), n_episode=Key(None, "episodes", type=int)),
        other=dict(),
    )
    learns_from = "replay"
    action_spaces: tuple[type, ...] = (Space,)
    multi_agent = unit_actions = False

    def default_model(self) -> tuple[str, list[str]]:  # a plain method, as DI-engine writes it
        return "config_test", ["ding_lite.model"]

    @classmethod
    def check_config(cls, cfg: Any) -> None:
        if cfg.policy.learn.learning_rate == 0.5:
            raise ConfigError("policy.learn.learning_rate=0.5 contradicts env.type")


class TinyPolicy(BasePolicy):
    config = dict(
        learn=dict(theta=Key(None, "share", type=float), mode=Key("fast", "how", choices=("fast", "slow"))),
        other=dict(replay_buffer=dict(type="", replay_buffer_size=1000)),
        eval=dict(evaluator=dict(eval_freq=10)),
    )
    action_spaces = (Discrete,)


class PlainPolicy(BasePolicy):
    config = dict(type="config_test_plain")


class TinyBuffer:
    config = dict(chunk=4)


class TinyRewardModel:
    config = dict(scale=Key(1.0, "of the reward", low=0), learn=dict(steps=Key(1, "of the optimizer", low=1)))


class TinyEnv(Toy):
    config = dict(stop_value=10.0, difficulty=1)

    def __init__(self, cfg_env: Any) -> None:
        super().__init__(cfg_env)
        self.difficulty = cfg_env.difficulty


def pair(main: dict[str, Any] | None = None, **create: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    base = dict(env=dict(type="config_test"), policy=dict(type="config_test"))
    return main or {}, {**base, **create}


def nested(path: str, value: object) -> dict[str, Any]:
    cfg: dict[str, Any] = {}
    set_key(cfg, path, value)
    return cfg
