"""Starter configs: a file that trains an algorithm on an environment, with the keys that matter and their meanings."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from textwrap import wrap
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from ding_lite.config import compile_config
from ding_lite.config.schema import PIPELINE_OF, model_options
from ding_lite.envs import check_env
from ding_lite.envs.keys import ENV_KEYS
from ding_lite.envs.spaces import count_agents
from ding_lite.goals.goal_env import has_goals
from ding_lite.policy.common_keys import AGENT_KEYS
from ding_lite.run.learning_part import LearningPart
from ding_lite.run.pipelines import pipeline_for
from ding_lite.run.setup import RunSetup, prepare_run
from ding_lite.utils.disk import describe_os_error
from ding_lite.utils.key import Key, declared_keys, default_values, set_key
from ding_lite.utils.registry import (
    BUFFER_REGISTRY,
    LEARNING_PARTS,
    POLICY_REGISTRY,
    ConfigError,
    closest,
)
from ding_lite.utils.tree import GLOBAL

MUJOCO = "HalfCheetah|Hopper|Walker2d|Ant|Humanoid(Standup)?|Swimmer|Reacher|Pusher|Inverted(Double)?Pendulum"
DIZOO = {  # dizoo's environment for the ids that begin with a pattern, and its manager
    "atari": (r"ALE/|.*NoFrameskip-v\d$", "native"),
    "minigrid": ("MiniGrid-|BabyAI-", "base"),
    "mujoco": (rf"({MUJOCO})-v[45]$", "base"),
    "robotics": (r"(Fetch|Hand(Reach|Manipulate)|PointMaze|AntMaze)", "base"),
    "pettingzoo": (r"(mpe2|atari|butterfly|classic|sisl)/", "base"),
    "lbforaging": ("Foraging-", "base"),
    "matrix_game": (r"(TwoStep|Climbing|Penalty)-v0$", "base"),
    **{name: (f"{name}/", "batched") for name in ("brax", "playground", "vmas")},
}
# dizoo's torch programs, by gymnasium's names, and their modules in `dizoo.classic_control`
TORCH = {
    "CartPole": ("cartpole", "cartpole.envs.cartpole_env"),
    "Pendulum": ("pendulum", "pendulum.envs.pendulum_env"),
    "Acrobot": ("acrobot", "acrobot.envs.acrobot_env"),
    "MountainCar": ("mountain_car", "mountain_car.envs.mtcar_env"),
}
# Values where the environments are one tensor; sizes for policies that learn from their collects, and from replay.
BATCHED_ENVS = {"collector_env_num": 64, "evaluator_env_num": 32, "n_evaluator_episode": 32}
BATCHED_SIZES = {
    "collect": {"collect.n_sample": 2048, "learn.batch_size": 512},
    "replay": {"collect.n_sample": 64, "other.replay_buffer.replay_buffer_size": 100_000},
}
IMAGES = 100_000  # env steps of a replay buffer whose default size does not fit
DEFAULT_ALGORITHMS = ("ppo", "bdq")  # the first one that takes the environment's actions
GOAL_ALGORITHMS = ("sac", "dqn")  # default algorithms for environments with goals
ENV = ("collector_env_num", "evaluator_env_num", "n_evaluator_episode")
POLICY = (
    *("discount_factor", "nstep", "unroll_len", "random_collect_size", "model.v_min", "model.v_max"),
    *("learn.update_per_collect", "learn.epoch_per_collect", "learn.batch_size", "learn.learning_rate"),
    *(f"learn.learning_rate_{name}" for name in ("actor", "critic", "q", "policy", "alpha", "dis", "cont", "quantile")),
    *("learn.target_update_freq", "learn.target_theta", "learn.entropy_weight", "learn.clip_ratio"),
    *("collect.n_sample", "collect.n_episode", "collect.gae_lambda", "collect.noise_sigma", "learn.teacher_path"),
    *("eval.evaluator.eval_freq", "other.eps.type", "other.eps.start", "other.eps.end", "other.eps.decay"),
    "other.replay_buffer.replay_buffer_size",
)
# Values where observations are vectors: for the keys that a class declares, and for single algorithms. Such tasks take
# some 100,000 cheap steps; the classes' values are DI-engine's, many of which are for Atari or for short horizons.
VECTORS: dict[str, Any] = {
    "discount_factor": 0.99,
    "random_collect_size": 1000,
    "other.eps.end": 0.05,
    "other.eps.decay": 3000,
    "other.replay_buffer.replay_buffer_size": 100_000,
    "eval.evaluator.eval_freq": 1000,
}
SHARED = {"nstep": 3, "learn.update_per_collect": 8, "learn.target_theta": 0.01}
VALUES = {**SHARED, "learn.learning_rate": 5e-4}
TANH: dict[str, Any] = {
    "model.share_encoder": False,
    "model.encoder_hidden_size_list": [64, 64],
    "model.activation": "tanh",
    "model.actor_head_layer_num": 0,
    "model.critic_head_layer_num": 0,
}
WIDE = {"model.actor_head_hidden_size": 256, "model.critic_head_hidden_size": 256}
SEQUENCES = {"other.replay_buffer.replay_buffer_size": 5000, "random_collect_size": 0}
RECURRENT = {
    **SEQUENCES,
    "random_collect_size": 50,
    "unroll_len": 20,
    "burnin_step": 10,
    "learn.batch_size": 32,
    "learn.learning_rate": 5e-4,
    "learn.update_per_collect": 8,
}
ALGORITHMS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("dqn", "bdq", "qrdqn", "iqn", "sql"), VALUES),
    "c51": {**VALUES, "eval.average": 0.002},
    "mdqn": {**VALUES, "nstep": 1},  # the only value that it allows
    "rainbow": {**VALUES, "learn.batch_size": 64},
    "fqf": {**SHARED, "learn.learning_rate_quantile": 5e-4},
    "sqn": {**SHARED, "learn.learning_rate_q": 5e-4},
    **dict.fromkeys(("sac", "tqc", "td3", "ddpg", "d4pg"), WIDE),
    "redq": WIDE,
    "discrete_sac": {
        "learn.update_per_collect": 8,
        "learn.batch_size": 64,
        "learn.learning_rate_q": 1e-3,
        "learn.learning_rate_policy": 1e-3,
        "learn.target_theta": 0.01,
        "learn.auto_alpha": False,
    },
    **dict.fromkeys(("r2d2", "r2d3", "ngu"), RECURRENT),
    "dreamer": {
        "unroll_len": 32,
        "learn.batch_size": 8,
        "learn.update_per_step": 0.25,
        "learn.learning_rate_world": 5e-4,
        "learn.learning_rate_actor": 2e-4,
        "learn.learning_rate_critic": 2e-4,
        "other.replay_buffer.replay_buffer_size": 3000,
        "eval.evaluator.eval_freq": 250,
        "model.encoder_hidden_size_list": [128],
        "model.dyn_deter": 128,
        "model.dyn_hidden": 128,
        "model.dyn_stoch": 8,
        "model.dyn_discrete": 8,
        "model.units": 128,
    },
    "acer": {
        **SEQUENCES,
        "learn.batch_size": 32,
        "learn.entropy_weight": 0.003,
        "eval.evaluator.eval_freq": 100,
    },
    "impala": {
        **TANH,
        "unroll_len": 16,
        "random_collect_size": 0,
        "learn.entropy_weight": 0.01,
        "other.replay_buffer.replay_buffer_size": 100,
        "eval.evaluator.eval_freq": 400,
    },
    "a2c": {**TANH, "collect.n_sample": 64, "learn.entropy_weight": 0.0, "eval.evaluator.eval_freq": 300},
    "ppo": {**TANH, "discount_factor": 0.999, "collect.gae_lambda": 0.98},
    "ppo_offpolicy": {
        **TANH,
        "random_collect_size": 0,
        "other.replay_buffer.replay_buffer_size": 10_000,
        "learn.learning_rate": 3e-4,
        "eval.evaluator.eval_freq": 400,
    },
    "pqn": {
        "model.encoder_hidden_size_list": [120, 84],
        "model.head_layer_num": 0,
        "model.dueling": False,
        "learn.learning_rate": 1e-3,
        "collect.q_lambda": 0.95,
        "other.eps.type": "linear",
        "other.eps.decay": 20_000,
        "eval.evaluator.eval_freq": 160,
    },
    "pg": {"collect.n_episode": 16, "eval.evaluator.eval_freq": 200},
}
CONTINUOUS = {"discount_factor": 0.99, "collect.gae_lambda": 0.95}  # for on-policy algorithms, instead of theirs
DISCRETE_ONLY = ("pg", "impala")  # did not learn continuous actions of Pendulum-v1 with any values that were tried
RANDOM_STEPS = 2000  # played to find the range of returns
DATA_BUFFERS = {"bco": "observations", "r2d3": "demonstration_sequences"}  # instead of `demonstrations`
BUFFER_PATH = "other.replay_buffer"
TEMPLATE = '''"""{algorithm} on {env_id}. docs/config.md lists all keys.

