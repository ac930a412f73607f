"""What a DataLoader over a collector costs, and Lightning's loop: ``python -m tests.benchmarks.rollout_dataset``.

Env steps a second of CartPole PPO's collector, by itself and through a loader, nothing being learned; and learning
steps a second of the Lightning example beside the same policy and sizes in `serial_pipeline_onpolicy`.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import DataLoader

from ding_lite.config import read_config
from ding_lite.entry import RolloutDataset, serial_pipeline_onpolicy
from ding_lite.envs import create_vector_env, derive_seeds
from ding_lite.policy import A2CPolicy, PPOPolicy
from ding_lite.utils import POLICY_REGISTRY, DDPContext, get_rank
from ding_lite.worker import SampleCollector
from tests.distributed.launcher import ROOT, finish, launch, start

CONFIGS = ROOT / "dizoo" / "classic_control" / "cartpole" / "config"
ONE_PASS = ["policy.learn.value_norm=False", "policy.learn.lr_scheduler=None", "policy.learn.epoch_per_collect=1"]
MODULE = "tests.benchmarks.rollout_dataset"


def collector_rate(seconds: float) -> float:
    """Return env steps a second of the collector by itself, samples made into batches."""
    cfg = RolloutDataset(str(CONFIGS / "cartpole_ppo_config.py"), 0, overrides=ONE_PASS).cfg
    policy, num_envs = PPOPolicy(cfg.policy), cfg.env.collector_env_num
    env = create_vector_env(cfg.env, num_envs, 0, True)
    collector = SampleCollector(env, policy, cfg.policy.collect.n_sample, derive_seeds(0, n=num_envs))
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        list(policy.batches(collector.collect()[0]))
    return collector.envstep / (time.perf_counter() - began)


def loader_rate(seconds: float, unit: str, num_workers: int) -> float:
    """Return env steps a second that come out of a loader in batches of 64."""
    dataset = RolloutDataset(str(CONFIGS / "cartpole_ppo_config.py"), 0, unit, overrides=ONE_PASS)
    loader = iter(DataLoader(dataset, batch_size=64 if unit == "transition" else None, num_workers=num_workers))
    list(itertools.islice(loader, 20))
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        count += len(next(loader)["obs"])
    return count / (time.perf_counter() - began)


def lightning_rate(steps: int, devices: int, num_workers: int) -> float:
    """Return learning steps a second of the Lightning example."""
    import lightning

    from dizoo.classic_control.cartpole.entry.cartpole_a2c_lightning import A2CModule

    class Clock(lightning.Callback):
        began, seconds = 0.0, 0.0

        def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            self.began = time.perf_counter() if batch_idx + 1 == steps // 4 else self.began
            self.seconds = time.perf_counter() - self.began

    clock = Clock()
    quiet: dict[str, Any] = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False)
    options: dict[str, Any] = dict(accelerator="cpu", strategy="ddp" if devices > 1 else "auto", devices=devices)
    trainer = lightning.Trainer(**quiet, **options, max_steps=steps, gradient_clip_val=0.5, callbacks=[clock])
    trainer.fit(A2CModule(num_workers=num_workers))
    if trainer.global_rank:
        raise SystemExit
    return (steps - steps // 4) / clock.seconds


def own_rate(steps: int) -> float:
    """Return learning steps a second of the same policy and sizes in the on-policy pipeline."""
    times = []

    class Watched(A2CPolicy):
        def _forward_learn(self, batch: dict[str, Any]) -> dict[str, Any]:
            output = super()._forward_learn(batch)
            times.append(time.perf_counter())
            return output

    POLICY_REGISTRY["watched"] = Watched
    main_config, create_config = copy.deepcopy(read_config(CONFIGS / "cartpole_a2c_config.py"))
    create_config["policy"]["type"] = "watched"
    options = ["env.stop_value=None", "policy.multi_gpu=True", "policy.discount_factor=0.98"]
    with DDPContext():
        options += ["exp_name=run", "policy.eval.evaluator.eval_freq=1000000"]
        serial_pipeline_onpolicy((main_config, create_config), 0, max_train_iter=steps, overrides=options)
        if get_rank():
            raise SystemExit
    return (steps - 1 - steps // 4) / (times[-1] - times[steps // 4])


RATES: dict[str, Callable[..., float]] = {
    "collector": collector_rate,
    "loader": loader_rate,
    "lightning": lightning_rate,
    "own": own_rate,
}


def measure(kind: str, *options: Any, nproc: int = 1) -> float:
    """Run one measurement in fresh processes, in an empty directory."""
    words = ["-m", MODULE, "--one", json.dumps([kind, *options])]
    with tempfile.TemporaryDirectory() as folder:
        if nproc > 1:
            done = launch(words, nproc, timeout=600, cwd=folder, fresh=True)
        else:
            done = finish(start([sys.executable, *words], cwd=folder), 600)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return float(done.stdout.rpartition("rate ")[2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument("--steps", type=int, default=2000, help="learning steps of each run")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args, _ = parser.parse_known_args()
    torch.set_num_threads(1)
    if args.one:
        kind, *options = json.loads(args.one)
        print(f"rate {RATES[kind](*options)}", flush=True)
        return
    print(f"collector by itself: {measure('collector', args.seconds):,.0f} env steps a second")
    for unit, num_workers in itertools.product(("batch", "transition"), range(3)):
        rate = measure("loader", args.seconds, unit, num_workers)
        print(f"loader, unit '{unit}', {num_workers} workers: {rate:,.0f} env steps a second")
    for nproc in (1, 2):
        print(f"own pipeline, {nproc} processes: {measure('own', args.steps, nproc=nproc):,.0f} steps a second")
        for num_workers in range(2):
            rate = measure("lightning", args.steps, nproc, num_workers)
            print(f"Lightning, {nproc} processes, {num_workers} workers each: {rate:,.0f} steps a second")


if __name__ == "__main__":
    main()
