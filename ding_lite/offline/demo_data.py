"""Recording the episodes of a trained policy as a data set.

The columns are `obs, action, reward, next_obs, done, traj_flag, unfinished`, and the rows of a trajectory are adjacent.
Rewards are the true ones, neither clipped nor changed by `env.wrappers`. Actions are those that the environment got, in
its own units. The `next_obs` of a truncated episode is its true last observation. `done` means terminated. `traj_flag`
is True wherever a trajectory is cut, including the end of the recording; `unfinished` is True in all rows of the
trajectories that this end has cut. An episode whose environment failed is truncated.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn

from ding_lite.config import read_pair
from ding_lite.envs import derive_seeds
from ding_lite.envs.actions import ActionUnits
from ding_lite.envs.wrappers import TRUE_REWARD
from ding_lite.offline.files import UNFINISHED, UNITS, check_target, count_rows, write_columns, write_minari
from ding_lite.policy import Policy
from ding_lite.rl_utils.policy_gradient import first_episodes
from ding_lite.run.keeper import LONG_TRAINED, load_model, trained_env_steps
from ding_lite.run.setup import RunSetup, policy_process, prepare_run
from ding_lite.torch_utils.data import Block, Output, Row
from ding_lite.torch_utils.minibatch import next_obs
from ding_lite.utils.checkpoint.file import load_checkpoint
from ding_lite.utils.key import get_key
from ding_lite.utils.ranks.collectives import allreduce_data, broadcast_object_list, get_rank, get_world_size, on_rank_0
from ding_lite.utils.ranks.heartbeat import heartbeat
from ding_lite.utils.ranks.launch_environment import share
from ding_lite.utils.registry import ConfigError
from ding_lite.utils.tree import tree_map
from ding_lite.worker import EpisodeCollector, SampleCollector

BEST = os.path.join("ckpt", "ckpt_best.pth.tar")  # relative to an experiment directory


def collect_demo_data(
    input_cfg: str | tuple[dict[str, Any], dict[str, Any]],
    seed: int | None,
    collect_count: int,
    expert_data_path: str | None = None,
    env_setting: Sequence[Any] | None = None,
    model: nn.Module | None = None,
    state_dict: dict[str, Any] | None = None,
    state_dict_path: str | None = None,
    *,
    collect_episodes: bool = False,
    explore: bool = False,
    overrides: Sequence[str] = (),
) -> dict[str, Any]:
    """Let a trained policy act and write its steps to one data set; under a launcher, each rank plays a share.

    The module docstring describes the columns. The weights come from `model`, `state_dict` or `state_dict_path`, or
    else from the experiment's best checkpoint.

    Args:
        input_cfg: the config with which the policy was trained, such as the `total_config.py` of its experiment.
        seed: seed of environments and exploration.
        collect_count: env steps of all ranks together; with `collect_episodes`, episodes.
        expert_data_path: .hdf5, .h5 or .npz file, a new directory for .npy files, or an id such as `cartpole/expert-v0`
            of a new Minari data set. None: the config's `policy.collect.save_path`.
        env_setting: `(env_fn, collector_cfgs, evaluator_cfgs)`, see `serial_pipeline`.
        model: a model to use instead of the one that the config describes.
        state_dict: the state of the policy (a checkpoint's content, or its `policy`) or of the model.
        state_dict_path: path of a checkpoint.
        collect_episodes: record whole episodes only.
        explore: act as in training; by default as in evaluation.
        overrides: `dotted.key=value` strings, which take precedence over the config.

    Returns:
        `transitions`, `episodes` that ended, and their `return_mean`. The data set has them as attributes too.

    Raises:
        ConfigError: the config has a mistake, or there is no trained policy.
        DatasetError: the data set cannot be written. If possible, this is detected before anything is played.
        CheckpointError: the checkpoint is missing, damaged, or belongs to another policy.
    """
    pair = read_pair(input_cfg)
    setup = prepare_run(pair, seed, env_setting, model, overrides, limits={"collect_count": collect_count})
    if collect_count < get_world_size():
        raise ConfigError(f"collect_count={collect_count}: expected at least 1 for each of {get_world_size()} ranks.")
    if expert_data_path is None:
        expert_data_path = get_key(pair[0], "policy.collect.save_path")
    if not expert_data_path:
        raise ConfigError("collect_demo_data: give expert_data_path, or policy.collect.save_path in the config.")
    kind = on_rank_0(lambda: check_target(expert_data_path))
    setup.cfg.policy.multi_gpu = get_world_size() > 1  # nothing is learned here, so the config's value does not matter
    with policy_process(setup, get_rank(), "record", "policy", fields=("collect", "eval")) as policy:
        source, envstep = _load(policy, setup.cfg.exp_name, model, state_dict, state_dict_path)
        columns, figures = _play(setup, Recorder(policy, explore, envstep), collect_count, collect_episodes)
    parts = _gather(columns)
    if parts:
        columns = tree_map(lambda *leaves: np.concatenate(leaves), *parts)
        origin = {"policy": setup.cfg.policy.type, "source": source, "explore": explore, UNITS: "env", **figures}
        _write(setup, kind, expert_data_path, columns, origin)
    return figures


def _write(setup: RunSetup, kind: str, path: str, columns: dict[str, Any], origin: dict[str, Any]) -> None:
    """Write the columns of all ranks and their origin as a data set of this kind, and print what it holds."""
    cfg, spec = setup.cfg, setup.spec
    origin = {"env_id": cfg.env.env_id or cfg.env.type, "seed": cfg.seed, **origin}
    if kind == "minari":
        known = setup.builders[0] is None and not spec.frame_stack and cfg.env.env_id in gymnasium.registry
        spaces = {"observation_space": spec.observation_space, "action_space": spec.env_action_space}
        write_minari(path, columns, spaces | {"env": cfg.env.env_id if known else None}, origin)
    else:
        write_columns(path, columns, origin)
    print(
        f"{origin['transitions']:,} transitions, {origin['episodes']:,} episodes with mean return "
        f"{origin['return_mean']:.2f}: {path}"
    )


def _load(
    policy: Policy, exp_name: str, model: nn.Module | None, state: dict[str, Any] | None, path: str | None
) -> tuple[str, int]:
    """Load the weights into the policy; return where they come from, and the env steps of their training."""
    name = "state_dict"
    if state is None:
        if not path and model is not None:
            if policy.normalizer.obs is not None:
                raise ConfigError(
                    "env.norm_obs=True needs the statistics of a checkpoint, which a model does not have: give "
                    "state_dict_path or state_dict instead."
                )
            return "model", LONG_TRAINED
        name = path or os.path.join(exp_name, BEST)
        if not path and not os.path.exists(name):
            raise ConfigError(
                f"No trained policy to record: '{name}' does not exist. Give state_dict_path, state_dict or model."
            )
        state = load_checkpoint(name)
    load_model(policy, state, name)
    return name, trained_env_steps(state)


class Recorder:
    """A policy as a collector calls it, whose rows are plain transitions."""

    def __init__(self, policy: Policy, explore: bool, envstep: int) -> None:
        self._policy, self._explore = policy, explore
        self._kwargs = policy.begin_collect(envstep) if explore else {}

    def begin_collect(self, envstep: int) -> dict[str, Any]:
        return self._kwargs

    def act(self, obs: Any, **kwargs: Any) -> Output:
        return self._policy.act(obs, self._explore, **kwargs)

    def to_row(self, obs: Any, output: Output, timestep: SimpleNamespace) -> Row:
        reward_N = timestep.info[TRUE_REWARD]
        self._policy.see_reward(reward_N, self._explore)
        flags = {"done": timestep.done, "traj_flag": timestep.traj_flag}
        return {"obs": obs, "action": output["action"], "reward": reward_N.astype(np.float32), **flags}

    def reset(self, env_id: np.ndarray | None = None) -> None:
        self._policy.reset(env_id, self._explore)


def _play(setup: RunSetup, player: Recorder, count: int, whole: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Play `count` env steps on all ranks together, or episodes if `whole`; return own columns, and all figures."""
    rank, ranks, num_envs = get_rank(), get_world_size(), setup.cfg.env.collector_env_num
    own = len(share(count, rank, ranks))
    if whole:  # all environments play the same number
        num_envs = next(number for number in range(min(num_envs, own), 0, -1) if own % number == 0)
    with ExitStack() as stack:
        env = setup.create_collect_env(stack, num_envs, training=False)
        seeds = derive_seeds(setup.cfg.seed, rank, "record", n=num_envs)
        collector = (EpisodeCollector if whole else SampleCollector)(env, player, own if whole else num_envs, seeds)
        parts: list[dict[str, Any]] = []
        totals, missing = {"episode": 0.0, "return": 0.0}, own
        while allreduce_data(int(missing > 0)):
            number = own if whole else max(-(-missing // num_envs), 1) * num_envs
            block, figures = collector.collect(number)
            parts.append(_to_columns(block, number=None if whole else missing))
            missing = 0 if whole else missing - count_rows(parts[-1])
            totals = {key: totals[key] + figures[key] for key in totals}
    heartbeat("")
    columns = tree_map(lambda *leaves: np.concatenate(leaves), *parts)
    assert setup.spec.env_action_space is not None
    columns["action"] = ActionUnits(setup.spec.env_action_space, setup.cfg.env.act_scale).to_env(columns["action"])
    transitions = int(allreduce_data(count_rows(columns)))
    mean = totals["return"] / totals["episode"] if totals["episode"] else math.nan
    return columns, {"transitions": transitions, "episodes": int(totals["episode"]), "return_mean": mean}


def _to_columns(block: Block, number: int | None) -> dict[str, Any]:
    """Return the first `number` rows of a block `[T, N, ...]`, ordered by environment and then by step.

    If `number` is None, return the rows of the whole episodes that `first_episodes` selects.
    """
    cut_TN = block["traj_flag"].clone()
    cut_TN[-1] = True
    columns = {key: block[key] for key in ("obs", "action", "reward", "done")}
    columns |= {"next_obs": next_obs(block), "traj_flag": cut_TN, UNFINISHED: cut_TN & ~block["traj_flag"]}
    counted_TN = torch.ones_like(cut_TN) if number is not None else first_episodes(block["final_index"], *cut_TN.shape)
    row_M = counted_TN.T.flatten().nonzero().squeeze(1)[:number]
    rows = tree_map(lambda leaf: leaf.transpose(0, 1).flatten(0, 1)[row_M].numpy(), columns)
    rows[UNFINISHED][-1:] |= ~rows["traj_flag"][-1:]
    rows["traj_flag"][-1:] = True
    end_K = np.flatnonzero(rows["traj_flag"])
    rows[UNFINISHED] = rows[UNFINISHED][end_K].repeat(np.diff(end_K, prepend=-1))  # of all rows of a trajectory
    return rows


def _gather(columns: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the columns of all ranks on rank 0, and an empty list on the other ranks."""
    parts: list[Any] = []
    for source in range(get_world_size()):  # one at a time, because all ranks get what is sent
        part = [columns]
        broadcast_object_list(part, source)
        parts += part if get_rank() == 0 else []
    return parts