Train it with `ding_lite train -c {file}`.
"""

main_config = {main}
create_config = {create}

if __name__ == "__main__":
    from ding_lite.entry import {pipeline}

    {pipeline}((main_config, create_config), seed=0)
'''


def write_starter(
    env_id: str,
    algorithm: str | None = None,
    output: str | None = None,
    batched: bool = False,
    parts: Sequence[str] = (),
) -> Path:
    """Write a starter config and return its path, by default one that is named for environment and algorithm.

    Without an `algorithm`, it is the first of `DEFAULT_ALGORITHMS` that fits. With `batched`, the environments are one
    tensor. `parts` are names of reward models, world models and replay buffers.
    """
    algorithm = algorithm or _find_algorithm(env_id, batched)
    short = re.sub(r"-v\d+$|NoFrameskip", "", re.split("[/:]", env_id)[-1])  # 'Pong' of 'PongNoFrameskip-v4'
    name = "_".join([re.sub(r"\W+", "_", short).lower(), algorithm, *parts])
    path = Path(output or f"{name}_config.py")
    main, create = _starter_pair(env_id, algorithm, f"{name}_seed0", batched)
    for part in [*_data_buffer(algorithm), *parts]:
        _add_part(main, create, part)
    try:
        setup = _check(main, create)
    except ConfigError as error:
        buffer = main["policy"].get("other", {}).get("replay_buffer", {})
        if not buffer or "replay_buffer_size=" not in str(error):
            raise
        buffer["replay_buffer_size"] = replace(buffer["replay_buffer_size"], default=IMAGES)
        setup = _check(main, create)
    if algorithm in DISCRETE_ONLY and isinstance(setup.spec.action_space, Box):
        raise ConfigError(
            f"Policy '{algorithm}' hardly learns continuous actions: use 'ppo' or 'sac', or write a config."
        )
    goals = has_goals(setup.spec.observation_space) and algorithm in GOAL_ALGORITHMS
    if goals or len(getattr(setup.spec.observation_space, "shape", None) or ()) == 1:
        _suit(main, algorithm, setup)
        if goals:
            _add_part(main, create, "her")
            if "nstep" in main["policy"]:  # several steps in a sum were meant for another buffer
                main["policy"]["nstep"] = replace(main["policy"]["nstep"], default=1)
        _check(main, create)
    text = TEMPLATE.format(
        main=_format(main),
        create=_format(create),
        pipeline=setup.pipeline,
        env_id=env_id,
        algorithm=algorithm,
        file=shlex.quote(str(path)),
    )
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(f"'{path}' exists: remove it, or give another name with -o.") from None
    except OSError as error:
        raise ConfigError(f"Cannot write '{path}': {describe_os_error(error)}. Give another name with -o.") from None
    return path


def _starter_pair(
    env_id: str, algorithm: str, exp_name: str, batched: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return `(main_config, create_config)`. Values of keys that matter are `Key`s, whose meanings become comments."""
    policy_cls = POLICY_REGISTRY.find(algorithm)
    if policy_cls.learns_from == "dataset":
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
    keys = _used_keys(policy_cls)
    for path in (path for path in POLICY if path in keys and keys[path].default is not None):
        set_key(policy, path, keys[path])
    created, manager = _environment(env_id, batched)
    create = {"env": created, "env_manager": {"type": manager}, "policy": {"type": algorithm}}
    if manager == "batched":
        env |= {key: replace(ENV_KEYS[key], default=value) for key, value in BATCHED_ENVS.items()}
        env["env_id"] = env_id.partition("/")[2] or env_id
        if created["type"] == "vmas" and Box not in policy_cls.action_spaces:
            env["continuous_actions"] = False
    main = {"exp_name": exp_name, "env": env, "policy": policy}
    cfg = compile_config((default_values(main), create))
    space = (spec := check_env(cfg.env)).observation_space
    if count_agents(space, spec.action_space):
        if "multi_agent" in cfg.policy:
            policy["multi_agent"] = replace(AGENT_KEYS["multi_agent"], default=True)
        options = model_options(policy_cls, {"policy": {"multi_agent": True}}, {})
        if "policy.model.centralized_critic" in options and GLOBAL not in space.spaces:  # type: ignore[attr-defined]
            set_key(policy, "model.centralized_critic", False)
    return main, create


