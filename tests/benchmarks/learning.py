"""Do the configs of dizoo learn, how fast, on one process and on several: ``python -m tests.benchmarks.learning``.

Every run is a process of its own, as a user starts it, from its config file until the config's stop value or a limit of
env steps; several processes share its sizes (`--divide`). Seconds are of the whole command, evaluations included.
A stop value that one evaluation reached can be luck: the best checkpoint is evaluated again, over new episodes.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ding_lite.config import compile_config
from ding_lite.entry import evaluate_checkpoint
from tests.distributed.launcher import ROOT, finish, launch, start


@dataclass(frozen=True)
class Run:
    """A config file under dizoo, the most env steps of a run, and overrides."""

    config: str
    max_env_step: int
    overrides: tuple[str, ...] = ()
    mode: str = "serial_onpolicy"


CARTPOLE = "classic_control/cartpole/config/cartpole_{}_config.py"
PENDULUM = "classic_control/pendulum/config/pendulum_{}_config.py"
FROM_REPLAY = (  # cartpole_sac is discrete SAC
    *("acer", "c51", "dqn", "dqn_stdim", "fqf", "iqn", "mdqn", "qrdqn", "r2d2", "rainbow", "sac", "sql", "sqn"),
)
CARTPOLE_V0 = ("env.env_id=CartPole-v0", "env.stop_value=195")
PENALTY = ("env.env_id=Penalty-v0", "env.penalty=-100", "env.stop_value=50")
FIRMLY = (  # the mean of five episodes is -250 by luck
    *("env.stop_value=-160", "env.evaluator_env_num=10", "env.n_evaluator_episode=50"),
    "policy.eval.evaluator.eval_freq=400",
)
RUNS = {
    "cartpole_ppo": Run(CARTPOLE.format("ppo"), 400_000),
    "cartpole_v0_ppo": Run(CARTPOLE.format("ppo"), 200_000, (*CARTPOLE_V0, "policy.eval.evaluator.eval_freq=40")),
    "cartpole_a2c": Run(CARTPOLE.format("a2c"), 400_000),
    "cartpole_pg": Run(CARTPOLE.format("pg"), 600_000),
    "cartpole_ppopg": Run(CARTPOLE.format("ppopg"), 200_000),
    "cartpole_ppg": Run(CARTPOLE.format("ppg"), 200_000),
    "cartpole_ppo_stdim": Run(CARTPOLE.format("ppo_stdim"), 200_000),
    **{
        f"{name}_pqn": Run(f"classic_control/{name}/config/{name}_pqn_config.py", 400_000)
        for name in ("cartpole", "acrobot")
    },
    "cartpole_impala": Run(CARTPOLE.format("impala"), 400_000, mode="serial"),
    "cartpole_ppo_offpolicy": Run(CARTPOLE.format("ppo_offpolicy"), 200_000, mode="serial"),
    **{f"cartpole_{kind}": Run(CARTPOLE.format(kind), 100_000, mode="serial") for kind in FROM_REPLAY},
    "pendulum_ppo": Run(PENDULUM.format("ppo"), 1_000_000),
    **{
        f"pendulum_{kind}": Run(PENDULUM.format(kind), 100_000, FIRMLY, mode="serial")
        for kind in ("bdq", "d4pg", "ddpg", "dqn", "redq", "sac", "td3", "tqc")
    },
    "inverted_pendulum_redq": Run("mujoco/config/inverted_pendulum_redq_config.py", 20_000, mode="serial"),
    "acrobot_ppo": Run("classic_control/acrobot/config/acrobot_ppo_config.py", 1_000_000),
    "mtcar_ppo": Run("classic_control/mountain_car/config/mtcar_ppo_config.py", 3_000_000),
    "lunarlander_ppo": Run("box2d/lunarlander/config/lunarlander_ppo_config.py", 3_000_000),
    **{
        f"lunarlander_{kind}": Run(f"box2d/lunarlander/config/lunarlander_{kind}_config.py", 500_000, mode="serial")
        for kind in (
            "acer",
            "c51",
            "cont_ddpg",
            "cont_sac",
            "cont_td3",
            "cont_tqc",
            "discrete_sac",
            "dqn",
            "qrdqn",
            "r2d2",
            "rainbow",
        )
    },
    **{
        f"bipedalwalker_{kind}": Run(
            f"box2d/bipedalwalker/config/bipedalwalker_{kind}_config.py", 500_000, mode="serial"
        )
        for kind in ("sac", "td3")
    },
    "memory_r2d2": Run("memory/config/memory_r2d2_config.py", 200_000, mode="serial"),
    "memory_ppo": Run("memory/config/memory_ppo_config.py", 400_000),
    **{
        f"{name}_qmix": Run(f"matrix_game/config/{name}_qmix_config.py", 16_000, mode="serial")
        for name in ("two_step", "penalty")
    },
    "two_step_wqmix": Run("matrix_game/config/two_step_wqmix_config.py", 16_000, mode="serial"),
    "two_step_madqn": Run("matrix_game/config/two_step_madqn_config.py", 16_000, mode="serial"),
    **{f"{name}_coma": Run(f"matrix_game/config/{name}_coma_config.py", 60_000) for name in ("two_step", "penalty")},
    **{
        f"{name}_{kind}": Run(f"matrix_game/config/two_step_{kind}_config.py", 20_000, words)
        for name, words in (("two_step", ()), ("penalty", PENALTY))
        for kind in ("mappo", "happo")
    },
    **{
        f"{name}_masac": Run("matrix_game/config/two_step_masac_config.py", 16_000, words, mode="serial")
        for name, words in (("two_step", ()), ("penalty", PENALTY))
    },
    "two_step_vdn": Run(
        "matrix_game/config/two_step_qmix_config.py",
        16_000,
        ("policy.model.mixer=False", "env.stop_value=7"),
        mode="serial",
    ),
    "foraging_qmix": Run("lbforaging/config/foraging_qmix_config.py", 2_000_000, mode="serial"),
    "foraging_vdn": Run(
        "lbforaging/config/foraging_qmix_config.py", 2_000_000, ("policy.model.mixer=False",), mode="serial"
    ),
    "foraging_mappo": Run("lbforaging/config/foraging_mappo_config.py", 2_000_000),
    "hybrid_ddpg": Run("gym_hybrid/config/gym_hybrid_ddpg_config.py", 400_000, mode="serial"),
    "hybrid_pdqn": Run("gym_hybrid/config/gym_hybrid_pdqn_config.py", 400_000, mode="serial"),
    "hybrid_ppo": Run("gym_hybrid/config/gym_hybrid_hppo_config.py", 400_000),
    "lunarlander_cont_ppo": Run("box2d/lunarlander/config/lunarlander_cont_ppo_config.py", 3_000_000),
}


def learn(name: str, seed: int, nproc: int, folder: Path, timeout: float = 4 * 3600) -> dict[str, Any]:
    """Run one config; return its result.json with `goal` and `wall`, the seconds of the whole command.

    Raises:
        RuntimeError: it failed; the message is what it printed.
    """
    run = RUNS[name]
    path = ROOT / "dizoo" / run.config
    overrides = [*run.overrides, f"exp_name={folder}/{name}_{nproc}_{seed}", f"max_env_step={run.max_env_step}"]
    cfg = compile_config(path, overrides=list(run.overrides))
    words = ["-m", "ding_lite", "-m", run.mode, "-c", str(path), "-s", str(seed), *overrides]
    began = time.perf_counter()
    if nproc == 1:
        done = finish(start([sys.executable, *words], cwd=folder), timeout)
    else:
        done = launch([*words, "--divide"], nproc, timeout, cwd=folder, fresh=True)
    wall = time.perf_counter() - began
    if done.returncode:
        raise RuntimeError(f"{name}, seed {seed}, {nproc} process(es): {done.stderr[-2000:]}")
    told = json.loads((folder / f"{name}_{nproc}_{seed}" / "result.json").read_text())
    return told | {"goal": cfg.env.stop_value, "wall": wall}


def check(name: str, seed: int, nproc: int, folder: Path, episodes: int) -> float:
    """Return the mean return of a run's best checkpoint over episodes that the run has not seen, and keep it there."""
    experiment = folder / f"{name}_{nproc}_{seed}"
    path = experiment / "ckpt" / "ckpt_best.pth.tar"
    with contextlib.redirect_stdout(io.StringIO()):
        info = evaluate_checkpoint(str(experiment / "total_config.py"), str(path), seed=1000 + seed, n_episode=episodes)
    (experiment / "check.json").write_text(json.dumps(info["return_mean"]))
    return info["return_mean"]


