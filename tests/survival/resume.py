"""Kills training runs, lets them go on, and compares them with the same runs that nobody stopped.

    python -m tests.survival.resume --number 30 --seed 0

An item is one of CASES, in turn; its run is killed by SIGKILL at random iterations after its first checkpoint. What is
left at its end has to be what the run that was never stopped left, bit for bit: the global state, each rank's part
(replay buffer, environments, random states), the best state, metrics, TensorBoard's points and result.json.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.distributed.launcher import Forked, finish, kill_rest, start_forked
from tests.survival.common import (
    CONFIGS,
    checkpoints,
    compare_runs,
    ding_lite,
    kill_rank,
    logged_iter,
    read_json,
    wait_until,
)

TIMEOUT = 240  # seconds for one run
COMMON = [
    "env.stop_value=None", "policy.cuda=False", "policy.multi_gpu=True", "policy.learn.learner.hook.keep_ckpt=2",
]  # fmt: skip
DQN = ["policy.priority=True", "policy.priority_IS_weight=True", "policy.nstep=3"]
PPO = ["policy.learn.value_norm=True"]
CARTPOLE = ["env.evaluator_env_num=3", "env.n_evaluator_episode=3", "policy.learn.learner.hook.log_show_after_iter=7"]
PONG = [
    "env.collector_env_num=2", "env.evaluator_env_num=1", "env.n_evaluator_episode=1", "env.max_episode_steps=40",
    "policy.model.encoder_hidden_size_list=[4, 4, 4, 16]", "policy.learn.learner.hook.log_show_after_iter=3",
]  # fmt: skip
SAVE = "policy.learn.learner.hook.save_ckpt_after_iter"
WORDS = {
    "cartpole dqn": [
        *DQN, *CARTPOLE, "policy.random_collect_size=64", "policy.eval.evaluator.eval_freq=60", f"{SAVE}=50",
    ],
    "cartpole ppo": [
        *PPO, *CARTPOLE, "policy.collect.n_sample=64", "policy.learn.batch_size=32", f"{SAVE}=50",
        "policy.eval.evaluator.eval_freq=60",
    ],
    "cartpole ppg": [
        *PPO, *CARTPOLE, "policy.collect.n_sample=64", "policy.learn.batch_size=32", f"{SAVE}=50",
        "policy.learn.epoch_per_collect=2", "policy.learn.aux_freq=3", "policy.eval.evaluator.eval_freq=60",
    ],
    "masked taxi dqn": [
        *DQN, *CARTPOLE, "env.wrappers=['ding_lite.envs.masks:ActionMask']", "env.max_episode_steps=40",
        "policy.random_collect_size=64", "policy.eval.evaluator.eval_freq=60", f"{SAVE}=50",
    ],
    "pong dqn": [
        *DQN, *PONG, "policy.random_collect_size=16", "policy.collect.n_sample=8", "policy.learn.batch_size=8",
        "policy.learn.update_per_collect=2", "policy.eval.evaluator.eval_freq=22", f"{SAVE}=20",
    ],
    "pong ppo": [
        *PPO, *PONG, "policy.collect.n_sample=32", "policy.learn.batch_size=16", "policy.eval.evaluator.eval_freq=22",
        f"{SAVE}=20",
    ],
}  # fmt: skip
# env steps of a rank
STEPS = {
    "cartpole dqn": 2400,
    "cartpole ppo": 4096,
    "cartpole ppg": 4096,
    "masked taxi dqn": 600,
    "pong dqn": 400,
    "pong ppo": 800,
}


class Case(NamedTuple):
    """A run and how it is killed, and goes on, one after the other.

    "job": all its processes; "rank R": one, and the launcher ends the others; "restart R": one, and `--max-restarts`
    starts all of them again; "longer": all, and its limit is greater from then on.
    """

    what: str
    manager: str
    ranks: int
    kills: tuple[str, ...]


ONE_RANK, TWO_RANKS = (
    (("job",), ("job", "job"), ("longer",), ("restart 0",)),
    (("job",), ("rank 0",), ("rank 1", "job"), ("longer",), ("restart 1",)),
)
RUNS = [(f"cartpole {kind}", manager) for kind in ("dqn", "ppo", "ppg") for manager in ("base", "subprocess")]
RUNS += [("masked taxi dqn", "subprocess"), ("pong dqn", "native"), ("pong ppo", "native")]
CASES = [
    Case(what, manager, ranks, kills)
    for ranks, ways in ((1, ONE_RANK), (2, TWO_RANKS))
    for what, manager in RUNS
    for kills in ways
]


def command(case: Case, name: str, *words: str, launcher: bool = False, steps: int = 0) -> list[str]:
    """Return the command that trains into the folder `name`, on our own launcher if asked to, else on torch's."""
    mode = "serial" if case.what.endswith("dqn") else "serial_onpolicy"
    arguments = ["-m", mode, "-c", str(CONFIGS[case.what]), "-s", "3", *COMMON, *WORDS[case.what], f"exp_name={name}"]
    arguments += [f"env.manager.type={case.manager}", f"max_env_step={steps or STEPS[case.what] * case.ranks}", *words]
    if launcher:
        return ding_lite("--nproc", str(case.ranks), "--max-restarts", "1", *arguments)
    return ding_lite(*arguments, ranks=case.ranks)


def begin(words: list[str], cwd: Path) -> Forked:
    """Start a command that runs Python."""
    assert words[0] == sys.executable
    return start_forked(words[1:], cwd=cwd)


