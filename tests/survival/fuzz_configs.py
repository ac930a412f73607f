"""Spoils config files in many ways and sees that each is refused by one clear line, or runs.

    python -m tests.survival.fuzz_configs --number 1000 --seed 0

An item is one of dizoo's config files, changed as a text or by lines appended to it. It is compiled and compared with
its environment, as a run does before a worker starts; of those that pass, `--runs` of a hundred are trained for a few
steps, and `--processes` items go through the command line. Whatever is wrong has to be a `UserError` of one line that
says where; no other exception, nothing that hangs. What runs long without end, because the config says so, runs.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from ding_lite.config import compile_config, set_shapes
from ding_lite.entry import serial_pipeline, serial_pipeline_onpolicy
from ding_lite.envs import check_env
from ding_lite.utils import ConfigError, UserError
from tests.distributed.launcher import ROOT

SECONDS, CPU_SECONDS = 120.0, 30.0  # that one item may take, on a busy machine, and of its own
MEMORY = 12 * 2**30  # bytes of address space: what is too large fails here, whatever the machine has
PLACES = (
    "config",
    "Config file",
    "env",
    "policy",
    "tracker",
    "seed",
    "exp_name",
    "max_seconds",
    "model",
    "checkpoint",
    "replay buffer",
)  # one of them is in every message
PLAYING = {
    "collect",
    "eval",
    "train",
    "batches",
    "reset",
    "fill_replay_buffer",
}  # functions: a run that is in them plays or learns
CARTPOLE = "dizoo/classic_control/cartpole/config/cartpole_{}_config.py"
FILES = (
    *(CARTPOLE.format(name) for name in ("dqn", "ppo", "pg", "impala", "ppo_offpolicy")),
    "dizoo/classic_control/pendulum/config/pendulum_ppo_config.py",
    "dizoo/atari/pong_dqn_ddp_config.py",
    "dizoo/atari/config/serial/pong/pong_ppo_config.py",
    "dizoo/box2d/lunarlander/config/lunarlander_ppo_config.py",
)
QUICK = """
main_config.exp_name = "run"
main_config.policy.cuda, main_config.policy.num_threads = False, 1
main_config.env |= dict(collector_env_num=8, evaluator_env_num=2, n_evaluator_episode=2, max_episode_steps=10)
if "n_sample" in main_config.policy.get("collect", {}):
    main_config.policy.collect.n_sample = min(main_config.policy.collect.n_sample, 64)
    learn = main_config.policy.get("learn", {})
    main_config.policy.learn = {**learn, "batch_size": min(learn.get("batch_size", 64), 16)}
"""
HELPERS = """
import collections, datetime, enum, fractions, pathlib
import numpy as np
import torch
class Rude:
    def __repr__(self): raise RuntimeError("no repr")
class Words(str): pass
class Level(enum.IntEnum):
    LOW = 1
def nest(kind, depth):
    value = 1
    for _ in range(depth):
        value = {"a": value} if kind is dict else [value]
    return value
circle = []
circle.append(circle)
def put(path, value):
    node = create_config if path.startswith("create_config.") else main_config
    *parents, last = path.removeprefix("create_config.").split(".")
    for key in parents:
        if not isinstance(node.get(key), dict):
            dict.__setitem__(node, key, {})
        node = node[key]
    dict.__setitem__(node, last, value)
