"""Environments alone, random actions: Pong against ale-py's bare engine, and the managers against each other.

``python -m tests.benchmarks.env_rate``. Goal: our share of ale-py's rate, in turns, is at least 0.9. ``--managers``
prints the rates of all managers only; without an optional package there is a "-".
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
from collections.abc import Callable
from typing import Any

from easydict import EasyDict

from ding_lite.utils.registry import UserError
from tests.benchmarks.sides import spread

GOAL = 0.9
MANAGERS = ("base", "subprocess", "native", "env_pool")
TASKS = (  # env.type, env.env_id
    ("gymnasium", "CartPole-v1"),
    ("gymnasium", "Pendulum-v1"),
    ("gymnasium", "LunarLander-v3"),
    ("gymnasium", "HalfCheetah-v5"),
    ("minigrid", "MiniGrid-Empty-8x8-v0"),
    ("atari", "PongNoFrameskip-v4"),
)


def make_bare(num_envs: int, threads: int) -> Any:
    """ale-py's engine with the settings that ours uses."""
    from ale_py.vector_env import AtariVectorEnv
    from gymnasium.vector import AutoresetMode

    return AtariVectorEnv(
        "pong",
        num_envs,
        num_threads=threads,
        autoreset_mode=AutoresetMode.SAME_STEP,
        episodic_life=False,
        life_loss_info=False,
        reward_clipping=False,
        use_fire_reset=False,
        repeat_action_probability=0.0,
    )


def make_ours(num_envs: int, threads: int) -> Any:
    """What the collector of the main job steps."""
    from ding_lite.envs import create_vector_env
    from tests.benchmarks.ours import compile_task

    cfg = compile_task("pong_dqn", [f"env.manager.num_threads={threads}"])
    return create_vector_env(cfg.env, num_envs, seed=0, training=True)


def make_managed(env_type: str, env_id: str, manager: str, num_envs: int) -> Any:
    """Environments of a manager, for training; an engine has as many threads as there are cores."""
    import dizoo.atari.envs.atari_env  # registers itself
    import dizoo.minigrid.envs.minigrid_env  # noqa: F401
    from ding_lite.envs import ENV_DEFAULTS, create_vector_env
    from ding_lite.utils.key import declared_keys, default_values, merge_keys
    from ding_lite.utils.registry import ENV_REGISTRY

    if (env_type, manager) == ("minigrid", "env_pool"):
        env_type = "gymnasium"  # envpool has its own observations, a dict of image and direction
    own = {} if env_type == "gymnasium" else default_values(declared_keys(ENV_REGISTRY.find(env_type)))
    told = dict(type=env_type, env_id=env_id, manager=dict(type=manager))
    return create_vector_env(EasyDict(merge_keys(ENV_DEFAULTS, own, told)), num_envs, seed=0, training=True)


def make_stepper(env: Any, num_envs: int) -> Callable[[float], float]:
    """A function that steps for some seconds and returns environment steps a second."""
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(997)]
    env.reset(seed=0)

    def step(seconds: float) -> float:
        start, count = time.perf_counter(), 0
        while time.perf_counter() - start < seconds:
            for _ in range(10):
                env.step(actions[count % len(actions)])
                count += 1
        return count * num_envs / (time.perf_counter() - start)

    return step


def compare_managers(num_envs: int, rounds: int, seconds: float) -> None:
    """Print the median rates of all managers, which take turns."""
    names = " | ".join(MANAGERS)
    print(f"| {num_envs} environments, steps/s | {names} |\n|---{'|---' * len(MANAGERS)}|")
    for env_type, env_id in TASKS:
        envs = {}
        for manager in MANAGERS:
            with contextlib.suppress(UserError):  # no such engine, or a package is not installed
                envs[manager] = make_managed(env_type, env_id, manager, num_envs)
        steppers = {manager: make_stepper(env, num_envs) for manager, env in envs.items()}
        rates: dict[str, list[float]] = {manager: [] for manager in envs}
        for _ in range(rounds):
            for manager, step in steppers.items():
                rates[manager].append(step(seconds))
        cells = [f"{statistics.median(rates[manager]):,.0f}" if manager in rates else "-" for manager in MANAGERS]
        print(f"| {env_id} | {' | '.join(cells)} |", flush=True)
        for env in envs.values():
            env.close()


def main() -> None:
    """Print both rates and the share per pair, and the rates of all managers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", type=int, default=8)
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2], help="threads of the engine")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--managers", action="store_true", help="only compare managers")
    args = parser.parse_args()
    compare_managers(args.envs, args.pairs, args.seconds)
    if args.managers:
        return
    print("| engine threads | ours, steps/s | ale-py, steps/s | share | goal |\n|---|---|---|---|---|")
    for threads in args.threads:
        ours, bare = (make_stepper(make(args.envs, threads), args.envs) for make in (make_ours, make_bare))
        ours(0.5), bare(0.5)
        rates = [(ours(args.seconds), bare(args.seconds)) for _ in range(args.pairs)]
        medians = [statistics.median(side) for side in zip(*rates, strict=True)]
        share = spread([a / b for a, b in rates])
        print(f"| {threads} | {medians[0]:.0f} | {medians[1]:.0f} | {share} | {GOAL} |", flush=True)


if __name__ == "__main__":
    main()
