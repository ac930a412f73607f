"""An expert's data set, and short runs that imitate it."""

from __future__ import annotations

import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import torch
from easydict import EasyDict
from gymnasium import Space
from gymnasium.spaces import Box, Discrete

from ding_lite.envs.spaces import EnvSpec
from ding_lite.imitation.gail import GailRewardModel
from ding_lite.offline.files import write_columns
from ding_lite.policy import DQNPolicy
from ding_lite.reward_model.base import RewardModel
from ding_lite.run.setup import RunSetup
from ding_lite.torch_utils.normalizer import Normalizer
from ding_lite.utils.key import declared_keys, default_values

ACTIONS = Discrete(3)
OBS = Box(-np.inf, np.inf, (2,), np.float32)
ROWS = 12  # steps of the expert, three episodes of four


def write_expert(path: Path, action_space: Space[Any] = ACTIONS, **columns: Any) -> str:
    """Write an expert's steps; the first two episodes terminate, the third is truncated. Other columns may be given."""
    draw = np.random.default_rng(0)
    end = np.arange(ROWS) % 4 == 3
    own = {"obs": draw.normal(size=(ROWS, 2)).astype(np.float32), "next_obs": np.zeros((ROWS, 2), np.float32)}
    own |= {"reward": np.full(ROWS, 7.0, np.float32), "done": end & (np.arange(ROWS) < 8), "traj_flag": end}
    own |= {"action": np.stack([action_space.sample() for _ in range(ROWS)])}
    write_columns(str(path), own | columns, {"action_units": "env"})
    return str(path)


def build(
    path: str,
    replay: Any = None,
    action_space: Space[Any] = ACTIONS,
    cls: type[RewardModel] = GailRewardModel,
    discount_factor: float = 0.9,
    policy_action_space: Space[Any] | None = None,
    normalizer: Normalizer | None = None,
    multi_agent: bool = False,
    obs_space: Space[Any] = OBS,
    **keys: Any,
) -> Any:
    """Return a reward model that has read its expert, as a run builds it."""
    torch.manual_seed(0)
    own = EasyDict({**default_values(declared_keys(cls)), "data_path": path, "hidden_size_list": [8], **keys})
    policy = DQNPolicy.default_config()
    policy.discount_factor, policy.type, policy.multi_gpu = discount_factor, "dqn", True
    env = EasyDict(act_scale=True, image_layout="")
    seen = policy_action_space or action_space
    spec = EnvSpec(obs_space, seen, 0, env_action_space=action_space)
    model: Any = cls(own, policy, obs_space, seen, torch.device("cpu"))
    cfg = EasyDict(policy=policy, env=env, reward_model=own)
    setup = RunSetup(cfg, DQNPolicy, spec, None, {}, (None, None), "", cfg)
    normalizer = normalizer or Normalizer(None, None)
    player: Any = SimpleNamespace(multi_agent=multi_agent, current_config=policy, normalizer=normalizer)
    model.connect(setup, player, replay)
    return model


def make_block(action: torch.Tensor, done: torch.Tensor | None = None, traj_flag: torch.Tensor | None = None) -> Any:
    """Return a rollout block `[T, N, ...]` with these actions, random observations and the environment's rewards 5."""
    shape = action.shape[:2]
    obs = torch.randn(*shape, 2, generator=torch.Generator().manual_seed(1))
    flags = torch.zeros(shape, dtype=torch.bool)
    done = flags if done is None else done
    block = {"obs": obs, "last_obs": obs[0], "action": action, "reward": torch.full(shape, 5.0), "done": done}
    step_TN = torch.arange(shape[0])[:, None].expand(shape)
    return block | {"traj_flag": done if traj_flag is None else traj_flag, "episode_step": step_TN}


class Negated(gymnasium.Wrapper):
    """Pays -r instead of r."""

    def step(self, action: Any) -> Any:
        obs, reward, *rest = super().step(action)
        return obs, -float(reward), *rest


CARTPOLE: dict[str, Any] = dict(
    exp_name="run",
    env=dict(env_id="CartPole-v1", collector_env_num=2, evaluator_env_num=2, n_evaluator_episode=2, max_step=30),
    policy=dict(
        multi_gpu=True,
        num_threads=1,
        nstep=2,
        model=dict(encoder_hidden_size_list=[16, 16]),
        learn=dict(update_per_collect=4, batch_size=16, learner=dict(hook=dict(log_show_after_iter=10))),
        collect=dict(n_sample=8),
        eval=dict(evaluator=dict(eval_freq=1_000_000)),
    ),
    reward_model=dict(data_path="expert.npz", hidden_size_list=[8], batch_size=16, update_per_collect=2),
)


def write_cartpole_expert(path: Path | str = "expert.npz") -> str:
    """Write 40 steps of CartPole, one episode that terminates."""
    draw, end = np.random.default_rng(0), np.arange(40) == 39
    columns = {"obs": draw.normal(size=(40, 4)).astype(np.float32), "action": draw.integers(2, size=40), "done": end}
    columns |= {"next_obs": columns["obs"], "reward": np.ones(40, np.float32), "traj_flag": end}
    write_columns(str(path), columns, {"action_units": "env"})
    return str(path)


def pair(kind: str = "gail", **policy: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a config that imitates `write_cartpole_expert`, with another policy if its keys are given."""
    main, create = copy.deepcopy(CARTPOLE), dict(policy=dict(type="dqn"), reward_model=dict(type=kind))
    if policy:
        create["policy"], main["policy"] = dict(type=policy.pop("type")), policy
    return main, create
