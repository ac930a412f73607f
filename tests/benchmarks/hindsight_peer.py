"""Env steps per CPU second of SAC with goals in hindsight on FetchReach-v4, of ding_lite and Stable-Baselines3.

    python -m tests.benchmarks.hindsight_peer ours
    $PEER_SB3_PYTHON tests/benchmarks/hindsight_peer.py sb3

Both take an update of 256 samples after every env step, of 2 environments, in one thread, with two layers of 64. The
environment of the peer needs gymnasium-robotics and an older mujoco too, as the extra `robotics` says. A short run is
subtracted from a long one, so that what is built and played at the start does not count. Goal: 1.5 times the peer's.
"""

from __future__ import annotations

import argparse
import sys
import time

START, SHORT, LONG = 1000, 1500, 3500  # env steps: before learning, and of the two runs


def run_ours(steps: int) -> int:
    """Train, and return the number of parameters that are trained."""
    from ding_lite.entry import serial_pipeline
    from dizoo.robotics.config.fetchreach_her_sac_config import create_config, main_config

    never = ["policy.eval.evaluator.eval_freq=1000000", "env.evaluator_env_num=1", "env.n_evaluator_episode=1"]
    words = [f"exp_name=steps_{steps}", "env.stop_value=None", *never]
    policy = serial_pipeline((main_config, create_config), seed=0, max_env_step=steps, overrides=words)
    return sum(parameter.numel() for parameter in policy.model.parameters())


def run_sb3(steps: int) -> int:
    """Train, and return the number of parameters that are trained."""
    import gymnasium
    import gymnasium_robotics
    from stable_baselines3 import SAC, HerReplayBuffer
    from stable_baselines3.common.env_util import make_vec_env

    gymnasium.register_envs(gymnasium_robotics)
    env = make_vec_env("FetchReach-v4", n_envs=2, seed=0)
    options = dict(learning_starts=START, buffer_size=100_000, train_freq=25, gradient_steps=50)
    hindsight = dict(n_sampled_goal=4, goal_selection_strategy="future")
    model = SAC(
        "MultiInputPolicy",
        env,
        replay_buffer_class=HerReplayBuffer,
        replay_buffer_kwargs=hindsight,
        learning_rate=1e-3,
        gamma=0.95,
        tau=0.05,
        batch_size=256,
        policy_kwargs=dict(net_arch=[64, 64]),
        seed=0,
        device="cpu",
        **options,
    )
    model.learn(steps)
    return sum(parameter.numel() for part in (model.actor, model.critic) for parameter in part.parameters())


def main() -> None:
    """Time two runs of a side and print their difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("side", choices=("ours", "sb3"))
    run = run_ours if parser.parse_args().side == "ours" else run_sb3
    import torch

    torch.set_num_threads(1)
    seconds = []
    for steps in (SHORT, LONG):
        begin = time.process_time()
        size = run(steps)
        seconds.append(time.process_time() - begin)
    rate = (LONG - SHORT) / (seconds[1] - seconds[0])
    sys.stdout.write(f"{rate:.0f} env steps a CPU second, {size} parameters\n")


if __name__ == "__main__":
    main()
