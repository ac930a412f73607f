"""What many machines would give: a model of a learning step, checked on up to eight emulated ones.

    python -m tests.benchmarks.scale_model [--write] [--limits]

1. Three tasks run for seconds on one core, for what a step consists of: collect, forward (with sampling), backward (and
   when the gradient of each parameter is there), update, evaluation, checkpoint; and on two ranks, for what each way to
   average costs in memory.
2. Machines are network namespaces, whose cables have a rate and a delay (`scale_network`). Their ranks use the
   package's collectives and sleep while they would compute (`scale_steps`).
3. A link is emulated slower than it is, and computing and delays with it: eight links of 10 Gbit/s would need more than
   two cores. Times are divided by this factor (time dilation: Gupta et al., NSDI 2006).
4. All-reduces between two machines fit the model below. It then predicts whole steps of 2, 4 and 8 machines, beside
   what they take, and the steps of up to 1,024 ranks.

A ring of n peers (Thakur, Rabenseifner and Gropp, 2005) that adds up B bytes takes 2 (n - 1) rounds of B / n bytes:

    T(n, B) = 2 (n - 1) (a p + b B / n),    a = x R + u,    b = y / W + v

R: round trip, since gloo's receiver announces every segment; W: bytes a second; u, v: time of the hosts for a round and
a byte; x, y: near 1. gloo cuts a round into pieces of at most 1 MiB, and works at two of them at a time: p is half
their number, at least 1. One number takes half the rounds.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.distributed as dist

from tests.benchmarks.scale_network import Network
from tests.benchmarks.scale_steps import TASKS, WAYS, Step
from tests.distributed.launcher import ROOT, clean_environment, finish, start
from tests.survival.machines import ENCLOSE, obstacle

MIB = 2**20
RELAYED = 400e6  # bytes a second that the relay carries for all machines together
SLOWER = 8.0  # least factor by which links are emulated slower
SHORTEST, LONGEST = 0.4, 3.0  # emulated seconds of a step: shorter ones are slowed down further, longer ones skipped
MEMORY = "memory"  # between ranks of one machine
LINKS = {  # bytes a second, seconds of one way
    MEMORY: (math.inf, 0.0),
    **{f"{gbit} Gbit/s, {delay} ms": (gbit * 1e9 / 8, delay / 1000) for gbit in (1, 10) for delay in (0.1, 1)},
}
CABLES = {name: link for name, link in LINKS.items() if name != MEMORY}
SIZES = (2**16, MIB, 2**23)  # bytes of the all-reduces that the model is fitted to
CHECKED = {  # ways of which whole steps are measured, by the number of machines
    2: ("flat", "ddp"),
    4: ("flat", "ddp, 1 MiB", "ddp, fp16"),
    8: ("flat", "ddp, powersgd"),
}
REPEATS = (2, 4, 40)  # of a case: at least, at most, and within a machine
RANKS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
PER_MACHINE = (1, 8)
SPREADS = (0.05, 0.2)  # of the seconds of a rank's iteration: standard deviation over the mean
DESCRIPTORS = 10  # open files of a rank, beside a connection to every rank
STORE = (15e-6, 0.28e-6)  # seconds of the store's thread for a request, and for each value in it or its answer
REQUESTS = 2  # of a rank in a second: its report, and those of others
PAGE = ROOT / "docs/scaling.md"
TITLE = {"mlp": "MLP of 256, 256, on CartPole", "nature": "Nature network, on Pong", "impala": "IMPALA's, on Pong"}


# The model


class Case(NamedTuple):
    """What machines were measured at: a whole step of a task, or an all-reduce if `way` is empty."""

    machines: int
    link: str
    slower: float
    task: str
    way: str
    size: int
    seconds: float


class Model(NamedTuple):
    """What was fitted: x, y, u and v of the equation; `host`: seconds of each task and way to average in memory."""

    x: float
    y: float
    u: float
    v: float
    host: dict[str, dict[str, float]]

    def ring(self, n: int, size: float, link: tuple[float, float], slower: float = 1.0) -> float:
        """Return the seconds of an all-reduce of n peers; hosts are faster by `slower` than the emulated link."""
        rate, delay = link
        rounds = rounds_of(n, size)
        latency = 2 * delay * self.x + self.u / slower
        return rounds * latency + 2 * (n - 1) / n * size * (self.y / rate + self.v / slower)

    def average(self, task: str, step: Step, way: str, n: int, link: tuple[float, float], slower: float = 1.0) -> float:
        """Return the seconds of backward and average of n peers."""
        host = self.host[task][way] / slower
        if way == "flat":
            return step.backward + host + self.ring(n, sum(step.sizes), link, slower)
        end = 0.0
        for bucket in buckets(step, way):
            sent = sum(self.ring(n, size, link, slower) for size in sizes_of(step, way, bucket))
            end = max(end, max(step.ready[index] for index in bucket)) + sent
        return max(end, step.backward) + host + self.number(n, link, slower)

    def number(self, n: int, link: tuple[float, float], slower: float = 1.0) -> float:
        """Return the seconds of an all-reduce of one number."""
        return n / 4 * self.ring(2, 4, link, slower)

    def step(self, case: Case, step: Step) -> float:
        """Return the seconds of an iteration of a case, as `Sleeper.step` takes them."""
        link = LINKS[case.link]
        average = self.average(case.task, step, case.way, case.machines, link, case.slower)
        return step.collect + step.forward + average + step.update + self.number(case.machines, link, case.slower)

    def iteration(
        self, task: str, step: Step, way: str, ranks: int, per_machine: int, link: tuple[float, float]
    ) -> float:
        """Return the seconds of an iteration with evaluations and checkpoints."""
        if ranks == 1:
            return step.alone
        machines = math.ceil(ranks / per_machine)
        # DDP knows no machines: all ranks are one ring, in which the slowest hop counts.
        link, peers = link if machines > 1 else LINKS[MEMORY], machines if way == "flat" else ranks
        counts = self.number(machines, link) / step.iterations if machines > 1 else 0.0
        return step.alone - step.backward + self.average(task, step, way, peers, link) + counts


def rounds_of(n: int, size: float) -> float:
    """Return 2 (n - 1) p."""
    return 2 * (n - 1) * max(1.0, math.ceil(size / n / MIB) / 2)


def fit(cases: Sequence[Case]) -> Model:
    """Return the model of all-reduces, without what hosts take to average in memory."""
    from scipy.optimize import nnls

    rows = []
    for case in cases:
        rate, delay = LINKS[case.link]
        rounds, sent = rounds_of(case.machines, case.size), 2 * (case.machines - 1) / case.machines * case.size
        rows.append(
            np.array([rounds * 2 * delay, sent / rate, rounds / case.slower, sent / case.slower]) / case.seconds
        )
    x, y, u, v = nnls(np.array(rows), np.ones(len(rows)))[0].tolist()
    return Model(x, y, u, v, {})


def buckets(step: Step, way: str) -> list[list[int]]:
    """Return the parameters that torch's DistributedDataParallel averages together, in the order in which it does."""
    return _buckets(tuple(step.sizes), WAYS[way]["ddp"].get("bucket_cap_mb", 25.0))