"""
NUMBERS = (
    *("-1", "0", "1", "2", "3", "-0.5", "0.5", "1e-300", "1e300", "10**6", "10**9", "10**12", "10**15", "10**18"),
    *("2**31", "2**63", "10**30", "10**400", "float('nan')", "float('inf')", "-float('inf')", "-10**400"),
)
VALUES = (
    *("None", "True", "False", "''", "' '", "'12'", "'1e-3'", "'a b'", "'a\\nb'", "'\\x00'", "'\\ud800'", "'x' * 5000"),
    *("[]", "{}", "()", "{'a': 1}", "{'': 1}", "{1: 2}", "{None: 1}", "[1, 2]", "(1, 2)", "[[]]", "[None]", "[0]"),
    *("[-3]", "[10**9]", "[10**30]", "[float('nan')]", "['4']", "[4, 'x']", "[True]", "list(range(100000))"),
    *("np.float32(0.5)", "np.int64(3)", "np.bool_(True)", "np.str_('dqn')", "np.array([1, 2])", "np.float64('nan')"),
    *("lambda x: x", "object()", "print", "int", "1j", "set()", "b'bytes'", "range(3)", "iter([1])", "Rude()"),
    *("[Rude()]", "Words('dqn')", "Level.LOW", "pathlib.Path('x')", "datetime.date(2020, 1, 1)", "circle", "torch"),
    *("fractions.Fraction(1, 2)", "collections.OrderedDict(a=1)", "collections.deque([1])", "torch.tensor([1.0, 2.0])"),
    *("torch.nn.Tanh()", "torch.nn.Softmax(0)", "nest(dict, 100)", "nest(dict, 20000)", "nest(list, 20000)", "'..'"),
    *("'/'", "'/dev/null'", "'a.b'", "'%s {} \\\\'", "{'type': 'x'}", "float", "Exception('x')", "type('T', (), {})()"),
)
NAMES = {
    "env.env_id": "CartPole cartpole-v1 CartPole-v99 NoSuch/Env-v0 nosuch:Env-v0 Pendulum-v1 Blackjack-v1 Taxi-v3 "
    "PongNoFrameskip-v4 FrozenLake-v1 HalfCheetah-v5 LunarLander-v3 BipedalWalker-v3 CarRacing-v3 phys2d/CartPole-v0 "
    "GymV21Environment-v0 Humanoid-v5 ALE/Pong-v5 Hopper-v2 tabular/Blackjack-v0 CliffWalking-v1 :x - MountainCar-v0",
    "create_config.env.type": "cartpol gymnasium atari pendulum CartPole cartpole lunarlander minigrid mujoco acrobot",
    "create_config.env_manager.type": "base native subprocess subproces async_subprocess env_pool None",
    "create_config.policy.type": "dqn ppo pg impala ppo_offpolicy a2c sac dqn_command ppo_command PPO ppo_onpolicy",
    "create_config.replay_buffer.type": "uniform prioritized sequence advanced naive unifrm",
    "policy.model.type": "dqn vac pg VAC q_learning",
    "policy.model.activation": "relu tanh Relu swish none",
    "policy.model.action_space": "discrete continuous hybrid general Discrete",
    "policy.learn.learner.hook.load_ckpt_before_run": "nowhere.pth.tar . item.py",
}
MODULES = (
    "nosuch",
    "",
    ".",
    ".x",
    "a b",
    "os.path.",
    "os",
    "raising",
    "exiting",
    "unparsable",
    "looping",
    "x\\ny",
    "é",
)
MODULE_TEXTS = {
    "raising": "raise ValueError('first line\\nsecond line')",
    "exiting": "raise SystemExit(3)",
    "unparsable": "x = (",
    "looping": "import looping.inner",
}


class OvertimeError(BaseException):
    """An item took too long. Not an Exception, which compiling would turn into a ConfigError."""


# Mutations of the text: bytes -> bytes.


def lines_of(data: bytes, rng: random.Random) -> bytes:
    """Delete, repeat, swap, indent or move lines."""
    lines = data.splitlines(keepends=True)
    for _ in range(rng.choice([1, 1, 2, 5])):
        first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
        change = rng.randrange(5)
        if change == 0:
            del lines[first]
        elif change == 1:
            lines.insert(second, lines[first])
        elif change == 2:
            lines[first], lines[second] = lines[second], lines[first]
        elif change == 3:
            lines[first] = rng.choice([b" ", b"\t", b"# "]) + lines[first]
        else:
            lines[first] = lines[first].strip()
    return b"".join(lines)


def characters(data: bytes, rng: random.Random) -> bytes:
    """Delete, repeat, swap or replace single characters."""
    new = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 3])):
        place = rng.randrange(len(new) - 1)
        change = rng.randrange(4)
        if change == 0:
            del new[place]
        elif change == 1:
            new.insert(place, new[place])
        elif change == 2:
            new[place], new[place + 1] = new[place + 1], new[place]
        else:
            new[place] = rng.choice(b"\"'()[]{},.:=#\\ \n\t019axX_-*")
    return bytes(new)


def cut(data: bytes, rng: random.Random) -> bytes:
    """Cut off the end, the beginning, or a piece in between."""
    start, stop = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return rng.choice([data[:start], data[start:], data[:start] + data[stop:], b""])


def bytes_of(data: bytes, rng: random.Random) -> bytes:
    """Put bytes where they do not belong: no UTF-8, null, another encoding, other line ends."""
    place = rng.randrange(len(data))
    junk = rng.choice([b"\xff", b"\xc3", b"\x00", b"\xef\xbb\xbf", "é".encode(), b"\x0c", b"\x1a", rng.randbytes(20)])
    others = [data.decode().encode("utf-16"), b"# coding: nosuch\n" + data, b"\xef\xbb\xbf" + data]
    return rng.choice([data[:place] + junk + data[place:], *others, data.replace(b"\n", b"\r\n")])


def huge(data: bytes, rng: random.Random) -> bytes:
    """Make the file large, or nested deeply."""
    size = 10**6
    return rng.choice(
        [
            data + b"#" * size,
            data + b"\n" * size,
            b"x = " + b"(" * 10**5 + b"\n" + data,
            b"x = " + b"-" * 10**5 + b"1\n" + data,
            data + b"\nmain_config['policy']['x'] = [" + b"0," * 10**5 + b"]\n",
            data + b"\nmain_config['exp_name'] = '" + b"x" * size + b"'\n",
            data + b"\nmain_config['" + b"x" * size + b"'] = 1\n",
            data + b"\nfor i in range(20000): main_config['k%d' % i] = i\n",
        ]
    )


def replace_words(data: bytes, rng: random.Random) -> bytes:
    """Misspell a name, or put another value in the place of one that stands in the text."""
    words = [b"main_config", b"create_config", b"EasyDict", b"dict(", b"True", b"False", b"import", b"policy", b"env"]
    words += [b'"', b"'", b",", b"=", b"(", b")", b"]", b"64", b"8", b"0.001", b"type", b"[", b"obs_shape", b"cartpole"]
    word = rng.choice([word for word in words if word in data])
    others = [b"", b"x", b'"', b"0", b"-1", b"None", b"1e999", word * 2, b"dict(a=1)", b"\n", b" ", b"\\", b"lambda: 0"]
    return data.replace(word, rng.choice(others), rng.choice([1, -1]))


# Mutations of values: lines to append.


def _value(rng: random.Random) -> str:
    return rng.choice(rng.choice([NUMBERS, VALUES]))


def set_one(paths: list[str], rng: random.Random) -> str:
    """Give one key, or two, another value."""
    chosen = rng.sample(paths, rng.choice([1, 1, 1, 2]))
    return "".join(f"put({path!r}, {_value(rng)})\n" for path in chosen)


def set_number(paths: list[str], rng: random.Random) -> str:
    """Give a key another number: the type may fit, the size not."""
    return f"put({rng.choice(paths)!r}, {rng.choice(NUMBERS)})\n"


def set_section(paths: list[str], rng: random.Random) -> str:
    """Put something else in the place of a whole section, or a section in the place of a value."""
    path = rng.choice(paths)
    parts = path.split(".")
    shorter = ".".join(parts[: rng.randrange(1, len(parts) + 1)])
    return f"put({rng.choice([shorter, path + '.deeper'])!r}, {rng.choice(VALUES)})\n"


def misspell(paths: list[str], rng: random.Random) -> str:
    """Set a key that is spelt wrong, or that belongs elsewhere."""
    path, other = rng.choice(paths), rng.choice(paths)
    place = rng.randrange(len(path))
    moved = f"{other.rpartition('.')[0]}.{path.rpartition('.')[2]}".lstrip(".")
    wrong = [path[:place] + path[place + 1 :], path[:place] + "x" + path[place:], path.upper(), moved, path + " "]
    return f"put({rng.choice(wrong)!r}, {_value(rng)})\n"


def remove(paths: list[str], rng: random.Random) -> str:
    """Remove a key, a section, or one of the two dicts."""
    path = rng.choice(paths)
    last = path.split(".")
    keys = "".join(f"[{key!r}]" for key in last[:-1])
    removals = [
        *("del main_config", "del create_config", "main_config = None", "create_config = [1]", "main_config.clear()"),
        *("create_config.clear()", "main_config, create_config = create_config, main_config", "main_config = Rude()"),
        *("main_config['env'].pop('env_id', 0)", "create_config.pop('policy', 0)", "create_config['env'].clear()"),
        *("main_config = dict(policy=main_config)", "create_config = main_config", "main_config['env'] = main_config"),
    ]
    guarded = f"try: del main_config{keys}[{last[-1]!r}]\nexcept (KeyError, TypeError): pass"
    return rng.choice([rng.choice(removals), guarded]) + "\n"


def names(_: list[str], rng: random.Random) -> str:
    """Choose another environment, manager, policy, model or module."""
    if rng.random() < 0.3:
        return f"put('create_config.{rng.choice(['env', 'policy'])}.import_names', ['{rng.choice(MODULES)}'])\n"
    path = rng.choice(list(NAMES))
    return f"put({path!r}, {rng.choice(NAMES[path].split())!r})\n"


def contradict(paths: list[str], rng: random.Random) -> str:
    """Set two or three sizes that have to fit each other."""
    sizes = [path for path in paths if path.rpartition(".")[2].startswith(("n_", "num", "collector", "evaluator"))]
    sizes += [path for path in paths if path.endswith(("_size", "_shape", "_per_collect", "unroll_len", "nstep"))]
    chosen = rng.sample(sizes, min(len(sizes), rng.choice([2, 3])))
    return "".join(f"put({path!r}, {rng.choice([1, 2, 3, 5, 8, 64, 100, 1000, 10**5])})\n" for path in chosen)


TEXTS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    *(lines_of, characters, cut, bytes_of, huge, replace_words),
)
APPENDED: tuple[Callable[[list[str], random.Random], str], ...] = (
    *(set_one, set_one, set_number, set_number, set_section, misspell, remove, names, contradict),
)


def flat_keys(node: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return the dotted keys of all values."""
    keys = []
    for key, value in node.items():
        keys += flat_keys(value, f"{prefix}{key}.") if isinstance(value, Mapping) and value else [prefix + key]
    return keys


