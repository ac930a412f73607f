"""What MAPPO and QMIX learn beside DI-engine, and how fast: ``python -m tests.benchmarks.agents_peer``.

Both sides train on a game of mpe2 with the settings below, in turns, seed by seed, with one thread. After equal numbers
of learner iterations, and at the end, the newest policy plays 960 games without exploration, whose CPU seconds are not
counted. Both sides take the limit of 25 steps as the end of a game, as DI-engine does, and show an agent its number.
The driver runs this file with the interpreter of each side; both need ``mpe2``.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[2]))  # for the peer's interpreter

from tests.benchmarks.settings import limit_threads


class Game(NamedTuple):
    """How many agents a game has, what an agent sees at most without its number, and the numbers of their actions."""

    agents: int
    seen: int
    state: int
    actions: tuple[int, ...]


GAMES = {
    "simple_spread_v3": Game(3, 18, 54, (5, 5, 5)),
    "simple_speaker_listener_v4": Game(2, 11, 14, (3, 5)),  # the speaker sees 3 numbers
}
LIMIT = 25  # steps of a game
ENV: dict[str, Any] = dict(collector_env_num=8, evaluator_env_num=8, n_evaluator_episode=960, stop_value=1e9)
STEPS = {"mappo": 64_000, "qmix": 16_000}
EVALUATED = {"mappo": 320, "qmix": 640}  # learner iterations between two evaluations of so many steps
COLLECT = {"mappo": 3200, "qmix": 400}  # environment steps between updates, whole games of eight environments
HIDDEN = [64, 64]
MAPPO: dict[str, Any] = dict(
    epoch_per_collect=10,
    learning_rate=7e-4,
    entropy_weight=0.01,
    value_weight=0.5,
    clip_ratio=0.2,
    adv_norm=True,
    value_norm=True,
    grad_clip_type="clip_norm",
    grad_clip_value=0.5,
)
QMIX: dict[str, Any] = dict(update_per_collect=20, batch_size=16, learning_rate=5e-4, double_q=True)
THETA, GAMMA = 0.008, 0.9
OTHER: dict[str, Any] = dict(
    eps=dict(type="exp", start=1.0, end=0.05, decay=20_000), replay_buffer=dict(replay_buffer_size=2000)
)


class Finished(BaseException):
    """Raised through a pipeline of DI-engine after its environment steps."""


class Watch:
    """Keeps the mean returns of evaluations, and the CPU seconds without them."""

    def __init__(self) -> None:
        self.curve: list[tuple[int, float]] = []
        self.env_step, self._began = 0, time.process_time()

    def evaluate(self, evaluation: Callable[[], Any], read: Callable[[dict[str, Any]], Any]) -> Any:
        """Return what an evaluation returns, of which `read` gives the returns."""
        began = time.process_time()
        output = evaluation()
        self.curve.append((self.env_step, statistics.fmean(map(float, read(output[1])))))
        self._began += time.process_time() - began
        return output

    @property
    def seconds(self) -> float:
        """CPU seconds of training so far."""
        return time.process_time() - self._began


def train_ours(game: str, algorithm: str, seed: int, steps: int) -> Watch:
    """Train with this library."""
    from ding_lite.entry import serial_pipeline, serial_pipeline_onpolicy
    from ding_lite.utils import ENV_REGISTRY
    from ding_lite.worker import Evaluator, SampleCollector
    from dizoo.pettingzoo.envs.pettingzoo_env import PettingZooEnv

    @ENV_REGISTRY.register("ending")
    class Ending(PettingZooEnv):
        """Its limit of steps is an end."""

        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            obs, reward, terminated, truncated, info = super().step(action)
            return obs, reward, terminated or truncated, False, info

    model: dict[str, Any] = dict(encoder_hidden_size_list=HIDDEN)
    if algorithm == "mappo":
        model |= dict(actor_head_layer_num=0, critic_head_layer_num=0)
        learn, collect = MAPPO | dict(batch_size=800 * GAMES[game].agents), dict(n_sample=COLLECT[algorithm])
        policy: dict[str, Any] = dict(learn=learn, collect=collect)
    else:
        learn, collect = QMIX | dict(target_theta=THETA), dict(n_sample=COLLECT[algorithm] // LIMIT)
        policy = dict(learn=learn, collect=collect, other=OTHER, unroll_len=LIMIT)
    common = dict(
        discount_factor=GAMMA, num_threads=1, eval=dict(evaluator=dict(eval_freq=eval_freq(algorithm, steps)))
    )
    env = ENV | dict(env_id=f"mpe2/{game}", kwargs=dict(max_cycles=LIMIT))
    main = dict(exp_name="run", env=env, policy=policy | common | dict(model=model))
    create = dict(env=dict(type="ending"), env_manager=dict(type="base"), policy=dict(type=algorithm))
    watch, collect_samples, evaluate = Watch(), SampleCollector.collect, Evaluator.eval

    def collect_and_tell(self: Any, *rest: Any, **words: Any) -> Any:
        output = collect_samples(self, *rest, **words)
        watch.env_step = self.envstep
        return output

    def evaluate_and_tell(self: Any, *rest: Any) -> Any:
        return watch.evaluate(lambda: evaluate(self, *rest), lambda info: info["returns"])

    SampleCollector.collect, Evaluator.eval = collect_and_tell, evaluate_and_tell  # type: ignore[assignment, method-assign]
    pipeline = serial_pipeline_onpolicy if algorithm == "mappo" else serial_pipeline
    pipeline((main, create), seed=seed, max_env_step=steps)
    return watch


def register_game(name: str) -> None:
    """Register a game for DI-engine: `agent_state` `[M, seen + M]`, `global_state` `[M, state]` or `[state]`."""
    import gym
    import numpy as np
    from ding.envs import BaseEnv, BaseEnvTimestep
    from ding.utils import ENV_REGISTRY

    game, module = GAMES[name], importlib.import_module(f"mpe2.{name}")
    agents, most = game.agents, max(game.actions)

    def box(*shape: int) -> Any:
        return gym.spaces.Box(-np.inf, np.inf, shape, np.float32)

    @ENV_REGISTRY.register("game")
    class PeerGame(BaseEnv):  # type: ignore[misc]  # of a package that is not installed here
        """The game behind DI-engine's interface."""

        action_space, reward_space = gym.spaces.Discrete(most), box(1)
        observation_space = gym.spaces.Dict(agent_state=box(agents, game.seen + agents), action_mask=box(agents, most))

        def __init__(self, cfg: Any) -> None:
            self._game, self._seed = module.parallel_env(max_cycles=LIMIT), 0
            self._shape = (agents, game.state) if cfg.state_of_each else (game.state,)
            self._mask = np.array([[action < n for action in range(most)] for n in game.actions], np.float32)

        def seed(self, seed: int, dynamic_seed: bool = True) -> None:
            self._seed = 1000 * seed

        def reset(self) -> Any:
            self._seed, self._return = self._seed + 1, 0.0
            return self._seen(self._game.reset(seed=self._seed)[0])

        def step(self, action: Any) -> Any:
            chosen = np.asarray(action).flatten().tolist()
            # DI-engine plays an action that is masked now and then.
            allowed = (each if each < n else 0 for each, n in zip(chosen, game.actions, strict=True))
            seen, rewards, *_ = self._game.step(dict(zip(self._game.agents, allowed, strict=True)))
            reward, over = float(sum(rewards.values())), not self._game.agents
            self._return += reward
            info = {"eval_episode_return": self._return} if over else {}
            return BaseEnvTimestep(self._seen(seen), np.array([reward], np.float32), over, info)

        def _seen(self, seen: dict[str, Any]) -> dict[str, Any]:
            rows = np.stack([np.pad(row, (0, game.seen - len(row))) for row in seen.values()]).astype(np.float32)
            state = np.concatenate([*seen.values()]).astype(np.float32)
            numbered = np.concatenate([rows, np.eye(agents, dtype=np.float32)], 1)
            state = np.array(np.broadcast_to(state, self._shape))
            return dict(agent_state=numbered, global_state=state, action_mask=self._mask.copy())

        def close(self) -> None:
            self._game.close()

        def __repr__(self) -> str:
            return name