@functools.cache
def _buckets(sizes: tuple[int, ...], cap: float) -> list[list[int]]:
    found = dist._compute_bucket_assignment_by_size([torch.empty(size // 4) for size in sizes], [int(cap * MIB)])[0]
    return found[::-1]


def sizes_of(step: Step, way: str, bucket: Sequence[int] | None = None) -> list[float]:
    """Return the bytes of the all-reduces of a bucket, or of all parameters."""
    bucket = range(len(step.shapes)) if bucket is None else bucket
    total = sum(step.sizes[index] for index in bucket)
    if way != "ddp, powersgd":
        return [total / 2 if way == "ddp, fp16" else total]
    sides = [(step.shapes[index][0], math.prod(step.shapes[index][1:])) for index in bucket]
    small = [(rows, columns) for rows, columns in sides if 2 * (rows + columns) < rows * columns]
    left = total - 4 * sum(rows * columns for rows, columns in small)
    return [4.0 * sum(side[which] for side in small) for which in (0, 1) if small] + [float(left)] * bool(left)


# The report


def measure_all(folder: Path, steps: dict[str, Step]) -> tuple[Model, list[Case]]:
    """Measure what averages cost in memory and over links, and whole steps; only inside of `ENCLOSE`."""
    rings = {link: [Case(2, link, 1.0, "", "", size, 0.0) for size in SIZES] for link in LINKS}
    awake = {
        task: step._replace(collect=0, forward=0, update=0, ready=[0.0] * len(step.ready))
        for task, step in steps.items()
    }
    names = [(task, way) for task in steps for way in WAYS]
    done = carry_out(folder, 1, [*rings[MEMORY], *(Case(2, MEMORY, 1.0, *name, 0, 0.0) for name in names)], awake, 2)
    model = fit(done[: len(SIZES)])._replace(x=1.0, y=1.0, host={task: {} for task in steps})
    for case in done[len(SIZES) :]:
        sent = sum(model.ring(2, size, LINKS[MEMORY]) for size in sizes_of(steps[case.task], case.way))
        model.host[case.task][case.way] = max(case.seconds - (case.way != "flat") * sent, 0.0)
    found = done[: len(SIZES)]
    for machines, ways in CHECKED.items():
        planned = list[Case]()
        for link, (task, step) in itertools.product(CABLES, steps.items()):
            least = max(SLOWER, machines * LINKS[link][0] / RELAYED)
            for way in ways:
                expected = model.step(Case(machines, link, least, task, way, 0, 0.0), step)
                slower = max(least, SHORTEST / expected)
                if slower * expected < LONGEST:
                    planned.append(Case(machines, link, slower, task, way, 0, slower * expected))
        if machines == 2:
            planned += [case._replace(slower=SLOWER) for link in CABLES for case in rings[link]]
        found += carry_out(folder, machines, planned, steps)
        print(f"{machines} machines measured", file=sys.stderr, flush=True)
    model = fit([case for case in found if case.size])._replace(host=model.host)
    return model, [case for case in found if case.task]


def carry_out(folder: Path, machines: int, cases: Sequence[Case], steps: dict[str, Step], nproc: int = 1) -> list[Case]:
    """Return cases with the seconds that they took; those that they have are expected ones."""
    plan = []
    for case in cases:
        most = REPEATS[2] if nproc > 1 else REPEATS[1]
        repeats = int(min(max(2 * LONGEST / (case.seconds or 0.1), REPEATS[0]), most))
        plan.append((LINKS[case.link], case.slower, steps[case.task] if case.task else case.size, case.way, repeats))
    network = Network(machines, folder)
    try:
        found = network.run(plan, nproc)
    finally:
        network.close()
    # Other work on this computer can only add to a time.
    return [case._replace(seconds=min(times)) for case, times in zip(cases, found, strict=True)]


def parts(model: Model, steps: dict[str, Step]) -> Iterator[str]:
    """Yield the table of what an iteration consists of."""
    names = ("collect", "forward", "backward", "update", "evaluation", "checkpoint")
    yield f"| network | gradient, MB | {', ms | '.join(names)}, ms | average of two ranks in memory, ms | env steps/s |"
    yield "|---" * (len(names) + 4) + "|"
    for task, step in steps.items():
        cells = [f"{sum(step.sizes) / 1e6:.2f}", *(f"{1e3 * seconds:.2f}" for seconds in step[:6])]
        cells += [f"{1e3 * model.host[task]['flat']:.2f}", f"{step.env_steps / step.alone:,.0f}"]
        yield f"| {TITLE[task]} | {' | '.join(cells)} |"
    yield f"\nx = {model.x:.2f}, y = {model.y:.2f}, u = {1e3 * model.u:.2f} ms, v = {1e9 * model.v:.2f} ns.\n"


def checked(model: Model, steps: dict[str, Step], cases: Sequence[Case]) -> Iterator[str]:
    """Yield the table of predicted and measured steps."""
    yield "| machines | link | network | way | predicted, ms | measured, ms | ratio |\n" + "|---" * 7 + "|"
    ratios = []
    for case in cases:
        expected = model.step(case, steps[case.task])
        ratios.append(expected / case.seconds)
        row = (case.machines, case.link, case.task, case.way, *(f"{1e3 * s:.1f}" for s in (expected, case.seconds)))
        yield f"| {' | '.join(map(str, row))} | {ratios[-1]:.2f} |"
    good = sum(abs(ratio - 1) <= 0.15 for ratio in ratios)
    middle, worst = statistics.median(abs(ratio - 1) for ratio in ratios), max(ratios, key=lambda ratio: abs(ratio - 1))
    yield f"\n{good} of {len(ratios)} within 15 %; median error {middle:.1%}, largest {worst - 1:+.0%}.\n"


def predicted(model: Model, steps: dict[str, Step]) -> Iterator[str]:
    """Yield the table of efficiencies: as a config is, and the best option."""
    shown = (8, 64, 512)
    yield "| network | link | at least half up to | " + " | ".join(f"{ranks} ranks" for ranks in shown) + " |"
    yield "|---" * (3 + len(shown)) + "|"
    for (task, step), (name, link) in itertools.product(steps.items(), CABLES.items()):
        found = {ranks: efficiencies(model, task, step, ranks, link) for ranks in RANKS}
        plain = max(ranks for ranks in RANKS if found[ranks]["flat", 1] >= 0.5)
        best = max(ranks for ranks in RANKS if max(found[ranks].values()) >= 0.5)
        cells = [f"{plain:,}; {best:,}"]
        for options in (found[ranks] for ranks in shown):
            way, each = max(options, key=lambda option: options[option])
            cells.append(f"{options['flat', 1]:.0%}; {options[way, each]:.0%}: {way}, {each}")
        yield f"| {task} | {name} | {' | '.join(cells)} |"


def complete(model: Model, steps: dict[str, Step]) -> Iterator[str]:
    """Yield env steps a second and efficiency of everything."""
    yield "| network | link | way | a machine | " + " | ".join(f"{ranks:,}" for ranks in RANKS) + " |"
    yield "|---" * (4 + len(RANKS)) + "|"
    for (task, step), (name, link) in itertools.product(steps.items(), CABLES.items()):
        found = [efficiencies(model, task, step, ranks, link) for ranks in RANKS]
        for way, each in found[0]:
            parts = [at[way, each] for at in found]
            rates = [ranks * step.env_steps / step.alone * part for ranks, part in zip(RANKS, parts, strict=True)]
            cells = [f"{rate:,.0f} ({part:.0%})" for rate, part in zip(rates, parts, strict=True)]
            yield f"| {task} | {name} | {way} | {each} | {' | '.join(cells)} |"


def efficiencies(
    model: Model, task: str, step: Step, ranks: int, link: tuple[float, float]
) -> dict[tuple[str, int], float]:
    """Return the env steps of a rank, as a part of those of a rank alone, by way and ranks of a machine."""
    options = itertools.product(WAYS, PER_MACHINE)
    return {(way, each): step.alone / model.iteration(task, step, way, ranks, each, link) for way, each in options}


def longest(ranks: int) -> float:
    """Return the expected maximum of as many standard normal numbers (Blom's approximation)."""
    return statistics.NormalDist().inv_cdf((ranks - 0.375) / (ranks + 0.25)) if ranks > 1 else 0.0


def limits() -> Iterator[str]:
    """Yield the table of what the model of the average leaves out."""
    head = [f"slower, spread {spread:.0%}" for spread in SPREADS]
    yield f"| ranks | {' | '.join(head)} | descriptors of a rank | store, values a second | store, share of a core |"
    yield "|---" * (len(head) + 4) + "|"
    request, value = STORE
    for ranks in (8, 64, 512, 1024):
        waits = [f"{spread * longest(ranks):.0%}" for spread in SPREADS]
        # of ranks on machines of 8, see tests/utils/ranks/test_watchdog.py; and if each reads the reports of all
        moved = [ranks + 60 + 100 * (ranks // 8 - 1), ranks * (ranks + 2)]
        busy = [ranks * REQUESTS * request + value * each for each in moved]
        cells = [
            f"{ranks:,}",
            *waits,
            f"{DESCRIPTORS + ranks:,}",
            "; ".join(f"{each:,}" for each in moved),
            "; ".join(f"{part:.1%}" for part in busy),
        ]
        yield f"| {' | '.join(cells)} |"


def draw(model: Model, steps: dict[str, Step], path: Path) -> None:
    """Draw the efficiency over the number of ranks, a panel for each network."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, len(steps), figsize=(12, 3.6), sharey=True)
    for panel, (task, step) in zip(panels, steps.items(), strict=True):
        for colour, (name, link) in enumerate(CABLES.items()):
            found = [efficiencies(model, task, step, ranks, link) for ranks in RANKS]
            for style, each in (("-", 1), ("--", 8)):
                label = name if each == 1 and task == next(iter(steps)) else None
                panel.plot(RANKS, [at["flat", each] for at in found], style, color=f"C{colour}", label=label)
        panel.set(title=TITLE[task], xlabel="ranks", xscale="log", ylim=(0, 1))
        panel.set_xticks(RANKS[::2], RANKS[::2])
        panel.minorticks_off()
    panels[0].set_ylabel("env steps of a rank, of one alone")
    figure.legend(loc="lower center", ncols=len(CABLES), bbox_to_anchor=(0.5, -0.08), frameon=False)
    figure.savefig(path, dpi=110, bbox_inches="tight")


def measure(path: Path) -> None:
    """Measure everything, and write it to a file."""
    steps = {}
    for task in TASKS:
        with tempfile.TemporaryDirectory() as folder:
            words = [sys.executable, "-m", "tests.benchmarks.scale_steps", "--task", task]
            done = finish(start(words, {"OMP_NUM_THREADS": "1"}, folder), timeout=600)
            assert not done.returncode, done.stderr[-2000:]
            steps[task] = json.loads(Path(folder, "step").read_text())
        print(f"{task} measured", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "steps").write_text(json.dumps(steps))
        words = [sys.executable, "-m", "tests.benchmarks.scale_model", "--inside", folder]
        subprocess.run([*ENCLOSE, *words], env=clean_environment(), check=True)
        shutil.copy(Path(folder, "measured"), path)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--measured", metavar="FILE", help="what was measured: read if it is there, else written")
    parser.add_argument("--all", action="store_true", help="print every way, number of ranks and ranks of a machine")
    parser.add_argument("--write", action="store_true", help="write tables and picture for docs/scaling.md")
    parser.add_argument("--limits", action="store_true", help="print only what the model leaves out; measures nothing")
    parser.add_argument("--inside", metavar="DIR", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside:
        folder = Path(args.inside)
        inside = {task: Step(*step) for task, step in json.loads((folder / "steps").read_text()).items()}
        (folder / "measured").write_text(json.dumps([inside, *measure_all(folder, inside)]))
        return
    if args.limits:
        show({"limits": limits()}, args.write)
        return
    if reason := obstacle():
        sys.exit(reason)
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(args.measured or f"{temporary}/measured")
        if not path.exists():
            measure(path)
        raw_steps, raw_model, raw_cases = json.loads(path.read_text())
    steps, model = {task: Step(*step) for task, step in raw_steps.items()}, Model(*raw_model)
    tables = {"parts": parts(model, steps), "checked": checked(model, steps, [Case(*case) for case in raw_cases])}
    tables["predicted"] = complete(model, steps) if args.all else predicted(model, steps)
    show(tables | {"limits": limits()}, args.write)
    if args.write:
        draw(model, steps, PAGE.parent / "images" / "scaling.png")


def show(tables: dict[str, Iterator[str]], write: bool) -> None:
    """Print tables, and write them into the page if `write`."""
    text = {name: "\n".join(lines).strip() for name, lines in tables.items()}
    print(*text.values(), sep="\n\n")
    if write:
        page = PAGE.read_text()
        for name, table in text.items():
            page = re.sub(rf"(<!-- {name} -->\n).*?(<!-- end -->)", rf"\g<1>\n{table}\n\n\2", page, flags=re.S)
        PAGE.write_text(page)


if __name__ == "__main__":
    main()
