"""Recording the play of a trained policy as a data set."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import torch
import torch.distributed as dist
from torch import nn

from ding_lite.entry.keeper import load_model
from ding_lite.entry.setup import RunSetup, prepare_run
from ding_lite.envs import derive_seeds
from ding_lite.envs.spaces import policy_side
from ding_lite.policy import Policy
from ding_lite.rl_utils.episodes import first_episodes
from ding_lite.torch_utils.modes import CollectMode
from ding_lite.utils.checkpoint.file import load_checkpoint
from ding_lite.utils.dist.collectives import allreduce_data, broadcast_object_list
from ding_lite.utils.dist.heartbeat import heartbeat, waiting
from ding_lite.utils.dist.ranks import get_rank, get_world_size
from ding_lite.utils.registry import ConfigError
from ding_lite.utils.tree import tree_map
from ding_lite.worker import EpisodeCollector, SampleCollector
from ding_lite.worker.offline.files import DatasetError, check_target, count_rows, write_columns, write_minari

LONG_TRAINED = 10**10  # env steps: explores as at the end of training if the length of the training is unknown
BEST = os.path.join("ckpt", "ckpt_best.pth.tar")  # of an experiment


def collect_demo_data(
    input_cfg: str | tuple[dict[str, Any], dict[str, Any]],
    seed: int | None,
    collect_count: int,
    expert_data_path: str,
    env_setting: Sequence[Any] | None = None,
    model: nn.Module | None = None,
    state_dict: dict[str, Any] | None = None,
    state_dict_path: str | None = None,
    *,
    collect_episodes: bool = False,
    explore: bool = False,
    overrides: Sequence[str] = (),
) -> dict[str, Any]:
    """Play with a trained policy and write one data set of its steps; under a launcher, each rank plays a share.

    The columns are `obs, action, reward, next_obs, done, traj_flag`; the rows of a trajectory are adjacent. Rewards are
    the true ones. Actions are in the policy's units (-1..1 with `env.act_scale`), in Minari's format in those of the
    environment. The `next_obs` of a truncated episode is its true last observation. `done` means terminated,
    `traj_flag` any cut, that at the end of the recording included. An episode whose environment failed is truncated.
    The model is `model`, or that of `state_dict` or `state_dict_path`, or else of the experiment's best checkpoint.

    Args:
        input_cfg: the config that it was trained with, such as its experiment's `total_config.py`.
        seed: of environments and exploration.
        collect_count: env steps of all ranks together, or episodes with `collect_episodes`.
        expert_data_path: .hdf5, .h5 or .npz file, a new directory for .npy files, or an id such as `cartpole/expert-v0`
            of a new Minari data set.
        env_setting: `(env_fn, collector_cfgs, evaluator_cfgs)`, see `serial_pipeline`.
        model: used instead of the one that the config describes.
        state_dict: of the policy (a checkpoint's state, or its `policy`), or of the model.
        state_dict_path: a checkpoint.
        collect_episodes: record whole episodes only.
        explore: act as in training; by default as in evaluation.
        overrides: `dotted.key=value` strings, stronger than the config.

    Returns:
        `transitions`, `episodes` that ended, and their `return_mean`, which the data set has as attributes too.

    Raises:
        ConfigError: a mistake in the config, or nothing to record from.
        DatasetError: the data set cannot be written; before anything is played, if this is known by then.
        CheckpointError: the checkpoint is missing, damaged, or of another policy.
    """
    setup = prepare_run(input_cfg, seed, env_setting, model, overrides, limits={"collect_count": collect_count})
    cfg, spec = setup.cfg, setup.spec
    if collect_count < get_world_size():
        raise ConfigError(f"collect_count={collect_count}: expected at least 1 for each of {get_world_size()} ranks.")
    kind = _check_target(expert_data_path)
    cfg.policy.multi_gpu = get_world_size() > 1  # nothing is learned here, so the config's value does not matter
    policy = setup.create_policy(get_rank(), "record", "policy", fields=("collect", "eval"))
    source, envstep = _load(policy, cfg.exp_name, model, state_dict, state_dict_path)
    mode = _recording_mode(policy, explore, envstep)
    columns, figures, action_space = _play(setup, mode, collect_count, collect_episodes)
    parts = _gather(columns)
    if parts:
        columns = tree_map(lambda *leaves: np.concatenate(leaves), *parts)
        about = {"env_id": cfg.env.env_id or cfg.env.type, "policy": cfg.policy.type, "source": source}
        about |= {"seed": cfg.seed, "explore": explore, **figures}
        if kind == "minari":
            columns["action"] = policy_side(action_space, cfg.env.act_scale)[1](columns["action"])
            spaces = {"observation_space": spec.observation_space, "action_space": action_space}
            known = env_setting is None and not spec.frame_stack and cfg.env.env_id in gymnasium.registry
            write_minari(expert_data_path, columns, spaces | {"env": cfg.env.env_id if known else None}, about)
        else:
            write_columns(expert_data_path, columns, about)
        print(
            f"{figures['transitions']:,} transitions, {figures['episodes']:,} episodes with mean return "
            f"{figures['return_mean']:.2f}: {expert_data_path}"
        )
    return figures


def _check_target(path: str) -> str:
    """Return the kind of the data set that `path` will be; an error of rank 0 is raised on all ranks."""
    answer: list[Any] = [None]
    if get_rank() == 0:
        try:
            answer = [(check_target(path), "")]
        except DatasetError as error:
            answer = [("", str(error))]
    broadcast_object_list(answer)
    kind, fault = answer[0]
    if fault:
        raise DatasetError(fault)
    return kind


def _load(
    policy: Policy, exp_name: str, model: nn.Module | None, state: dict[str, Any] | None, path: str | None
) -> tuple[str, int]:
    """Load the policy's trained model; return its origin, and the env steps of its training."""
    name = "state_dict"
    if state is None:
        if not path and model is not None:
            return "model", LONG_TRAINED
        name = path or os.path.join(exp_name, BEST)
        if not path and not os.path.exists(name):
            raise ConfigError(f"Nothing to record: '{name}' does not exist. Give state_dict_path, state_dict or model.")
        state = load_checkpoint(name)
    load_model(policy, state, name)
    return name, state.get("collector", {}).get("envstep", LONG_TRAINED)


def _recording_mode(policy: Policy, explore: bool, envstep: int) -> CollectMode:
    """Return a mode for the collector, instead of the policy's `collect_mode`, whose rows are plain transitions."""
    mode = policy.collect_mode if explore else policy.eval_mode
    kwargs = policy.collect_mode.get_collect_kwargs(envstep) if explore else {}

    def to_row(obs: Any, output: dict[str, Any], timestep: SimpleNamespace) -> dict[str, Any]:
        row = {key: getattr(timestep, key) for key in ("reward", "done", "traj_flag")}
        return {"obs": obs, "action": output["action"], **row}

    return replace(
        policy.collect_mode,
        forward=mode.forward,
        reset=mode.reset,
        process_transition=to_row,
        get_train_sample=lambda block: block,
        get_collect_kwargs=lambda _: kwargs,
    )


def _play(
    setup: RunSetup, mode: CollectMode, count: int, whole: bool
) -> tuple[dict[str, Any], dict[str, Any], gymnasium.Space[Any]]:
    """Return this rank's columns `[R, ...]`, the figures of all ranks, and the environment's own action space."""
    rank, ranks, num_envs = get_rank(), get_world_size(), setup.cfg.env.collector_env_num
    share = count // ranks + (rank < count % ranks)
    if whole:  # all environments play the same number
        num_envs = next(number for number in range(min(num_envs, share), 0, -1) if share % number == 0)
    with ExitStack() as stack:
        env = setup.create_collect_env(stack, num_envs, training=False)
        seeds = derive_seeds(setup.cfg.seed, rank, "record", n=num_envs)
        cls = EpisodeCollector if whole else SampleCollector
        collector = cls(env, mode, share if whole else num_envs, seeds)
        parts: list[dict[str, Any]] = []
        totals, missing = {"episode": 0.0, "return": 0.0}, share
        while allreduce_data(int(missing > 0)):
            number = share if whole else max(-(-missing // num_envs), 1) * num_envs
            block, figures = collector.collect(number)
            parts.append(_to_columns(block, number=None if whole else missing))
            missing = 0 if whole else missing - count_rows(parts[-1])
            totals = {key: totals[key] + figures[key] for key in totals}
    heartbeat("")
    columns = tree_map(lambda *leaves: np.concatenate(leaves), *parts)
    columns["action"] = _clip(columns["action"], env.single_action_space)
    transitions = int(allreduce_data(count_rows(columns)))
    mean = totals["return"] / totals["episode"] if totals["episode"] else math.nan
    figures = {"transitions": transitions, "episodes": int(totals["episode"]), "return_mean": mean}
    return columns, figures, env.env.single_action_space


def _clip(action: Any, space: gymnasium.Space[Any]) -> Any:
    """Return actions clipped to the bounds of a Box, as the environment clips them; exploration may exceed these."""
    if isinstance(action, dict):
        return {key: _clip(part, space[key]) for key, part in action.items()}  # type: ignore[index]
    return action.clip(space.low, space.high) if isinstance(space, gymnasium.spaces.Box) else action


def _to_columns(block: dict[str, Any], number: int | None) -> dict[str, Any]:
    """Return the first `number` rows of a block `[T, N, ...]`, ordered by environment and then by step.

    If `number` is None, return the rows of the whole episodes that count, see `first_episodes`.
    """
    following = tree_map(lambda obs, last: torch.cat([obs[1:], last[None]]), block["obs"], block["last_obs"])
    if "final_index" in block:
        tree_map(
            lambda obs, final: obs.flatten(0, 1).index_copy_(0, block["final_index"], final),
            following,
            block["final_obs"],
        )
    cut_TN = block["traj_flag"].clone()
    cut_TN[-1] = True
    columns = {key: block[key] for key in ("obs", "action", "reward", "done")}
    columns |= {"next_obs": following, "traj_flag": cut_TN}
    counted_TN = torch.ones_like(cut_TN) if number is not None else first_episodes(block["final_index"], *cut_TN.shape)
    row_M = counted_TN.T.flatten().nonzero().squeeze(1)[:number]
    rows = tree_map(lambda leaf: leaf.transpose(0, 1).flatten(0, 1)[row_M].numpy(), columns)
    rows["traj_flag"][-1:] = True
    return rows


def _gather(columns: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all ranks' columns on rank 0, an empty list on other ranks."""
    if get_world_size() == 1:
        return [columns]
    parts: list[Any] | None = [None] * get_world_size() if get_rank() == 0 else None
    with waiting():
        dist.gather_object(columns, parts)
    return parts or []
