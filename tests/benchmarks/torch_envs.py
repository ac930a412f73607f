"""Env steps a second of the torch programs of classic control, with random actions on one thread.

``python -m tests.benchmarks.torch_envs [--seconds 2]``. Times are of the processor, so that other processes count less;
the fastest of all blocks of 50 steps is printed.
"""

from __future__ import annotations

import argparse
import time

import torch

from dizoo.classic_control.acrobot.envs.acrobot_torch import AcrobotTorch
from dizoo.classic_control.cartpole.envs.cartpole_torch import CartPoleTorch
from dizoo.classic_control.mountain_car.envs.mtcar_torch import MountainCarTorch
from dizoo.classic_control.pendulum.envs.pendulum_torch import PendulumTorch
from dizoo.classic_control.torch_env import TorchVectorEnv

SIZES = (256, 1024, 4096)
STEPS = 50


def measure(env: TorchVectorEnv, seconds: float) -> float:
    """Return env steps a second."""
    actions = [torch.as_tensor(env.action_space.sample()) for _ in range(STEPS)]
    env.reset(seed=0)
    best, end = float("inf"), time.monotonic() + seconds
    while time.monotonic() < end:
        start = time.process_time()
        for action in actions:
            env.step(action)
        best = min(best, time.process_time() - start)
    return env.num_envs * STEPS / best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    seconds = parser.parse_args().seconds
    torch.set_num_threads(1)
    print("million env steps a second", *(f"N = {size:,}" for size in SIZES), sep=" | ")
    for cls in (CartPoleTorch, PendulumTorch, AcrobotTorch, MountainCarTorch):
        rates = [measure(cls(size), seconds) / 1e6 for size in SIZES]
        print(cls.__name__, *(f"{rate:.2f}" for rate in rates), sep=" | ")


if __name__ == "__main__":
    main()
