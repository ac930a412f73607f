"""What every side of `batched` is given: the environments, the sizes, and the clock.

The peers' interpreters read this file too, so it needs nothing but torch, gymnasium and easydict.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.benchmarks.meter import Finished, machine_cpu, peak_rss_mb, session_cpu, write_result
from tests.benchmarks.settings import limit_threads

if TYPE_CHECKING:
    from dizoo.classic_control.torch_env import TorchVectorEnv

STEPS = 32  # of each environment in a collect
EPOCHS = 4
MINIBATCHES = 4
GAMMA, LAMBDA = 0.99, 0.95
LEARNING_RATE = 1e-3
CLIP = 0.2  # of the ratio and of the value
VALUE_WEIGHT = 0.5  # of half the squared error
ENTROPY_WEIGHT = 0.01
GRAD_NORM = 0.5
WARM_SECONDS = 1.0  # of processor time, rounded up to whole rounds
GAMES = ("cartpole", "pendulum")


@dataclass(frozen=True)
class BatchedTask:
    """One game with N environments, and two networks, actor and critic, of two hidden layers each.

    Attributes:
        game: name of the environment, one of `GAMES`.
        num_envs: N.
        hidden: size of each hidden layer.
    """

    game: str
    num_envs: int
    hidden: int

    @property
    def batch_size(self) -> int:
        return self.num_envs * STEPS // MINIBATCHES

    @property
    def discrete(self) -> bool:
        return self.game == "cartpole"

    def parameters(self, discrete: bool) -> int:
        """Return the number of parameters of actor and critic, whose actions are discrete or have one deviation."""
        size, outputs = 4 if self.discrete else 3, (2 if discrete else 1, 1)
        inner = (size + 1) * self.hidden + (self.hidden + 1) * self.hidden
        return sum(inner + (self.hidden + 1) * each for each in outputs) + (not discrete)

    def make_env(self) -> TorchVectorEnv:
        if self.discrete:
            from dizoo.classic_control.cartpole.envs.cartpole_torch import CartPoleTorch

            return CartPoleTorch(self.num_envs)
        from dizoo.classic_control.pendulum.envs.pendulum_torch import PendulumTorch

        return PendulumTorch(self.num_envs)

    def arguments(self) -> list[str]:
        """Return the words of a side's command line."""
        return ["--game", self.game, "--num-envs", str(self.num_envs), "--hidden", str(self.hidden)]


def add_side_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what a side's process takes."""
    parser.add_argument("--seconds", type=float, default=5.0, help="processor time of the measured window, at least")
    alone = parser.add_argument_group("of a process of one side")
    alone.add_argument("--game", choices=GAMES, default="cartpole")
    alone.add_argument("--num-envs", type=int, default=1024)
    alone.add_argument("--hidden", type=int, default=64)
    alone.add_argument("--result", default="-", help="file for the JSON line, - for standard output")


def parse_peer(description: str | None) -> argparse.Namespace:
    """The command line of a peer's side. Limits the threads to one."""
    parser = argparse.ArgumentParser(description=description)
    add_side_arguments(parser)
    args = parser.parse_args()
    limit_threads(1)
    return args


class Window:
    """Measures a training loop from outside, by the steps of its environments.

    A round is a collect and its updates. The clocks start with the first step of a collect after the warm-up and stop
    with the first step of another collect. A global hook of torch counts optimizer steps.

    Args:
        side: name of the side.
        args: the options of `add_side_arguments`.

    Attributes:
        parameters: number of parameters; if a side does not set it, that of its optimizer.
    """

    def __init__(self, side: str, args: argparse.Namespace) -> None:
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        from dizoo.classic_control.torch_env import TorchVectorEnv

        self.task = BatchedTask(args.game, args.num_envs, args.hidden)
        self.side, self._args, self._steps, self._updates, self.parameters = side, args, 0, 0, 0
        self._start = 0.0  # processor time at the first step
        self._begin: tuple[float, ...] = ()  # all counts at the start of the window
        step = TorchVectorEnv.step

        def step_and_count(env: TorchVectorEnv, actions: Any) -> Any:
            if env.num_envs == self.task.num_envs:  # others check the environment, or evaluate
                self._count_step()
            return step(env, actions)

        TorchVectorEnv.step = step_and_count  # type: ignore[assignment,method-assign]
        register_optimizer_step_pre_hook(self._count_update)

    def _count_update(self, optimizer: Any, *_: Any) -> None:
        self._updates += 1
        if not self.parameters:
            self.parameters = sum(each.numel() for group in optimizer.param_groups for each in group["params"])

    def _count_step(self) -> None:
        if self._steps % STEPS == 0:
            now = time.process_time()
            if not self._steps:
                self._start = now
            elif not self._begin and now - self._start >= WARM_SECONDS:
                self._begin = self._read()
            elif self._begin and now - self._begin[0] >= self._args.seconds:
                self._finish(self._read())
        self._steps += 1

    def _read(self) -> tuple[float, ...]:
        return time.process_time(), time.perf_counter(), session_cpu(), machine_cpu(), self._steps, self._updates

    def _finish(self, now: tuple[float, ...]) -> None:
        cpu, wall, own, everyone, steps, updates = (b - a for a, b in zip(self._begin, now, strict=True))
        env_steps = steps * self.task.num_envs
        result = {
            "side": self.side,
            **vars(self.task),
            "parameters": self.parameters,
            "updates_per_round": updates / steps * STEPS,
            "rounds": steps / STEPS,
            "env_steps_per_cpu_s": env_steps / cpu,
            "env_steps_per_s": env_steps / wall,
            "window_s": wall,
            "own_cores": cpu / wall,
            "other_cores": max(0.0, everyone - own) / wall,
            "peak_rss_mb": peak_rss_mb(),
        }
        write_result(self._args.result, result)
        raise Finished
