"""PPO on thousands of environments that are one tensor, on one thread: ``python -m tests.benchmarks.batched``.

Ours, ours with `policy.compile`, a bare PyTorch loop of the same algorithm (`train_bare`), rsl_rl and skrl take turns,
each in a process of its own, on the same torch programs of CartPole and Pendulum. ``--collect`` compares the collect
alone, without learning, with the environments alone, which get random actions while the same network is called on their
observations.

README.md tells how to get the peers. Rates are env steps a second of processor time, then of wall time.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))  # also where the project is not installed

from tests.benchmarks.batched_task import (
    CLIP,
    ENTROPY_WEIGHT,
    EPOCHS,
    GAMES,
    GAMMA,
    GRAD_NORM,
    LAMBDA,
    LEARNING_RATE,
    MINIBATCHES,
    STEPS,
    VALUE_WEIGHT,
    BatchedTask,
    Window,
    add_side_arguments,
)
from tests.benchmarks.meter import Finished
from tests.benchmarks.settings import limit_threads
from tests.benchmarks.sides import PEERS, SideError, peer_python, run_side, spread

SIZES, HIDDEN = (256, 1024, 4096), (64, 256)
CPU, WALL = "env_steps_per_cpu_s", "env_steps_per_s"
OVERTIME = 10.0  # wall time of a window may be so many times its processor time
TRAINING, COLLECTING = ("ours", "compiled", "bare", "rsl_rl", "skrl"), ("collect", "play")
COLLECT_SIZES = (4096,)


def train_bare(window: Window) -> None:
    """PPO as a plain loop; it ends by the window's exception."""
    import torch
    from torch import nn

    task = window.task
    torch.manual_seed(0)
    T, N, M = STEPS, task.num_envs, STEPS * task.num_envs
    env = task.make_env()
    obs, _ = env.reset(seed=0)
    size = obs.shape[1]
    actor, critic = (make_mlp(size, task.hidden, outputs) for outputs in (2 if task.discrete else 1, 1))
    log_sigma = nn.Parameter(torch.full((1,), -0.5))
    parameters = [*actor.parameters(), *critic.parameters(), *([] if task.discrete else [log_sigma])]
    optimizer = torch.optim.Adam(parameters, LEARNING_RATE, fused=True)
    action_shape, action_dtype = ((), torch.int64) if task.discrete else ((1,), torch.float32)
    obs_TN, final_TN = torch.empty(T, N, size), torch.empty(T, N, size)
    action_TN = torch.empty(T, N, *action_shape, dtype=action_dtype)
    logp_TN, value_TN, reward_TN = (torch.empty(T, N) for _ in range(3))
    terminated_TN, ended_TN = (torch.empty(T, N, dtype=torch.bool) for _ in range(2))
    while True:
        with torch.no_grad():
            for t in range(T):
                obs_TN[t] = obs
                output, value_TN[t] = actor(obs), critic(obs)[:, 0]
                action, logp_TN[t] = draw(output, log_sigma, task.discrete)
                action_TN[t] = action
                obs, reward_TN[t], terminated_TN[t], truncated, info = env.step(action if task.discrete else 2 * action)
                ended_TN[t], final_TN[t] = terminated_TN[t] | truncated, info["final_obs"]
            next_TN = torch.cat((value_TN[1:], critic(obs).T))
            next_TN[ended_TN] = critic(final_TN[ended_TN])[:, 0]  # a truncated episode has its last observation's value
            adv_TN = estimate_advantages(reward_TN, value_TN, next_TN, terminated_TN, ended_TN)
        samples_M = [x.flatten(0, 1) for x in (obs_TN, action_TN, logp_TN, value_TN, adv_TN, adv_TN + value_TN)]
        for _ in range(EPOCHS):
            for index_B in torch.randperm(M).split(task.batch_size):
                obs_B, action_B, logp_old_B, value_old_B, adv_B, return_B = (x[index_B] for x in samples_M)
                logp_B, entropy_B = log_prob_entropy(actor(obs_B), log_sigma, action_B, task.discrete)
                adv_B = (adv_B - adv_B.mean()) / (adv_B.std() + 1e-8)
                ratio_B, value_B = (logp_B - logp_old_B).exp(), critic(obs_B)[:, 0]
                policy_loss = -torch.min(ratio_B * adv_B, ratio_B.clamp(1 - CLIP, 1 + CLIP) * adv_B).mean()
                clipped_B = value_old_B + (value_B - value_old_B).clamp(-CLIP, CLIP)
                error_B = torch.max((value_B - return_B).square(), (clipped_B - return_B).square())
                loss = policy_loss + VALUE_WEIGHT * 0.5 * error_B.mean() - ENTROPY_WEIGHT * entropy_B.mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(parameters, GRAD_NORM)
                optimizer.step()


