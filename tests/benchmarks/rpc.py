"""What agent and observers cost, beside averaged gradients: ``python -m tests.benchmarks.rpc``.

Policy gradient on CartPole with the same network, 16 environments, 80 episodes a collect and a joined batch of 64: in
one process; in two that average gradients, through shared memory and through sockets; with one agent and two observers,
whose tensors go from process to process where that is allowed, and all through sockets. Each way in turn within one
run, ``--rounds`` times; medians count. Bytes are what the kernel saw the agent write and read, or all ranks write; the
tensors in them are counted beside. A row is a step of 8 environments, the others play meanwhile.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

WAYS = {
    "one process": 1,
    "two ranks, shared memory": 2,
    "two ranks, sockets": 2,
    "agent, two observers": 3,
    "the same, sockets": 3,
}
WARM_UP = 2  # collects that are not counted


class Meter:
    """Seconds and socket bytes of one kind of call, past the first ones."""

    def __init__(self) -> None:
        self.calls, self.seconds, self.units, self.written, self.read = 0, 0.0, 0, 0, 0

    def measure(self, call: Any, units: Any) -> Any:
        """Call, and count `units(result)` of work, if the warm-up is over."""
        before, start = counters(), time.perf_counter()
        value = call()
        seconds, after = time.perf_counter() - start, counters()
        self.calls += 1
        if self.calls > WARM_UP:
            self.seconds += seconds
            self.units += units(value)
            self.written += after["wchar"] - before["wchar"]
            self.read += after["rchar"] - before["rchar"]
        return value


def counters() -> dict[str, int]:
    """Return what the kernel has counted of this process's reads and writes, in bytes."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return {name: int(value) for name, value in (line.split(": ") for line in lines)}


def measured(base: Any, meters: dict[str, Meter]) -> Any:
    """Return an experiment whose collects and learning steps are measured; nothing is evaluated."""

    class Measured(base):  # type: ignore[misc]  # a base class that is known when it runs
        def evaluate(self) -> bool:
            return False

        def collect(self) -> Any:
            before = self.collector.envstep
            return meters["collect"].measure(super().collect, lambda _: self.collector.envstep - before)

        def learn(self, batches: Any, update: Any = None) -> None:
            before, parts = self.learner.train_iter, list(batches)
            call = super().learn
            meters["learn"].measure(lambda: call(parts), lambda _: self.learner.train_iter - before)

    return Measured


def worker(way: str, steps: int, path: str) -> None:
    """One process of one way."""
    from torch.distributed import rpc

    from ding_lite.observers import serial_entry_rpc
    from ding_lite.run import experiment, serial_entry
    from ding_lite.utils import DDPContext, allreduce_data, get_rank, get_world_size
    from ding_lite.utils.ranks import flat_parameters
    from dizoo.classic_control.cartpole.config.cartpole_pg_config import create_config, main_config

    meters = {"collect": Meter(), "learn": Meter()}
    with DDPContext():
        rank, size = get_rank(), get_world_size()
        share = size if way.startswith("two ranks") else 2 if size == 3 else 1
        keys = [f"exp_name={tempfile.mkdtemp()}/run", "env.stop_value=None", f"env.collector_env_num={16 // share}"]
        keys += [f"policy.collect.n_episode={80 // share}", "policy.learn.learner.hook.check_ranks_after_iter=0"]
        options: dict[str, Any] = {"seed": 0, "max_env_step": steps}
        if size == 3:
            if way.endswith("sockets"):  # else tensors are copied from process to process where that is allowed
                plain = rpc.TensorPipeRpcBackendOptions

                class ThroughSockets(plain):  # type: ignore[misc,valid-type]
                    def __init__(self, **more: Any) -> None:
                        plain.__init__(self, **{**more, "_channels": ["basic"]})

                rpc.TensorPipeRpcBackendOptions = ThroughSockets  # type: ignore[misc]
            vars(serial_entry_rpc)["Experiment"] = measured(experiment.Experiment, meters)
            serial_entry_rpc.serial_pipeline_rpc((main_config, create_config), **options, overrides=keys)
        else:
            if way.endswith("sockets"):
                vars(flat_parameters)["create_shared_rows"] = lambda *_: None
            keys += [f"policy.learn.batch_size={64 // size}", f"policy.multi_gpu={size > 1}"]
            vars(serial_entry)["Experiment"] = measured(experiment.Experiment, meters)
            serial_entry.serial_pipeline_onpolicy((main_config, create_config), **options, overrides=keys)
            for meter in meters.values():
                meter.written, meter.read = allreduce_data(meter.written), 0
        if rank == 0:
            Path(path).write_text(json.dumps({name: vars(meter) for name, meter in meters.items()}))


def run(way: str, args: argparse.Namespace) -> dict[str, Any]:
    """Run one way in processes of its own."""
    from tests.distributed.launcher import launch

    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "result.json")
        words = ["-m", "tests.benchmarks.rpc", "--steps", str(args.steps), "--way", way, "--result", str(result)]
        done = launch(words, nproc=WAYS[way], timeout=600, cwd=folder, env={"TMPDIR": folder}, fresh=True)
        if not result.exists():
            raise SystemExit(f"{way}: no result (exit status {done.returncode}):\n{done.stderr[-2000:]}")
        return json.loads(result.read_text())


def payload() -> dict[str, str]:
    """Return the bytes of the tensors that two observers and the agent exchange, for a row of 8 and for a batch."""
    from ding_lite.model import PG

    model = PG(4, 2)
    encoder = 4 * sum(parameter.numel() for parameter in model.encoder.parameters())
    everything = 4 * sum(parameter.numel() for parameter in model.parameters())
    features = 4 * 64  # of one sample
    return {
        "the same, sockets": f"{8 * features + 8 * 8:,} / {4 * encoder + 64 * (2 * features + 8):,}",
        "two ranks, sockets": f"0 / {2 * everything:,}",
    }


def main() -> None:
    """Run every way in turn and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20_000, help="env steps of one run")
    parser.add_argument("--way", help=argparse.SUPPRESS)
    parser.add_argument("--result", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.way:
        worker(args.way, args.steps, args.result)
        return
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    for number in range(args.rounds):
        for way in WAYS:
            print(f"round {number}: {way}", file=sys.stderr)
            found[way].append(run(way, args))
    print(
        "| way | env steps/s | ms a row of 8 | bytes a row | ms a learning step | bytes a step | tensors, row / step |"
    )
    print("|---|---|---|---|---|---|---|")
    sent = payload()
    for way, runs in found.items():
        collects, steps = ([run[part] for run in runs] for part in ("collect", "learn"))
        rate = statistics.median(part["units"] / part["seconds"] for part in collects)
        step = statistics.median(part["seconds"] / part["units"] for part in steps)
        row, learn = (
            statistics.median((part["written"] + part["read"]) / part["units"] for part in parts)
            for parts in (collects, steps)
        )
        each = 8 * min(2, WAYS[way]) / rate  # two processes play at a time
        figures = f"{rate:,.0f} | {1000 * each:.2f} | {8 * row:,.0f} | {1000 * step:.2f} | {learn:,.0f}"
        print(f"| {way} | {figures} | {sent.get(way, '-')} |")


if __name__ == "__main__":
    main()
