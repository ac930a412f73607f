"""Whether config files of DI-engine, drawn at random, learn here for 500 env steps.

    python -m tests.benchmarks.di_engine_runs DIZOO [--match REGEX] [--number 20] [--seed 0]

DIZOO is the folder `dizoo` of DI-engine; its package gets another name. Drawn are files that compile with their
environment. Each runs as a user would run it, with `ding_lite train`, except that it ends after 500 env steps, plays at
most 200 more at random first, and evaluates one episode. A file that asks for an expert gets a data set of 2,000 env
steps: those of a policy that has learned nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from tests.benchmarks.di_engine_configs import compile_all, rename_package

STEPS, AT_RANDOM, RECORDED = 500, 200, 2000  # env steps
TIMEOUT = 900  # seconds
DATA = ("reward_model.data_path", "policy.other.replay_buffer.data_path", "policy.collect.data_path")


def words_of(path: Path) -> list[str]:
    """Return what the command line changes in a config file; a data set is recorded if it needs one."""
    from ding_lite.config import compile_config, read_config
    from ding_lite.utils.key import get_key

    cfg = compile_config(path)
    words = ["env.evaluator_env_num=1", "env.n_evaluator_episode=1", "env.stop_value=None", "policy.cuda=False"]
    first = min(int(get_key(cfg, "policy.random_collect_size") or 0), AT_RANDOM)
    if get_key(cfg, "policy.random_collect_size") is not None:
        words.append(f"policy.random_collect_size={first}")
    words.append(f"max_env_step={STEPS + first * int(get_key(cfg, 'policy.unroll_len') or 1)}")
    missing = [key for key in DATA if isinstance(found := get_key(cfg, key), str) and not os.path.exists(found)]
    if missing:
        target = str(path.with_suffix(".npz"))
        record_nothing_learned(read_config(path), target)
        words += [f"{key}={target}" for key in missing]
    return words


def record_nothing_learned(pair: Any, target: str) -> None:
    """Record steps of a new policy in the environment of a config: DQN, or SAC if its actions are continuous."""
    from gymnasium.spaces import Box

    from ding_lite.offline.demo_data import collect_demo_data
    from ding_lite.run.setup import prepare_run

    main, create = pair
    env = {"env": {**main["env"]}}
    plain = {**{key: create[key] for key in ("env", "env_manager") if key in create}}
    for kind in ("dqn", "sac"):
        own = ({**env, "exp_name": "nothing_learned"}, {**plain, "policy": {"type": kind}})
        try:
            setup = prepare_run(own, 0)
        except ValueError:
            continue
        assert isinstance(setup.spec.action_space, Box) == (kind == "sac")
        collect_demo_data(own, 0, RECORDED, target, state_dict=setup.create_policy().state_dict(), explore=True)
        return


def run(path: Path) -> dict[str, Any]:
    """Train a config file in the current directory, and return what its result.json says, or its `error`."""
    command = [sys.executable, "-m", "ding_lite", "train", "-c", str(path), "-s", "0", f"exp_name={path.stem}"]
    try:
        words = words_of(path)
        told = subprocess.run([*command, *words], capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except (Exception, SystemExit) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    found = sorted(Path(path.stem).glob("result.json"))
    if told.returncode or not found:
        return {"error": (told.stderr or told.stdout).strip().splitlines()[-1] if told.stderr or told.stdout else "?"}
    result: dict[str, Any] = json.loads(found[0].read_text())
    return result


def main() -> None:
    """Draw files, train each, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dizoo", type=Path)
    parser.add_argument("--match", default="", help="regular expression that the path must contain")
    parser.add_argument("--number", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    dizoo = args.dizoo.resolve()
    fit = [name for name, told in compile_all(dizoo).items() if told == ("", True) and re.search(args.match, name)]
    drawn = sorted(random.Random(args.seed).sample(fit, min(args.number, len(fit))))
    learned = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name in drawn:
            result = run(rename_package(dizoo / name, Path(folder, name)))
            done = result.get("train_iter", 0) > 0
            learned += done
            counts = (
                f"{result['envstep']} env steps, {result['train_iter']} iterations" if done else result.get("error")
            )
            print(f"{'learns' if done else 'FAILS '} {name}: {result.get('error') or counts}", flush=True)
    print(f"{learned} of {len(drawn)} learn, drawn from {len(fit)}")


if __name__ == "__main__":
    main()