def make_mlp(size: int, hidden: int, outputs: int) -> Any:
    from torch import nn

    layers = (nn.Linear(size, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, outputs))
    return nn.Sequential(*layers)


def draw(output: Any, log_sigma: Any, discrete: bool) -> tuple[Any, Any]:
    """Return random actions `[N]` or `[N, 1]` and their log probabilities `[N]`."""
    import torch

    if discrete:
        logp_A = output.log_softmax(-1)
        action = torch.multinomial(logp_A.exp(), 1)
        return action[:, 0], logp_A.gather(1, action)[:, 0]
    action = torch.addcmul(output, log_sigma.exp(), torch.randn_like(output))
    return action, log_prob_entropy(output, log_sigma, action, discrete)[0]


def log_prob_entropy(output: Any, log_sigma: Any, action: Any, discrete: bool) -> tuple[Any, Any]:
    """Return the log probabilities of actions and the entropies, both `[B]`."""
    if discrete:
        logp_A = output.log_softmax(-1)
        return logp_A.gather(1, action[:, None])[:, 0], -(logp_A.exp() * logp_A).sum(-1)
    scaled = (action - output) / log_sigma.exp()
    log_scale = log_sigma + 0.5 * math.log(2 * math.pi)
    return (-0.5 * scaled.square() - log_scale)[:, 0], (log_scale + 0.5).expand(len(output))


def estimate_advantages(reward_TN: Any, value_TN: Any, next_TN: Any, terminated_TN: Any, ended_TN: Any) -> Any:
    """Return generalised advantages `[T, N]`."""
    import torch

    delta_TN = reward_TN + GAMMA * next_TN * ~terminated_TN - value_TN
    decay_TN = GAMMA * LAMBDA * ~ended_TN
    adv_TN, last_N = torch.empty_like(delta_TN), torch.zeros_like(delta_TN[0])
    for t in reversed(range(STEPS)):
        last_N = adv_TN[t] = torch.addcmul(delta_TN[t], decay_TN[t], last_N)
    return adv_TN


def make_config(task: BatchedTask, compiled: bool) -> tuple[Any, Any]:
    """Our side's config, with a compiled learning step or without."""
    from easydict import EasyDict

    model = dict(
        share_encoder=False,
        encoder_hidden_size_list=[task.hidden, task.hidden],
        actor_head_layer_num=0,
        critic_head_layer_num=0,
        activation="tanh",
    )
    learn = dict(
        batch_size=task.batch_size,
        epoch_per_collect=EPOCHS,
        learning_rate=LEARNING_RATE,
        clip_ratio=CLIP,
        value_weight=VALUE_WEIGHT,
        entropy_weight=ENTROPY_WEIGHT,
        value_norm=False,
        grad_clip_type="clip_norm",
        grad_clip_value=GRAD_NORM,
    )
    main_config = EasyDict(
        exp_name="run",
        env=dict(collector_env_num=task.num_envs, evaluator_env_num=1, n_evaluator_episode=1, stop_value=None),
        policy=dict(
            cuda=False,
            compile=compiled,
            num_threads=1,
            discount_factor=GAMMA,
            recompute_adv=False,  # as the other sides
            model=model,
            learn=learn,
            collect=dict(n_sample=task.num_envs * STEPS, gae_lambda=LAMBDA),
            eval=dict(evaluator=dict(eval_freq=10**9)),
        ),
    )
    create_config = EasyDict(
        env=dict(type=task.game, import_names=[f"dizoo.classic_control.{task.game}.envs.{task.game}_env"]),
        env_manager=dict(type="batched"),
        policy=dict(type="ppo"),
    )
    return main_config, create_config


def run_ours(window: Window, start: Callable[[Any], None]) -> None:
    """Our pipeline, which calls `start` with the run when all its parts are built."""
    from ding_lite.entry import Callback, serial_pipeline_onpolicy

    class Started(Callback):
        def on_start(self, run: Any) -> None:
            start(run)

    config = make_config(window.task, compiled=window.side == "compiled")
    serial_pipeline_onpolicy(config, seed=0, max_env_step=10**12, callbacks=[Started()])


def train_ours(window: Window) -> None:
    """Our pipeline; it ends by the window's exception."""
    from tests.benchmarks.networks import count_parameters

    def count(run: Any) -> None:
        window.parameters = count_parameters(run.policy.model)  # the optimizer's are padded

    run_ours(window, count)


def collect_only(window: Window) -> None:
    """Our collector, without learning."""

    def collect(run: Any) -> None:
        while True:
            run.collector.collect()

    run_ours(window, collect)