class Fuzzer:
    """The texts of the config files, what can be set in each, and counts of what came of the items."""

    def __init__(self) -> None:
        self._texts = {name: (ROOT / name).read_bytes().split(b"\nif __name__")[0] for name in FILES}
        self._paths = {}
        for name in FILES:
            cfg = compile_config(ROOT / name)
            hidden = ("notes", "env.type", "policy.type", "env.manager.type")
            self._paths[name] = [key for key in flat_keys(cfg) if key not in hidden] + list(NAMES)[1:5]
        self.outcomes: Counter[str] = Counter()

    def write(self, rng: random.Random) -> tuple[str, str, bool]:
        """Write `item.py`; return the name of the mutation, the mode that its policy needs, and whether it is slow."""
        name = rng.choice(FILES)
        data = self._texts[name]
        mutation: Any = rng.choice(rng.choice([TEXTS, APPENDED, APPENDED]))
        if mutation in TEXTS:
            data = mutation(data + QUICK.encode(), rng)
        else:
            data += (QUICK + HELPERS + mutation(self._paths[name], rng)).encode()
        Path("item.py").write_bytes(data)
        on_policy = "ppo_config" in name or "pg_config" in name
        return mutation.__name__, "serial_onpolicy" if on_policy else "serial", "atari" in name

    def check(self, rng: random.Random, share: float) -> None:
        """Do one item in this process; `share` of those that pass are trained.

        Raises:
            AssertionError: the error is of another kind, or its message is not one short line that says where.
        """
        mutation, mode, slow = self.write(rng)
        try:
            outcome = self._try(mode, rng.random() < share * (0.1 if slow else 1))
        except UserError as error:
            check_message(str(error), error.longest)
            outcome = "refused" if isinstance(error, ConfigError) else "refused, running"
        self.outcomes[f"{mutation}: {outcome}"] += 1
        self.outcomes[f"all: {outcome}"] += 1

    def _try(self, mode: str, train: bool) -> str:
        compiled = False
        try:
            cfg = compile_config("item.py")
            set_shapes(cfg, check_env(cfg.env))
            compiled = True
            if train:
                pipeline = serial_pipeline if mode == "serial" else serial_pipeline_onpolicy
                pipeline("item.py", max_env_step=64, max_train_iter=8)
        except OvertimeError as error:
            frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
            if compiled and PLAYING & set(frames):
                return "runs long"
            raise AssertionError(f"hangs in {frames[-8:]}") from None
        return "runs" if train else "compiles"

    def check_process(self, rng: random.Random) -> None:
        """Do one item through the command line, in a process of its own.

        Raises:
            AssertionError: the status is none of 0 and 2, or what is printed then is no message.
        """
        mutation, mode, _ = self.write(rng)
        command = [sys.executable, "-m", "ding_lite", "-m", mode, "-c", "item.py", "max_env_step=64"]
        env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}."}
        try:
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
        except subprocess.TimeoutExpired as error:
            if not any(Path().glob("run*/metrics.jsonl")):
                raise AssertionError("hangs before it has evaluated") from error
            self.outcomes["process: runs long"] += 1
            return
        assert "Traceback" not in done.stderr, f"{mutation}: {done.stderr[-1500:]}"
        assert done.returncode in (0, 2), f"{mutation}: status {done.returncode}: {done.stderr[-1500:]}"
        if done.returncode:
            check_message(done.stderr.strip().splitlines()[-1], UserError.longest)
        self.outcomes[f"process: status {done.returncode}"] += 1


