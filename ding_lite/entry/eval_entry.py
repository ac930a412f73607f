"""Evaluates a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from numbers import Integral
from typing import Any

from ding_lite.config import read_saved_run
from ding_lite.entry.keeper import load_model
from ding_lite.entry.reporter import describe_evaluation, describe_numbers
from ding_lite.entry.setup import RunSetup, policy_process, prepare_run
from ding_lite.policy import Policy
from ding_lite.results.run import find_config
from ding_lite.utils.checkpoint.file import load_checkpoint
from ding_lite.utils.logger import Progress
from ding_lite.utils.ranks.ranks import get_world_size
from ding_lite.utils.registry import ConfigError


def find_pair(checkpoint: str, advice: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the config pair of the run that a checkpoint belongs to, and let its modules be found."""
    return read_saved_run(find_config(checkpoint, advice)).importable_pair()


def evaluate_checkpoint(
    input_cfg: str | tuple[dict[str, Any], dict[str, Any]],
    path: str,
    seed: int | None = None,
    n_episode: int | None = None,
    overrides: Sequence[str] = (),
) -> dict[str, Any]:
    """Play whole episodes with a checkpoint's policy and print their mean return.

    Args:
        input_cfg: the config with which the policy was trained, such as the `total_config.py` of its experiment.
        path: path of the checkpoint.
        seed: seed of the environments, used instead of the config's.
        n_episode: number of episodes, instead of `env.n_evaluator_episode`.
        overrides: `dotted.key=value` strings, which take precedence over the config.

    Returns:
        `return_mean`, `return_std`, `return_min`, `return_max`, `length_mean` (in env steps), and `returns`, the return
        of each episode; `info/KEY` for each key of `env.info_keys` that the episodes reported.

    Raises:
        ConfigError: the config has a mistake, or there are several processes.
        CheckpointError: the checkpoint is missing, damaged, or belongs to another policy.
    """
    if n_episode is not None:
        overrides = [*overrides, *(f"env.{key}={number}" for key, number in episode_counts(n_episode).items())]
    if get_world_size() > 1:
        raise ConfigError("A checkpoint is evaluated by one process: run this without a launcher.")
    setup = prepare_run(input_cfg, seed, overrides=overrides)
    info, policy = play_evaluation(setup, load_checkpoint(path), path)
    numbers = {name: value for name, value in info.items() if name.startswith("info/")}
    print(
        f"return {info['return_mean']:.2f} +- {info['return_std']:.2f} (min {info['return_min']:.2f}, max "
        f"{info['return_max']:.2f}, mean length {info['length_mean']:.0f}) over {len(info['returns'])} episodes"
        f"{describe_numbers(numbers)}"
        f"{describe_evaluation(policy)}"
    )
    return info


def play_evaluation(setup: RunSetup, state: dict[str, Any], name: str) -> tuple[dict[str, Any], Policy]:
    """Build a policy with the parameters of a checkpoint, and evaluate it once as `setup` says.

    Return what `evaluate_checkpoint` returns, and the policy.
    """
    with ExitStack() as stack:
        policy = stack.enter_context(policy_process(setup, "policy", fields=("eval",)))
        load_model(policy, state, name)
        progress = stack.enter_context(Progress(None, True))
        number = setup.cfg.env.n_evaluator_episode
        evaluator = setup.create_evaluator(
            policy,
            lambda: False,
            lambda done, steps, still: progress.note(
                f"evaluating: {done} of {number} episodes, step {steps:,}" + ", nothing changes" * still
            ),
            stack,
        )
        return evaluator.eval(state.get("learner", {}).get("train_iter", 0))[1], policy


def episode_counts(n_episode: int) -> dict[str, int]:
    """Return the keys of `env` for an evaluation of `n_episode` episodes, which at most 8 environments share evenly."""
    if not isinstance(n_episode, Integral) or n_episode < 1:
        raise ConfigError(f"Expected at least one episode to evaluate, got {n_episode!r}.")
    num_envs = next(number for number in range(8, 0, -1) if n_episode % number == 0)
    return {"n_evaluator_episode": n_episode, "evaluator_env_num": num_envs}
