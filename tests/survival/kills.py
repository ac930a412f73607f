"""Kills a training run again and again while it saves; each time its newest state is there and of the last interval.

    python -m tests.survival.kills --number 200 --seed 0

One DQN run spends half of its time saving. After each kill -9 the newest state is read, from a copy of the directory,
and `ding_lite resume` goes on with what the kill really left. At last the run is let to its end and compared with one
that nobody killed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import dizoo.classic_control.cartpole.envs.cartpole_env  # noqa: F401 (what the run imports)
from ding_lite.cli.main import main as ding_lite_main
from ding_lite.utils.checkpoint.store import CheckpointStore, load_file
from tests.distributed.launcher import MARK, clean_environment
from tests.survival.common import CONFIGS, checkpoints, compare_runs, logged_iter, read_json

INTERVAL = 5  # learner iterations from save to save
TIMEOUT = 300.0  # seconds for one thing to happen, on a busy machine
WORDS = [
    "-m", "serial", "-c", str(CONFIGS["cartpole dqn"]), "-s", "3", "env.stop_value=None", "env.evaluator_env_num=1",
    "env.n_evaluator_episode=1", "policy.eval.evaluator.eval_freq=100", "policy.priority=True", "policy.nstep=3",
    "policy.random_collect_size=40000", "policy.learn.learner.hook.log_show_after_iter=1",
    f"policy.learn.learner.hook.save_ckpt_after_iter={INTERVAL}", "policy.learn.learner.hook.keep_ckpt=2",
]  # fmt: skip


def serve() -> None:
    """Run `ding_lite` with the words of each line of stdin, in processes that need not import everything again."""
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                with open("said.txt", "wb") as said:
                    os.dup2(said.fileno(), 1)
                    os.dup2(said.fileno(), 2)
                ding_lite_main(json.loads(line))
                status = 0
            except SystemExit as end:
                status = end.code if isinstance(end.code, int) else 1
            finally:
                os._exit(status)
        os.write(1, b"%d\n" % pid)
        os.write(1, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


class KilledRun:
    """One run in the folder `run` below `cwd`, which goes on after every kill."""

    def __init__(self, cwd: Path, rng: random.Random) -> None:
        self._cwd, self._rng, self._folder = cwd, rng, cwd / "run"
        command = [sys.executable, "-c", "from tests.survival.kills import serve; serve()"]
        pipe, env = subprocess.PIPE, clean_environment({MARK: "kills"})
        self._server = subprocess.Popen(command, cwd=cwd, env=env, stdin=pipe, stdout=pipe, text=True)
        self._pid = 0  # of the process that trains, if there is one
        self._newest = 0  # iteration of the newest checkpoint that was seen
        self.figures: Counter[str] = Counter()

    def close(self) -> None:
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
        self._server.communicate()

    def begin(self) -> None:
        """Train until the first checkpoint; then the first kill."""
        pid = self._start([*WORDS, "exp_name=run"])
        self._wait(lambda: bool(checkpoints(self._folder)))
        self._kill(pid)
        self.check()

    def go_on_and_kill(self) -> None:
        """Resume, and kill at a random moment, mostly within a save.

        Raises:
            AssertionError: The newest state cannot be loaded, or is too old.
        """
        pid = self._start(["resume", "run"])
        if self._rng.random() < 1 / 4:
            time.sleep(self._rng.uniform(0, 1))
        else:
            for _ in range(self._rng.randint(1, 4)):
                self._wait(partial(self._is_newer, checkpoints(self._folder)[-1][1]))
                self._wait(partial(writes, pid, self._folder / "ckpt"))
            time.sleep(self._rng.uniform(0, 0.008))
        self._newest = checkpoints(self._folder)[-1][1]
        self.figures["kills while a checkpoint was open"] += writes(pid, self._folder / "ckpt")
        self._kill(pid)
        self.check()

    def check(self) -> None:
        """See that the newest state can be read, is not older than one that was seen, and of the last interval."""
        files = {path.name for path in (self._folder / "ckpt").iterdir()}
        listed = {name for name, _ in checkpoints(self._folder)}
        left = {name for name in files if name.startswith("iteration_") and name.split(".")[0] not in listed}
        self.figures["kills that left files of no checkpoint"] += bool(left or any(".tmp" in name for name in files))
        with tempfile.TemporaryDirectory(dir=self._cwd) as copy:
            for name in files:  # reading cleans up, and the run is to find what the kill left
                os.link(self._folder / "ckpt" / name, Path(copy, name))
            loaded = CheckpointStore(copy, keep=2).load_newest()
        train_iter, logged = loaded.state["learner"]["train_iter"], logged_iter(self._folder)
        assert loaded.skipped == []
        assert loaded.local_state is not None
        assert loaded.local_state["replay"]["ring"]["size"] > 0
        assert train_iter >= self._newest, f"iteration {train_iter} is loaded, {self._newest} was committed"
        assert 0 <= logged - train_iter <= INTERVAL, f"iteration {train_iter} is loaded, {logged} was logged"
        for name in {"ckpt_last.pth.tar", "ckpt_best.pth.tar"} & files:
            assert load_file(str(self._folder / "ckpt" / name)).state["learner"]["train_iter"] <= train_iter
        self._newest = train_iter
        self.figures["states loaded"] += 1
        self.figures["oldest, in iterations behind the last"] = max(
            self.figures["oldest, in iterations behind the last"], logged - train_iter
        )
        self.figures["iterations"] = train_iter

    def end(self) -> None:
        """Let the run end, and compare it with one that was never killed."""
        limit = f"max_train_iter={self._newest + 20}"
        for words in (["resume", "run", limit], [*WORDS, "exp_name=whole", limit]):
            self._start(words)
            status, self._pid = self._answer(), 0
            assert status == 0, (self._cwd / "said.txt").read_text()[-2000:]
        assert read_json(self._folder / "result.json")["train_iter"] == self._newest + 20
        compare_runs(self._cwd / "whole", self._folder)

    def _is_newer(self, train_iter: int) -> bool:
        return checkpoints(self._folder)[-1][1] > train_iter

    def _start(self, words: list[str]) -> int:
        assert self._server.stdin is not None
        print(json.dumps(words), file=self._server.stdin, flush=True)
        self._pid = self._answer()
        return self._pid

    def _answer(self) -> int:
        assert self._server.stdout is not None
        return int(self._server.stdout.readline())

    def _kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        status, self._pid = self._answer(), 0
        assert status == -signal.SIGKILL, (status, (self._cwd / "said.txt").read_text()[-2000:])

    def _wait(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + TIMEOUT
        while not condition():
            assert time.monotonic() < end, (self._cwd / "said.txt").read_text()[-2000:]
            time.sleep(0.0005)


def writes(pid: int, folder: Path) -> bool:
    """Return whether a process has a file without a name, or the folder itself, open in a folder."""
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            name = os.readlink(descriptor)
            if name == str(folder) or (name.startswith(f"{folder}/") and name.endswith(" (deleted)")):
                return True
    return False


def kill_often(number: int, seed: int, progress: bool = False) -> Counter[str]:
    """Kill a run so many times and let it end; return figures.

    Raises:
        AssertionError: naming the kill after which something was wrong.
    """
    with tempfile.TemporaryDirectory() as directory:
        run = KilledRun(Path(directory).resolve(), random.Random(seed))
        try:
            run.begin()
            for kill in range(2, number + 1):
                try:
                    run.go_on_and_kill()
                except Exception as error:
                    raise AssertionError(f"seed {seed}, kill {kill}: {error}") from error
                if progress:
                    print(kill, dict(run.figures), flush=True)
            run.end()
        finally:
            run.close()
        return run.figures


def main() -> None:
    """Run the kills, one line each."""
    parser = argparse.ArgumentParser(description="Kill a run while it saves, again and again.")
    parser.add_argument("--number", type=int, default=200, help="how many kills")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    figures = kill_often(args.number, args.seed, progress=True)
    for what, count in figures.items():
        print(f"{count:6}  {what}")
    print(f"{args.number} kills: {figures['states loaded']} loadable states, and the run equals one never killed")


if __name__ == "__main__":
    main()