def train_di_engine(game: str, algorithm: str, seed: int, steps: int) -> Watch:
    """Train with DI-engine 0.5.3."""
    import numpy as np

    if not hasattr(np, "bool8"):  # gym 0.25 still asks for it
        np.bool8 = np.bool_  # type: ignore[attr-defined]
    from ding.entry import serial_pipeline, serial_pipeline_onpolicy
    from ding.worker import InteractionSerialEvaluator, SampleSerialCollector
    from easydict import EasyDict

    register_game(game)
    agents, seen, state, actions = GAMES[game]
    model: dict[str, Any] = dict(agent_num=agents, global_obs_shape=state, action_shape=max(actions))
    create: dict[str, Any] = dict(env=dict(type="game", import_names=[]), env_manager=dict(type="base"))
    if algorithm == "mappo":
        heads = {
            f"{name}_head_{key}": n
            for name in ("actor", "critic")
            for key, n in (("hidden_size", HIDDEN[0]), ("layer_num", 1))
        }
        model |= dict(agent_obs_shape=seen + agents, action_space="discrete", **heads)
        create["policy"], policy = (
            dict(type="ppo"),
            dict(multi_agent=True, action_space="discrete", learn=MAPPO | dict(batch_size=800)),
        )
        collect = dict(n_sample=COLLECT[algorithm], unroll_len=1, discount_factor=GAMMA)
    else:
        model |= dict(obs_shape=seen + agents, hidden_size_list=HIDDEN)
        create["policy"], policy = (
            dict(type="qmix"),
            dict(learn=QMIX | dict(target_update_theta=THETA, discount_factor=GAMMA), other=OTHER),
        )
        create["replay_buffer"] = dict(type="deque", import_names=["ding.data.buffer.deque_buffer_wrapper"])
        collect = dict(n_sample=COLLECT[algorithm] // LIMIT, unroll_len=LIMIT)
    num = dict(env_num=ENV["collector_env_num"])
    policy |= dict(cuda=False, model=model, collect=collect | num)
    policy["eval"] = num | dict(evaluator=dict(eval_freq=eval_freq(algorithm, steps)))
    main = dict(exp_name="run", env=ENV | dict(state_of_each=algorithm == "mappo"), policy=policy)
    watch, collect_samples, evaluate = Watch(), SampleSerialCollector.collect, InteractionSerialEvaluator.eval
    last: list[Any] = []

    def collect_and_tell(self: Any, *rest: Any, **words: Any) -> Any:
        if self.envstep >= steps:
            last[-1].eval()
            raise Finished
        output = collect_samples(self, *rest, **words)
        watch.env_step = self.envstep
        return output

    def evaluate_and_tell(self: Any, *rest: Any, **words: Any) -> Any:
        last.append(self)
        return watch.evaluate(lambda: evaluate(self, *rest, **words), lambda info: info["eval_episode_return"])

    SampleSerialCollector.collect, InteractionSerialEvaluator.eval = collect_and_tell, evaluate_and_tell
    pipeline = serial_pipeline_onpolicy if algorithm == "mappo" else serial_pipeline
    with suppress(Finished):
        pipeline((EasyDict(main), EasyDict(create)), seed=seed)
    return watch


SIDES = {"ours": train_ours, "di_engine": train_di_engine}


def eval_freq(algorithm: str, steps: int) -> int:
    """Return the learner iterations between two evaluations, which are as many for any number of steps."""
    return EVALUATED[algorithm] * max(1, round(steps / STEPS[algorithm]))


def run_side(side: str, game: str, algorithm: str, seed: int, steps: int) -> dict[str, Any]:
    """Run one side in a process of its own, in an empty directory.

    Raises:
        RuntimeError: it failed; the message is what it printed.
    """
    from tests.benchmarks.sides import peer_python
    from tests.distributed.launcher import finish, start

    python = sys.executable if side == "ours" else peer_python(side)
    env = {"OMP_NUM_THREADS": "1"} | ({} if side == "ours" else {"PYTHONPATH": ""})
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "result.json")
        words = ["--side", side, "--game", game, "--algorithm", algorithm, "--seed", str(seed), "--steps", str(steps)]
        words = [str(python), str(Path(__file__).resolve()), *words, "--result", str(result)]
        done = finish(start(words, env=env, cwd=folder), 4 * 3600)
        if done.returncode:
            raise RuntimeError(f"{side}, {algorithm}, seed {seed}: {done.stderr[-2000:]}")
        return json.loads(result.read_text())


