"""Starter configs: a file that trains an algorithm on an environment, with the keys that matter and their meanings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium

from ding_lite.entry.setup import prepare_run
from ding_lite.envs.keys import ENV_KEYS
from ding_lite.utils.key import Key, declared_keys
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError

MUJOCO = "HalfCheetah|Hopper|Walker2d|Ant|Humanoid(Standup)?|Swimmer|Reacher|Pusher|Inverted(Double)?Pendulum"
DIZOO = {  # dizoo's environment for the gymnasium ids that begin with a pattern, and its manager
    "atari": (r"ALE/|.*NoFrameskip-v\d$", "native"),
    "minigrid": ("MiniGrid-|BabyAI-", "base"),
    "mujoco": (rf"({MUJOCO})-v[45]$", "base"),
}
IMAGES = 100_000  # env steps of a replay buffer whose default size does not fit
DEFAULT_ALGORITHMS = ("ppo", "bdq")  # the first one that takes the environment's actions
ENV = ("collector_env_num", "evaluator_env_num", "n_evaluator_episode")
POLICY = (
    *("discount_factor", "nstep", "unroll_len", "random_collect_size", "model.v_min", "model.v_max"),
    *("learn.update_per_collect", "learn.epoch_per_collect", "learn.batch_size", "learn.learning_rate"),
    *(f"learn.learning_rate_{name}" for name in ("actor", "critic", "q", "policy", "alpha", "dis", "cont")),
    *("learn.target_update_freq", "learn.target_theta", "learn.entropy_weight", "learn.clip_ratio"),
    *("collect.n_sample", "collect.n_episode", "collect.gae_lambda", "collect.noise_sigma"),
    *("eval.evaluator.eval_freq", "other.eps.type", "other.eps.start", "other.eps.end", "other.eps.decay"),
    "other.replay_buffer.replay_buffer_size",
)
TEMPLATE = '''"""{algorithm} on {env_id}. docs/config.md lists all keys.

Train it with `ding_lite train -c {file}`.
"""

main_config = {main}
create_config = {create}

if __name__ == "__main__":
    from ding_lite.entry import {pipeline}

    {pipeline}((main_config, create_config), seed=0)
'''


def write_starter(env_id: str, algorithm: str | None = None, output: str | None = None) -> Path:
    """Write a starter config and return its path.

    Args:
        env_id: a gymnasium id.
        algorithm: a registered policy; None: the first of `DEFAULT_ALGORITHMS` that fits.
        output: the file; None: one in the current directory, named for both.

    Raises:
        ConfigError: there is no such environment or algorithm, they do not fit, or the file exists.
    """
    algorithm = algorithm or _find_algorithm(env_id)
    name = f"{_short_name(env_id)}_{algorithm}"
    path = Path(output or f"{name}_config.py")
    main, create = starter_pair(env_id, algorithm, f"{name}_seed0")
    try:
        pipeline = _check(main, create)
    except ConfigError as error:
        buffer = main["policy"].get("other", {}).get("replay_buffer", {})
        if not buffer or "replay_buffer_size=" not in str(error):
            raise
        buffer["replay_buffer_size"] = replace(buffer["replay_buffer_size"], default=IMAGES)
        pipeline = _check(main, create)
    options = dict(pipeline=pipeline, env_id=env_id, algorithm=algorithm, file=shlex.quote(str(path)))
    text = TEMPLATE.format(main=_format(main), create=_format(create), **options)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(f"'{path}' exists: remove it, or give another name with -o.") from None
    except OSError as error:
        raise ConfigError(f"Cannot write '{path}': {error.strerror}. Give another name with -o.") from None
    return path


def starter_pair(env_id: str, algorithm: str, exp_name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return `(main_config, create_config)`. Values of keys that matter are `Key`s, whose meanings become comments.

    Raises:
        ConfigError: there is no such algorithm, or it learns from a data set.
    """
    policy_cls = POLICY_REGISTRY.find(algorithm)
    if policy_cls.pipeline == "serial_pipeline_offline":
        raise ConfigError(
            f"Policy '{algorithm}' learns from a data set, which a starter config cannot know: begin with a file of "
            "dizoo, see docs/offline.md."
        )
    threshold = None
    with suppress(gymnasium.error.Error):
        threshold = gymnasium.spec(env_id).reward_threshold
    env: dict[str, Any] = {"env_id": env_id, **{key: ENV_KEYS[key] for key in ENV}}
    env["stop_value"] = Key(threshold, "the run ends at this mean evaluation return; None: at a limit of steps")
    policy: dict[str, Any] = {}
    keys = declared_keys(policy_cls)
    for path in (path for path in POLICY if path in keys and keys[path].default is not None):
        *sections, last = path.split(".")
        node = policy
        for section in sections:
            node = node.setdefault(section, {})
        node[last] = keys[path]
    kind = next((kind for kind, (pattern, _) in DIZOO.items() if re.match(pattern, env_id)), "")
    created = {"type": kind, "import_names": [f"dizoo.{kind}.envs.{kind}_env"]} if kind else {"type": "gymnasium"}
    manager = DIZOO[kind][1] if kind else "base"
    create = {"env": created, "env_manager": {"type": manager}, "policy": {"type": algorithm}}
    return {"exp_name": exp_name, "env": env, "policy": policy}, create


def _find_algorithm(env_id: str) -> str:
    """Return the first of `DEFAULT_ALGORITHMS` that fits an environment."""
    for algorithm in DEFAULT_ALGORITHMS:
        try:
            _check(*starter_pair(env_id, algorithm, "starter"))
            return algorithm
        except ConfigError as error:
            mistake = error
            if "action" not in str(error):  # another algorithm would not help
                break
    raise mistake


def _check(main: dict[str, Any], create: dict[str, Any]) -> str:
    """Check a pair as a run would be checked; return the pipeline that trains it."""
    pipeline: str = POLICY_REGISTRY.find(create["policy"]["type"]).pipeline
    prepare_run((_values(main), create), pipeline=pipeline, all_ranks=False)
    return pipeline


def _values(tree: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _values(value) if isinstance(value, Mapping) else _value(value) for key, value in tree.items()}


def _value(value: Any) -> Any:
    return value.default if isinstance(value, Key) else value


def _short_name(env_id: str) -> str:
    """Return 'lunarlander_continuous' for 'LunarLanderContinuous-v3', and 'pong' for 'PongNoFrameskip-v4'."""
    name = re.sub(r"-v\d+$|NoFrameskip", "", env_id.rpartition("/")[2])
    return re.sub(r"\W+", "_", name).lower()


def _format(tree: Mapping[str, Any]) -> str:
    """Return a nested dict as `dict(...)`, one key per line, with the meanings of its keys as comments."""
    return "\n".join(["dict(", *_lines(tree, 1), ")"])


def _lines(tree: Mapping[str, Any], level: int) -> Iterator[str]:
    indent = "    " * level
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield f"{indent}{key}=dict("
            yield from _lines(value, level + 1)
            yield f"{indent}),"
        else:
            line = f"{indent}{key}={_show(_value(value))},"
            comment = f"  # {value.meaning}" if isinstance(value, Key) else ""
            if len(line + comment) > 120:
                yield f"{indent}#{comment.removeprefix('  #')}"
                comment = ""
            yield line + comment


def _show(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) and '"' not in value else repr(value)