def _environment(env_id: str, batched: bool) -> tuple[dict[str, Any], str]:
    """Return `create_config.env` and the type of the manager for an id; with `batched`, that of one tensor."""
    kind = next((kind for kind, (pattern, _) in DIZOO.items() if re.match(pattern, env_id)), "")
    if kind:
        created, manager = {"type": kind, "import_names": [f"dizoo.{kind}.envs.{kind}_env"]}, DIZOO[kind][1]
    else:
        created, manager = {"type": "gymnasium"}, "batched" if batched else "base"
    if batched and env_id.rpartition("-v")[0] in TORCH:
        kind, module = TORCH[env_id.rpartition("-v")[0]]
        return {"type": kind, "import_names": [f"dizoo.classic_control.{module}"]}, "batched"
    if batched and manager != "batched":
        raise ConfigError(
            f"--batched: '{env_id}' steps no tensor of environments, see docs/batched.md: leave the option out."
        )
    return created, manager


def _used_keys(policy_cls: type) -> dict[str, Key]:
    """Return the keys that a policy declares, without those of options that are off by default."""
    keys = declared_keys(policy_cls)
    defaults = {path: key.default for path, key in keys.items()}
    return {path: key for path, key in keys.items() if key.is_used(defaults.get(key.option(path, keys)))}


