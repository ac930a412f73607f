"""Evaluates a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from ding_lite.entry.keeper import load_model
from ding_lite.entry.reporter import describe_eval_epsilon
from ding_lite.entry.setup import prepare_run
from ding_lite.envs import derive_seeds
from ding_lite.utils.checkpoint.file import load_checkpoint
from ding_lite.utils.dist.ranks import get_world_size
from ding_lite.utils.progress import Progress
from ding_lite.utils.registry import ConfigError
from ding_lite.worker import Evaluator


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
        of each episode.

    Raises:
        ConfigError: the config has a mistake, or there are several processes.
        CheckpointError: the checkpoint is missing, damaged, or belongs to another policy.
    """
    if n_episode is not None:
        overrides = [*overrides, f"env.n_evaluator_episode={n_episode}", f"env.evaluator_env_num={_share(n_episode)}"]
    if get_world_size() > 1:
        raise ConfigError("A checkpoint is evaluated by one process: run this without a launcher.")
    setup = prepare_run(input_cfg, seed, overrides=overrides)
    cfg, state = setup.cfg, load_checkpoint(path)
    policy = setup.create_policy("policy", fields=("eval",))
    load_model(policy, state, path)
    with ExitStack() as stack:
        env = setup.create_eval_env(stack)
        progress = stack.enter_context(Progress(None, True))
        evaluator = Evaluator(
            env,
            policy.eval_mode,
            cfg.env.n_evaluator_episode,
            eval_freq=1,
            stop_value=None,
            seeds_at=lambda count: derive_seeds(cfg.seed, "evaluate", count, n=env.num_envs),
            on_progress=lambda done, steps: progress.note(
                f"evaluating: {done} of {cfg.env.n_evaluator_episode} episodes, step {steps:,}"
            ),
        )
        _, info = evaluator.eval(state["learner"]["train_iter"])
    print(
        f"return {info['return_mean']:.2f} +- {info['return_std']:.2f} (min {info['return_min']:.2f}, max "
        f"{info['return_max']:.2f}, mean length {info['length_mean']:.0f}) over {len(info['returns'])} episodes"
        f"{describe_eval_epsilon(cfg.policy)}"
    )
    return info


def _share(n_episode: int) -> int:
    """Return the largest divisor of the number of episodes that is at most 8, as the number of environments."""
    return next(number for number in range(8, 0, -1) if n_episode % number == 0)