def check_message(message: str, longest: int) -> None:
    """Raise `AssertionError` unless a message is one short line that says where the mistake is."""
    assert message == message.strip(), f"blanks around the message: {message!r}"
    assert len(message.splitlines()) == 1, f"not one line: {message!r}"
    assert message.isprintable(), f"cannot be printed: {message!r}"
    assert len(message) <= longest, f"{len(message)} characters: {message!r}"
    assert any(place in message for place in PLACES), f"says no key: {message!r}"


def _on_alarm(*_: object) -> None:
    _set_alarm(SECONDS, 1.0)  # again, if this one is swallowed
    raise OvertimeError


def _set_alarm(seconds: float, cpu_seconds: float) -> None:
    signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)


def run_item(seed: int, item: int, do: Callable[[random.Random], None], keep_going: bool) -> bool:
    """Run an item in time; return whether it was as it should be. Its text stays in item.py."""
    for old in Path().glob("run*"):
        shutil.rmtree(old)
    quiet = (contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()))
    try:
        with quiet[0], quiet[1], warnings.catch_warnings():
            warnings.simplefilter("ignore")
            do(random.Random(f"{seed} {item}"))
        return True
    except BaseException as error:
        _set_alarm(0, 0)
        if isinstance(error, KeyboardInterrupt):
            raise
        print(f"seed {seed}, item {item} failed; its last lines:", flush=True)
        print(*[line[:200] for line in Path("item.py").read_bytes().splitlines()[-3:]], sep="\n", flush=True)
        if not keep_going:
            raise
        frames = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)[-4:]]
        print(f"    {type(error).__name__}: {str(error)[:600]}\n    {frames}", flush=True)
        return False
    finally:
        _set_alarm(0, 0)