def run(words: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    done = finish(begin(words, cwd), TIMEOUT)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def reference(case: Case, cwd: Path) -> Path:
    """Return the folder of the run that is never stopped."""
    name = f"{case.what}-{case.manager}-{case.ranks}".replace(" ", "-")
    if not (cwd / name).exists():
        run(command(case, name), cwd)
    return cwd / name


def resume_command(case: Case, name: str, kill: str) -> list[str]:
    """Return one of the ways to go on: `resume`, in our launcher, torch's or none, or the command of before."""
    if kill == "longer":
        return ding_lite("resume", name, f"max_env_step={STEPS[case.what] * case.ranks}", ranks=case.ranks)
    if case.ranks > 1 and kill.startswith("rank"):
        return ding_lite("resume", name, "--nproc", str(case.ranks))
    if case.ranks > 1:
        return command(case, name, "policy.learn.resume_training=True")
    return ding_lite("resume", name)


def kill_and_go_on(case: Case, cwd: Path, name: str, rng: random.Random) -> str:
    """Train, killing and resuming as the case says; compare with the reference; return what was done, in a line."""
    whole, folder, kills = reference(case, cwd), cwd / name, []
    last = read_json(whole / "result.json")["train_iter"]
    restarts = case.kills[0].startswith("restart")
    steps = (STEPS[case.what] * case.ranks * 4) // 5 if "longer" in case.kills else 0
    process = begin(command(case, name, launcher=restarts, steps=steps), cwd)
    try:
        moment = 0
        for count, kill in enumerate(case.kills, start=1):
            low = max(moment, checkpoints(folder)[-1][1]) if moment else 0
            moment = rng.randint(low + 1, max(low + 1, last * 6 * count // (10 * len(case.kills))))
            wait_until(partial(reached, folder, moment), process)
            kill_at_once(process, kill)
            if not restarts:
                ended = finish(process, 60)
                assert ended.returncode == (-9 if kill in ("job", "longer") else 1), ended.stderr[-3000:]
                assert not (folder / "result.json").exists(), "ended before it was killed"
                newest, train_iter = checkpoints(folder)[-1]
                kills.append(f"{kill} killed at iteration {logged_iter(folder)}, resumed from {train_iter}")
                process = begin(resume_command(case, name, kill), cwd)
        ended = finish(process, TIMEOUT)
    finally:
        kill_rest(process)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert "WARNING" not in ended.stderr, ended.stderr
    resumed = f"resumed from {newest}: " if not restarts else "resumed from iteration_"
    assert resumed in ended.stderr, ended.stderr
    compare_runs(whole, folder, restarts=len(case.kills))
    return ", ".join(kills) or f"{case.kills[0]} at iteration {moment}"


def reached(folder: Path, moment: int) -> bool:
    """Return whether there is a checkpoint, and the run has logged this iteration."""
    return bool(checkpoints(folder)) and logged_iter(folder) >= moment


def kill_at_once(process: Forked, kill: str) -> None:
    how, _, rank = kill.partition(" ")
    if how in ("rank", "restart"):
        kill_rank(process, int(rank))
    else:
        kill_rest(process)


def kill_in_prefill(cwd: Path, name: str, ranks: int, rng: random.Random) -> str:
    """Kill runs before their first checkpoint: resumed or restarted, they begin again in their directories."""
    case = Case("cartpole dqn", "base", ranks, ("restart 0",))
    prefill, steps = 12_000, 12_400 * ranks  # env steps of each rank, of all ranks

    def train(way: str, launcher: bool = False) -> list[str]:
        words = f"policy.random_collect_size={prefill}"
        return command(case, f"{name}-{way}", words, launcher=launcher, steps=steps)

    def start_and_wait(way: str, launcher: bool = False) -> Forked:
        process = begin(train(way, launcher), cwd)
        wait_until((cwd / f"{name}-{way}" / "total_config.py").exists, process)
        time.sleep(rng.uniform(0.05, 0.3))
        return process

    process = start_and_wait("cut")
    kill_rest(process)
    finish(process, 60)
    assert not checkpoints(cwd / f"{name}-cut"), "the first checkpoint was there before the kill"
    resumed = finish(begin(ding_lite("resume", f"{name}-cut", ranks=ranks), cwd), TIMEOUT)

    process = start_and_wait("again", launcher=True)
    kill_rank(process, rng.randrange(ranks))
    restarted = finish(process, TIMEOUT)
    run(train("whole"), cwd)
    for way, done in (("cut", resumed), ("again", restarted)):
        assert done.returncode == 0, done.stderr[-3000:]
        assert "WARNING Restarted before the first checkpoint was written: the run starts" in done.stderr
        compare_runs(cwd / f"{name}-whole", cwd / f"{name}-{way}", restarts=1)
    return "begun again"


def main() -> None:
    """Run the items, one line each."""
    parser = argparse.ArgumentParser(description="Kill runs, resume them, compare them with runs that nobody stopped.")
    parser.add_argument("--number", type=int, default=len(CASES) + 2, help="how many items")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the first item's number")
    args = parser.parse_args()
    failures = 0
    with tempfile.TemporaryDirectory() as directory:
        for item in range(args.first, args.first + args.number):
            kind, rng, begin = item % (len(CASES) + 2), random.Random(f"{args.seed} {item}"), time.monotonic()
            try:
                if kind < len(CASES):
                    case, title = CASES[kind], "{}, {}, {} rank(s), {}".format(*CASES[kind])
                    outcome = kill_and_go_on(case, Path(directory), f"item-{item}", rng)
                else:
                    title = f"before the first checkpoint, {kind - len(CASES) + 1} rank(s)"
                    outcome = kill_in_prefill(Path(directory), f"item-{item}", kind - len(CASES) + 1, rng)
            except (AssertionError, subprocess.TimeoutExpired) as error:
                failures += 1
                outcome = f"FAILED {error}"
            print(f"{item:4} {time.monotonic() - begin:5.1f} s  {title}: {outcome}", flush=True)
    print(f"{args.number} items: {failures} failed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
