"""The expert's steps: a data set, or a trained run, whose best policy plays a few episodes first."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence

import torch

from ding_lite.config import read_pair
from ding_lite.envs.actions import ActionUnits
from ding_lite.imitation.random_actions import RandomActions
from ding_lite.offline.dataset import OfflineDataset, read_dataset
from ding_lite.offline.demo_data import BEST, collect_demo_data
from ding_lite.offline.files import DatasetError, write_columns
from ding_lite.run.setup import RunSetup
from ding_lite.utils.key import Key
from ding_lite.utils.ranks.collectives import alone, on_every_rank, on_rank_0
from ding_lite.utils.registry import ConfigError
from ding_lite.utils.seed import random_state, set_random_state
from ding_lite.utils.tree import tree_map

CONFIG = "total_config.py"  # of a run's directory
ENDING = ".pth.tar"  # of checkpoints
NUMBERED = re.compile(rf"iteration_([0-9]+){re.escape(ENDING)}")
EXPERT_KEYS = dict(
    data_path=Key("", "the expert: a data set, as policy.collect.data_path, or the directory or a checkpoint of a run"),
    data_type=Key("", "'hdf5', 'npz', 'npy' or 'minari'; empty: determined by the path's ending"),
    action_units=Key(
        "", "units of the data set's actions, see policy.collect.action_units", choices=("", "env", "policy")
    ),
    expert_episodes=Key(10, "episodes that the policy of a run plays, if data_path names one", low=1),
)


def read_expert(
    setup: RunSetup, required: Sequence[str], record: Callable[[str, int], str] | None = None
) -> OfflineDataset:
    """Return the data set of `cfg.reward_model` with the `required` columns, as the policy sees them; collective.

    Every rank reads all of it. If `data_path` names a run, rank 0 records its episodes first, with `record`: those of
    its best policy by default, see `record_best`.

    Raises:
        ConfigError: there is no expert.
        DatasetError: see `read_dataset` and `OfflineDataset.fit`; or ranks have different data sets.
    """
    cfg, spec, own = setup.cfg, setup.spec, setup.cfg.reward_model
    if not own.data_path:
        raise ConfigError(
            f"reward_model.data_path: expected an expert for '{own.type}', a data set or the directory of a run, got "
            "none: record one with collect_demo_data."
        )
    path = on_rank_0(lambda: (record or record_best)(own.data_path, own.expert_episodes))
    held: list[OfflineDataset] = []

    def read() -> int:
        assert spec.env_action_space is not None
        try:
            dataset = read_dataset(path, own.data_type, required, action_units=own.action_units)
            units = ActionUnits(spec.env_action_space, cfg.env.act_scale)
            dataset.fit(spec.observation_space, units, spec.env_observation_space, cfg.env.image_layout)
        except DatasetError as error:
            raise DatasetError(str(error).replace("policy.collect.", "reward_model.")) from None
        held.append(dataset)
        return len(dataset)

    if len(set(sizes := on_every_rank(read))) > 1:
        raise DatasetError(f"reward_model.data_path '{path}' has {sizes} steps on the ranks: give all the same.")
    return held[0]


def record_best(path: str, episodes: int, noise: float | None = None) -> str:
    """Return the path of a data set: `path` itself, or the episodes of the run that it names, recorded if necessary.

    With `noise`, this share of the actions is random, see `RandomActions`. The file is `ckpt_best_10_episodes.npz` in
    the run's directory. Whoever records it plays the episodes of seed 0.
    """
    is_checkpoint = path.endswith(ENDING)
    checkpoint = path if is_checkpoint else os.path.join(path, BEST)
    run, name = os.path.dirname(os.path.dirname(checkpoint)), os.path.basename(checkpoint)
    config = os.path.join(run, CONFIG)
    if not (is_checkpoint or os.path.isfile(config)):
        return path
    for needed in (config, checkpoint):
        if not os.path.isfile(needed):
            raise ConfigError(f"reward_model.data_path '{path}': expected a trained run, but '{needed}' is missing.")
    suffix = "" if noise is None else f"_noise_{noise}"
    target = os.path.join(run, f"{name.removesuffix(ENDING)}_{episodes}_episodes{suffix}.npz")
    if not os.path.isfile(target) or os.path.getmtime(target) < os.path.getmtime(checkpoint):
        state, deterministic = random_state(), torch.backends.cudnn.deterministic
        main, create = read_pair(config)
        if noise is not None:
            wrapper = dict(name=f"{RandomActions.__module__}:{RandomActions.__name__}", share=noise)
            main["env"]["wrappers"] = [*(main["env"].get("wrappers") or ()), wrapper]
        with alone():
            collect_demo_data((main, create), 0, episodes, target, state_dict_path=checkpoint, collect_episodes=True)
        torch.backends.cudnn.deterministic = deterministic
        set_random_state(state)
    return target


def record_checkpoints(path: str, episodes: int) -> str:
    """Return the path of a data set: `path` itself, or the episodes of all checkpoints of the run that it names.

    Raises:
        ConfigError: the run has fewer than two checkpoints.
    """
    if not os.path.isfile(os.path.join(path, CONFIG)):
        return path
    files = [match for name in os.listdir(os.path.join(path, "ckpt")) if (match := NUMBERED.fullmatch(name))]
    names = [match[0] for match in sorted(files, key=lambda match: int(match[1]))]
    if len(names) < 2:
        raise ConfigError(
            f"reward_model.data_path '{path}' has {len(names)} checkpoints, and demonstrations of different quality "
            "need several: train it with policy.learn.learner.hook.keep_ckpt=0 and a smaller save_ckpt_after_iter."
        )
    parts = [record_best(os.path.join(path, "ckpt", name), episodes) for name in names]
    return join_data(parts, os.path.join(path, f"{len(names)}_checkpoints_{episodes}_episodes.npz"))


def join_data(paths: Sequence[str], target: str) -> str:
    """Write the steps of several recorded data sets to one, in this order, and return its path."""
    columns = [read_dataset(path, required=("obs", "action", "reward", "next_obs", "done")).columns for path in paths]
    joined = tree_map(lambda *leaves: torch.cat(leaves).numpy(), *columns)
    write_columns(target, joined, {"action_units": "env"})
    return target