def main() -> None:
    """Print the table, or be one side of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algorithms", nargs="*", default=[*STEPS], help=f"of {', '.join(STEPS)}; all by default")
    parser.add_argument("--game", choices=GAMES, default="simple_spread_v3")
    parser.add_argument("--seeds", type=int, nargs="+", default=[*range(3)])
    parser.add_argument("--steps", type=int, help="environment steps, instead of each algorithm's own")
    parser.add_argument("--output", type=Path, help="file for the curves, in the form of docs/results/*.csv")
    for word in ("--side", "--algorithm", "--result"):
        parser.add_argument(word, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        limit_threads(1)
        watch = SIDES[args.side](args.game, args.algorithm, args.seed, args.steps)
        Path(args.result).write_text(json.dumps({"seconds": watch.seconds, "curve": watch.curve}))
        return
    from tests.benchmarks.sides import PEERS, peer_python

    if peer_python("di_engine") is None:
        raise SystemExit(f"{PEERS['di_engine']} is not set (see tests/benchmarks/README.md).")
    print("Mean return of the last policy over 960 games, and env steps a CPU second, a figure for each seed.\n")
    print(
        f"{args.game}:\n\n| algorithm | thousand env steps | side | return | mean | env steps a CPU second |\n"
        + 6 * "|---"
        + "|"
    )
    for algorithm in args.algorithms:
        runs: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
        for seed in args.seeds:
            for side in SIDES:
                runs[side].append(run_side(side, args.game, algorithm, seed, args.steps or STEPS[algorithm]))
                if args.output:
                    write_curve(args.output, args.game, algorithm, side, seed, runs[side][-1])
        for side, results in runs.items():
            ends = [result["curve"][-1] for result in results]
            rates = [step / result["seconds"] for (step, _), result in zip(ends, results, strict=True)]
            each, mean = ", ".join(f"{value:.1f}" for _, value in ends), statistics.fmean(value for _, value in ends)
            steps = ends[0][0] / 1000
            print(
                f"| {algorithm} | {steps:g} | {side} | {each} | {mean:.1f} | {', '.join(f'{x:.0f}' for x in rates)} |",
                flush=True,
            )


def write_curve(path: Path, game: str, algorithm: str, side: str, seed: int, result: dict[str, Any]) -> None:
    """Append the curve of a run to a file."""
    with path.open("a", newline="") as file:
        name = algorithm if side == "ours" else f"{algorithm}, DI-engine"
        for env_step, value in result["curve"]:
            csv.writer(file).writerow((game, name, seed, env_step, f"{value:.6g}", ""))


if __name__ == "__main__":
    main()
