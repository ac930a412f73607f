"""Trains random combinations of features, and sees that what must not matter does not matter.

    python -m tests.survival.fuzz_features --number 100 --seed 0

An item is one of dizoo's config files with one to four of FEATURES. What does not go together, or needs a package that
is missing, has to be refused by a `UserError`. Everything else is trained for a few hundred env steps, and then again
in three ways, each of which has to leave the same state, bit for bit: interrupted at a random iteration and resumed;
from the config file that the first run saved; and with the environments in processes instead of this one.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import warnings
from collections import Counter
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import torch

import ding_lite
from ding_lite.entry import Callback
from ding_lite.utils import UserError, load_checkpoint
from tests.benchmarks.hashes import record_data
from tests.distributed.launcher import ROOT
from tests.survival.common import differences

OFFLINE = ("_bc_", "cql", "iql")  # parts of the names of files that learn from a data set
FILES = sorted(
    str(path.relative_to(ROOT))
    for place in ("atari", "box2d", "classic_control", "frozen_lake", "gym_hybrid", "memory")
    for path in (ROOT / "dizoo" / place).glob("**/*_config.py")
    if not any(part in path.stem for part in ("carracing", "ddp_config", "rpc", "rollout"))
    # Of Atari the templates, one for each algorithm; a data set of it is not recorded here.
    and (place != "atari" or (path.stem.startswith("atari_") and not any(part in path.stem for part in OFFLINE)))
)
QUICK = {
    "env.stop_value": None,
    "env.evaluator_env_num": 2,
    "env.n_evaluator_episode": 2,
    "env.max_episode_steps": 60,
    "policy.cuda": False,
    "policy.multi_gpu": False,
    "policy.eval.evaluator.eval_freq": 30,
    "policy.learn.batch_size": 32,
    "policy.learn.learner.hook.save_ckpt_after_iter": 10**6,
}
SMALL = {  # for images
    "env.collector_env_num": 4,
    "policy.model.encoder_hidden_size_list": [8, 8, 8, 16],
    "policy.learn.batch_size": 16,
    "policy.random_collect_size": 40,
}
FEATURES: tuple[dict[str, Any], ...] = (
    {"env.norm_obs": True},
    {"env.norm_reward": True},
    {"env.clip_rewards": True},
    {"env.episodic_reward": True},
    {"env.max_episode_steps": 23},
    {"env.collector_max_episode_steps": 17},
    {"policy.other.eps.spread": 7.0},
    {"env.collector_env_num": 3},
    {"env.frame_stack": 2},
    {"env.wrappers": ["FlattenObservation"]},
    {"env.wrappers": [{"name": "TimeAwareObservation"}]},
    {"policy.priority": True},
    {"policy.priority": True, "policy.priority_IS_weight": True},
    {"policy.nstep": 3},
    {"policy.noisy_net": True},
    {"policy.double": False},
    {"policy.precision": "bf16"},
    {"policy.random_collect_size": 100},
    {"policy.model.dueling": True},
    {"policy.model.lstm_type": "gru"},
    {"policy.model.memory": "gtrxl"},
    {"policy.model.share_encoder": False},
    {"policy.learn.learning_rate": {"type": "cosine", "start": 1e-3, "end": 1e-4, "over": 600, "by": "env_step"}},
    {"policy.learn.learning_rate": {"type": "linear", "start": 1e-3, "end": 1e-4, "over": 40, "by": "iteration"}},
    {"policy.learn.entropy_weight": {"type": "linear", "start": 0.1, "end": 0.0, "over": 5, "by": "collect"}},
    {"policy.learn.optimizer": "adamw", "policy.learn.weight_decay": 0.01},
    {"policy.learn.optimizer": "rmsprop", "policy.learn.momentum": 0.9},
    {"policy.learn.grad_clip_type": "clip_value"},
    {"policy.learn.ignore_done": True},
    {"policy.learn.target_theta": 0.05},
    {"policy.learn.target_update_freq": 7, "policy.learn.target_theta": None},
    {"policy.learn.update_per_collect": 2},
    {"policy.learn.epoch_per_collect": 2},
    {"policy.learn.value_norm": True},
    {"policy.learn.adv_norm": True},
    {"policy.learn.auto_alpha": True},
    {"policy.collect.n_sample": 40},
    {"policy.collect.noise_type": "ou"},
    {"policy.eval.eps": 0.1},
    {"policy.eval.average": 0.1},
    {"policy.other.replay_buffer.replay_buffer_size": 200},
)
COUNTED = ("seconds", "metrics_position", "duration", "interrupt")  # entries of a state that may differ


class InterruptAt(Callback):
    """Sends this process a SIGINT in an iteration.

    Args:
        iteration: the learner iteration.
    """

    def __init__(self, iteration: int) -> None:
        self._iteration = iteration

    def after_update(self, run: Any, output: Any) -> None:
        """Send the signal if it is time."""
        if run.learner.train_iter == self._iteration:
            os.kill(os.getpid(), signal.SIGINT)


def train(config: str, name: str, values: dict[str, Any], limits: dict[str, int], *callbacks: Callback) -> int:
    """Train into the folder `name` without a word; return the learner iterations."""
    options: dict[str, Any] = {**values, **limits}
    with open(os.devnull, "w") as null, redirect_stdout(null), redirect_stderr(null):
        run = ding_lite.train(config, 0, callbacks=callbacks, exp_name=name, **options)
    return int(run.result["train_iter"])


def final_state(name: str) -> dict[str, Any]:
    """Return the last checkpoint of a run and its rank's part, without what may differ."""
    folder = Path(name, "ckpt")
    part = max(folder.glob("iteration_*.rank_0.pth.tar"), key=lambda path: path.stat().st_mtime_ns)
    return {
        key: _without(load_checkpoint(str(path)))
        for key, path in (("last", folder / "ckpt_last.pth.tar"), ("part", part))
    }