def _suit(main: dict[str, Any], algorithm: str, setup: RunSetup) -> None:
    """Replace the values of a starter config by those that suit observations that are vectors."""
    keys = _used_keys(setup.policy_cls)
    sequences = ("random_collect_size", "other.replay_buffer.replay_buffer_size") if "unroll_len" in keys else ()
    common = {path: value for path, value in VECTORS.items() if path in keys and path not in sequences}
    continuous = setup.pipeline == "serial_pipeline_onpolicy" and isinstance(setup.spec.action_space, Box)
    for path, value in (common | ALGORITHMS.get(algorithm, {}) | (CONTINUOUS if continuous else {})).items():
        set_key(main["policy"], path, replace(keys[path], default=value) if path in keys else value)
    if setup.cfg.env.manager.type == "batched":
        sizes = BATCHED_SIZES[setup.policy_cls.learns_from]
        for path in (path for path in sizes if path in keys and "unroll_len" not in keys):
            set_key(main["policy"], path, replace(keys[path], default=sizes[path]))
    if "model.v_min" in keys and (setup.cfg.env.type == "gymnasium" or setup.cfg.env.env_id in gymnasium.registry):
        low, high = _return_range(setup.cfg.env.env_id, default_values(main)["policy"]["discount_factor"])
        for key, value in (("v_min", low), ("v_max", high)):
            main["policy"]["model"][key] = replace(keys[f"model.{key}"], default=value)
    if continuous:
        main["env"] |= {key: replace(ENV_KEYS[key]["use_norm"], default=True) for key in ("norm_obs", "norm_reward")}


def _data_buffer(algorithm: str) -> list[str]:
    """Return the replay buffer that reads a data set, for a policy of the room `offline` that plays, too."""
    policy_cls = POLICY_REGISTRY.find(algorithm)
    begins = policy_cls.learns_from == "replay" and policy_cls.__module__.startswith("ding_lite.offline.")
    return [DATA_BUFFERS.get(algorithm, "demonstrations")] if begins else []