def play_only(window: Window) -> None:
    """The environments alone with random actions, and our network called on their observations."""
    import torch

    @torch.inference_mode()
    def play(run: Any) -> None:
        env = window.task.make_env()
        actions = [torch.as_tensor(env.action_space.sample()) for _ in range(STEPS)]
        obs, _ = env.reset(seed=0)
        while True:
            for action in actions:
                run.policy.model(obs)
                obs, *_ = env.step(action)

    run_ours(window, play)


SIDES: dict[str, Callable[[Window], None]] = {
    "ours": train_ours,
    "compiled": train_ours,
    "bare": train_bare,
    "collect": collect_only,
    "play": play_only,
}


def run_task(task: BatchedTask, sides: Sequence[str], args: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    """All sides in turn, `args.rounds` times."""
    results: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
    for _ in range(args.rounds):
        for side in sides:
            words = [*task.arguments(), "--seconds", str(args.seconds)]
            if side in PEERS:
                result = run_side(side, words, args.seconds * OVERTIME)
            else:
                result = run_side("batched", ["--side", side, *words], args.seconds * OVERTIME)
            if side in TRAINING:
                check_alike(result, task)
            results[side].append(result)
    return results


def check_alike(result: dict[str, Any], task: BatchedTask) -> None:
    """Refuse a figure that is not of the task as it was set."""
    parameters = task.parameters(discrete=task.discrete and result["side"] != "rsl_rl")
    if result["parameters"] != parameters:
        raise SideError(f"{result['side']}: networks of {result['parameters']} parameters, not {parameters}.")
    if result["updates_per_round"] != EPOCHS * MINIBATCHES:
        raise SideError(f"{result['side']}: {result['updates_per_round']} updates a round, not {EPOCHS * MINIBATCHES}.")


def summarise(task: BatchedTask, results: dict[str, list[dict[str, Any]]], sides: Sequence[str]) -> str:
    """One line of the table; a side that did not run has dashes."""
    cells = [f"{task.game} N={task.num_envs} {task.hidden}, {task.hidden}"]
    for side in sides:
        rates = {key: [result[key] for result in results.get(side, [])] for key in (CPU, WALL)}
        cells.append(" / ".join(f"{statistics.median(values):,.0f}" for values in rates.values() if values) or "-")
    first, *others = sides
    for side in others:
        pairs = zip(results[first], results.get(side, []), strict=False)
        ratios = [a[CPU] / b[CPU] for a, b in pairs]
        cells.append(spread(ratios) if ratios else "-")
    cells.append(f"{max(result['other_cores'] for side in results.values() for result in side):.1f}")
    return f"| {' | '.join(cells)} |"


def parse() -> argparse.Namespace:
    """The driver's command line, and that of our sides' processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_side_arguments(parser)
    parser.add_argument("--side", choices=SIDES, help="be a process of this side instead of the driver")
    parser.add_argument("--collect", action="store_true", help="the collect alone, N = 4096")
    parser.add_argument("--games", nargs="+", choices=GAMES, default=GAMES)
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, help="numbers of environments")
    parser.add_argument("--layers", nargs="+", type=int, default=HIDDEN, help="sizes of the networks' hidden layers")
    parser.add_argument("--sides", nargs="+", choices=TRAINING, default=TRAINING)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, help="file for all figures, JSON")
    return parser.parse_args()


def main() -> None:
    """Print the table; or be one of our sides."""
    args = parse()
    limit_threads(1)
    if args.side:
        window = Window(args.side, args)
        with suppress(Finished):
            SIDES[args.side](window)
        return
    sides = COLLECTING if args.collect else args.sides
    missing = [side for side in sides if side in PEERS and peer_python(side) is None]
    for side in missing:
        print(f"{side}: skipped, {PEERS[side]} is not set (see tests/benchmarks/README.md).")
    sizes = COLLECT_SIZES if args.collect else args.sizes
    record = []
    print(f"\n| task | {' | '.join((*sides, *(f'{sides[0]} / {side}' for side in sides[1:])))} | others |")
    print("|---" * (2 * len(sides) + 1) + "|")
    for game, hidden, num_envs in product(args.games, args.layers, sizes):
        task = BatchedTask(game, num_envs, hidden)
        results = run_task(task, [side for side in sides if side not in missing], args)
        record += [result for results_of_side in results.values() for result in results_of_side]
        print(summarise(task, results, sides), flush=True)
    if args.output:
        args.output.write_text(json.dumps(record, indent=1) + "\n")
    print(
        "\nEnv steps a second of processor time / of wall time, medians; ratio of the former per turn: median (range);"
    )
    print("others: cores that other processes kept busy, at worst.")


if __name__ == "__main__":
    main()