def main() -> None:
    """Run the items; the first failure ends it, naming seed and item."""
    parser = argparse.ArgumentParser(description="Spoil config files and see that each is a clear error, or runs.")
    parser.add_argument("--number", type=int, default=1000, help="how many items")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the item to begin with")
    parser.add_argument("--runs", type=int, default=30, help="of a hundred items that pass, how many are trained")
    parser.add_argument("--processes", type=int, default=10, help="how many more items go through the command line")
    parser.add_argument("--keep-going", action="store_true", help="show all failures, not only the first")
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    torch.set_num_threads(1)
    for signum in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(signum, _on_alarm)
    fuzzer, failed = Fuzzer(), 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        sys.path.append(folder)
        for name, text in MODULE_TEXTS.items():
            Path(f"{name}.py").write_text(text)

        def check(rng: random.Random) -> None:
            _set_alarm(SECONDS, CPU_SECONDS)
            fuzzer.check(rng, args.runs / 100)

        with contextlib.redirect_stderr(io.StringIO()):
            serial_pipeline(str(ROOT / FILES[0]), max_train_iter=1)  # what is imported late, without an alarm
        for item in range(args.first, args.first + args.number):
            failed += not run_item(args.seed, item, check, args.keep_going)
        for item in range(args.first, args.first + args.processes):
            failed += not run_item(args.seed + 1000, item, fuzzer.check_process, args.keep_going)
        os.chdir(ROOT)
    for outcome, count in sorted(fuzzer.outcomes.items()):
        print(f"{count:6}  {outcome}")
    print(f"{args.number} items: {failed} failed" if failed else f"{args.number} items: each a clear error, or it runs")
    raise SystemExit(failed > 0)


if __name__ == "__main__":
    main()