def row(name: str, nproc: int, results: list[dict[str, Any]]) -> str:
    """Return a table's row: how many seeds reached the goal, and of each its check, seconds and env steps."""
    goal = results[0]["goal"]
    reached = sum(result["stop_reason"] == "stop_value" for result in results)
    checked = ", ".join(f"{result['check']:.0f}" for result in results)
    seconds = ", ".join(f"{result['wall']:.0f}" for result in results)
    steps = ", ".join(f"{result['envstep'] / 1000:.0f}" for result in results)
    return f"| {name} | {goal} | {nproc} | {reached} of {len(results)} | {checked} | {seconds} | {steps} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", default=[*RUNS], help=f"of {', '.join(RUNS)}")
    parser.add_argument("--seeds", type=int, nargs="+", default=[*range(5)])
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--episodes", type=int, default=100, help="of the evaluation afterwards")
    parser.add_argument("--folder", type=Path, default=Path("learning"), help="where the experiments are kept")
    args = parser.parse_args()
    unknown = set(args.runs) - set(RUNS)
    if unknown:
        parser.error(f"unknown runs {', '.join(sorted(unknown))}: expected some of {', '.join(RUNS)}")
    folder = args.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    print(f"| run | goal | processes | reached | over {args.episodes} new episodes | seconds | thousand env steps |")
    print("|---|---|---|---|---|---|---|")
    for name in args.runs:
        for nproc in args.processes:
            results = [learn(name, seed, nproc, folder) for seed in args.seeds]
            for seed, result in zip(args.seeds, results, strict=True):
                result["check"] = check(name, seed, nproc, folder, args.episodes)
            print(row(name, nproc, results), flush=True)


if __name__ == "__main__":
    main()