def _add_part(main: dict[str, Any], create: dict[str, Any], name: str) -> None:
    """Add a replay buffer, a reward model or a world model of this name, with its own keys."""
    if name in BUFFER_REGISTRY:
        if POLICY_REGISTRY.find(create["policy"]["type"]).learns_from != "replay":
            raise ConfigError(
                f"--with {name}: policy '{create['policy']['type']}' has no replay buffer: try 'dqn' or 'sac'."
            )
        keys = declared_keys(BUFFER_REGISTRY.find(name))
        buffer = {"type": Key(name, "name in the buffer registry"), **keys}
        for path, key in buffer.items():
            set_key(main["policy"], f"{BUFFER_PATH}.{path}", key)
        return
    for section, registry in LEARNING_PARTS.items():
        if name in registry:
            create[section] = {"type": name}
            shared = declared_keys(LearningPart).keys() - {"learning_rate"}
            own = _used_keys(registry.find(name)).items()
            main[section] = _nested({path: key for path, key in own if path not in {*shared, "type"}})
            return
    known = [*itertools.chain(BUFFER_REGISTRY, *LEARNING_PARTS.values())]
    raise ConfigError(f"--with {name}: no reward model, world model or buffer has this name.{closest(name, known)}")


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested dicts of values that are given by dotted keys."""
    tree = dict[str, Any]()
    for path, value in values.items():
        set_key(tree, path, value)
    return tree


def _return_range(env_id: str, discount: float) -> tuple[float, float]:
    """Return bounds of discounted returns, from random play.

    If all rewards have one sign, the bound is what the largest of them amounts to in an endless episode. Otherwise this
    is much too wide, and both bounds are one and a half times the largest return seen or the goal.
    """
    env = gymnasium.make(env_id)
    env.reset(seed=0)
    env.action_space.seed(0)
    rewards, returns, total, weight = [0.0], [0.0], 0.0, 1.0
    for _ in range(RANDOM_STEPS):
        _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        total, weight = total + weight * float(reward), weight * discount
        rewards.append(float(reward))
        if terminated or truncated:
            returns.append(total)
            total, weight = 0.0, 1.0
            env.reset()
    env.close()
    low, high = min(rewards), max(rewards)
    if low < 0 < high:
        high = float(np.ceil(1.5 * max(map(abs, [*returns, (env.spec and env.spec.reward_threshold) or 0.0]))))
        return -high, high
    return float(np.floor(low / (1 - discount))), float(np.ceil(high / (1 - discount)))


def _find_algorithm(env_id: str, batched: bool) -> str:
    """Return the first of `DEFAULT_ALGORITHMS` that fits an environment, or of `GOAL_ALGORITHMS` if it has goals."""
    for algorithm in DEFAULT_ALGORITHMS:
        try:
            setup = _check(*_starter_pair(env_id, algorithm, "starter", batched))
            if has_goals(setup.spec.observation_space):
                return GOAL_ALGORITHMS[isinstance(setup.spec.action_space, Discrete)]
            return algorithm
        except ConfigError as error:
            mistake = error
            if "action" not in str(error):  # another algorithm would not help
                break
    raise mistake


def _check(main: dict[str, Any], create: dict[str, Any]) -> RunSetup:
    """Check a pair as a run would be checked; return the run, with the pipeline that trains it."""
    pair = default_values(main), create
    trains = PIPELINE_OF[POLICY_REGISTRY.find(create["policy"]["type"]).learns_from]
    return prepare_run(pair, pipeline=pipeline_for(pair).__name__, trains=trains, all_ranks=False)


def _format(tree: Mapping[str, Any], indent: str = "") -> str:
    """Return a nested dict as `dict(...)`, one key per line, with the meanings of its keys as comments."""
    inside = f"{indent}    "
    lines = ["dict("]
    for key, value in tree.items():
        if isinstance(value, Mapping):
            lines.append(f"{inside}{key}={_format(value, inside)},")
            continue
        shown, comment = (value.default, f"  # {value.meaning}") if isinstance(value, Key) else (value, "")
        line = (
            f'{inside}{key}="{shown}",' if isinstance(shown, str) and '"' not in shown else f"{inside}{key}={shown!r},"
        )
        if len(line + comment) > 120:
            lines += wrap(comment.strip("# "), 120, initial_indent=f"{inside}# ", subsequent_indent=f"{inside}# ")
            comment = ""
        lines.append(line + comment)
    return "\n".join([*lines, f"{indent})"])