def _without(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _without(value) for key, value in tree.items() if key not in COUNTED}
    return tree


def check_item(config: str, values: dict[str, Any], rng: random.Random) -> str:
    """Train an item in all ways, in the current folder; return 'same', or 'refused' or 'too short' to interrupt.

    Raises:
        AssertionError: a run left another state.
    """
    limits = {} if any(part in config for part in OFFLINE) else {"max_env_step": 600}
    try:
        last = train(config, "whole", values, limits)
    except UserError as error:
        if "policy.random_collect_size" not in values and "policy.random_collect_size" in str(error):
            return check_item(config, values | {"policy.random_collect_size": 100}, rng)  # it exceeds the limit
        return "refused"
    if last < 2:
        return "too short"
    at = rng.randint(1, last - 1)
    if train(config, "cut", values, limits, InterruptAt(at)) < last:  # else the signal came within its last collect
        train(config, "cut", values | {"policy.learn.resume_training": True}, limits)
        _compare("cut", f"interrupted at iteration {at} of {last}")
    train("whole/total_config.py", "again", {}, limits)
    _compare("again", "from its saved config")
    if limits:
        train(config, "processes", values | {"env.manager.type": "subprocess"}, limits)
        _compare("processes", "with environments in processes")
    return "same"


def _compare(name: str, what: str) -> None:
    found = differences(final_state("whole"), final_state(name))
    assert not found, f"{what}: {len(found)} differences: {'; '.join(found[:6])}"


def draw_item(rng: random.Random) -> tuple[str, dict[str, Any]]:
    """Return a config file and the values that it gets."""
    config = rng.choice(FILES)
    values: dict[str, Any] = QUICK | (SMALL if "/atari/" in config else {})
    if any(part in config for part in OFFLINE):
        data = "cartpole.npz" if "cartpole" in config else "pendulum.npz"
        values |= {"policy.learn.train_epoch": 3, "policy.collect.data_path": data, "policy.collect.data_type": "npz"}
    for feature in rng.sample(FEATURES, rng.randint(1, 4)):
        values |= feature
    return config, values


def main() -> None:
    """Try items, and print what came of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=100, help="items")
    parser.add_argument("--seed", type=int, default=0, help="of the items")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rng, outcomes = random.Random(args.seed), Counter[str]()
    for number in range(args.number):
        config, values = draw_item(rng)
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            record_data(Path(folder))
            try:
                outcomes[check_item(str(ROOT / config), values, rng)] += 1
            except Exception as error:
                chosen = {key: value for key, value in values.items() if QUICK.get(key, "") != value}
                raise SystemExit(f"item {number}, {config} with {chosen}: {type(error).__name__}: {error}") from error
    counts = ", ".join(f"{count} {what}" for what, count in sorted(outcomes.items()))
    print(f"{args.number} items: {counts}")


if __name__ == "__main__":
    main()
