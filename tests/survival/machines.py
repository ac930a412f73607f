"""Two or three machines, as network namespaces of this one, train together; one is cut off, or dies, or comes.

    python -m tests.survival.machines [SCENARIO ...]

Everything happens inside one `unshare`, whose end is the end of every process, link, host name and mount in it. In
there each machine has a network of its own with a cable to a switch, a host name and, at every boot, processes of its
own. They share their files, but no memory. A job that needs two machines must equal one that was left in peace,
whatever happens. An elastic job goes on with the machines that there are: its steps and figures have no gap. `obstacle`
tells why that cannot be had on this computer.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from tests.distributed.launcher import finish, start
from tests.survival.common import CONFIGS, checkpoints, compare_runs, logged_iter, points, read_json, read_metrics

BOOT = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
ENCLOSE = [*BOOT, "--user", "--map-root-user", "--net", "--uts", "--mount"]
PORT = 29500
TIMEOUT = 180.0  # seconds for one thing to happen
LONG = 75.0  # seconds: longer than the minute that torch's launchers wait for an answer of their store
ENVIRONMENT = {"DING_LITE_DEAD_TIMEOUT": "6", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
WORDS = [
    "policy.multi_gpu=True", "env.stop_value=None", "max_env_step=2000", "policy.eval.evaluator.eval_freq=200",
    "policy.learn.learner.hook.save_ckpt_after_iter=100", "policy.learn.learner.hook.log_show_after_iter=25",
]  # fmt: skip
LOSS, LOG_INTERVAL, SAVE_INTERVAL = "train/total_loss", 25, 100
QUICK = "last_call_timeout=3,keep_alive_interval=2,join_timeout=1800"
ELASTIC_WORDS = [
    "env.stop_value=None", "policy.eval.evaluator.eval_freq=5000",
    f"policy.learn.learner.hook.save_ckpt_after_iter={SAVE_INTERVAL}",
    f"policy.learn.learner.hook.log_show_after_iter={LOG_INTERVAL}",
]  # fmt: skip


class Machine:
    """A network namespace with a host name, and one command at most."""

    def __init__(self, number: int) -> None:
        self.name, self.addr, self.link = f"machine-{'abc'[number]}", f"10.77.0.{number + 1}", f"eth{number}"
        hold = "import signal, socket; socket.sethostname(input()); print(flush=True); signal.pause()"
        words = ["unshare", "--net", "--uts", sys.executable, "-c", hold]
        self._holder = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._holder.stdin is not None
        assert self._holder.stdout is not None
        self._holder.stdin.write(f"{self.name}\n")
        self._holder.stdin.flush()
        assert self._holder.stdout.readline(), "no network namespace"
        self.pid = self._holder.pid
        self._process: subprocess.Popen[bytes] | None = None

    def _inside(self, words: list[str]) -> list[str]:
        return ["nsenter", f"--target={self.pid}", "--net", "--uts", *words]

    def ip(self, words: str) -> None:
        subprocess.run(self._inside(["ip", *words.split()]), check=True)

    def boot(self, words: list[str], log: Path) -> None:
        """Start a command; all that it starts ends with it."""
        with log.open("a") as file:
            self._process = subprocess.Popen(
                self._inside([*BOOT, *words]), stdin=subprocess.DEVNULL, stdout=file, stderr=file
            )

    @property
    def status(self) -> int | None:
        """How the command ended; None while it runs."""
        assert self._process
        return self._process.poll()

    def plug(self, state: str) -> None:
        """Plug its cable in ("up") or pull it out ("down")."""
        self.ip(f"link set {self.link} {state}")

    def terminate(self) -> None:
        """Send SIGTERM to its launcher, the first process that `boot` has started."""
        assert self._process
        os.kill(int(Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text()), signal.SIGTERM)

    def kill(self) -> None:
        """Kill all its processes at once."""
        assert self._process
        self._process.kill()
        self._process.wait()


def build(folder: Path) -> list[Machine]:
    """Return three machines that reach each other, and know each other's names. Only inside of `ENCLOSE`."""
    machines = [Machine(number) for number in range(3)]
    hosts = folder / "hosts"
    hosts.write_text("127.0.0.1 localhost\n" + "".join(f"{machine.addr} {machine.name}\n" for machine in machines))
    subprocess.run(["mount", "--bind", str(hosts), "/etc/hosts"], check=True)
    switch = ["link add switch type bridge", "link set switch up"]
    for machine in machines:
        port = f"port-{machine.name}"
        cable = f"link add {port} type veth peer name {machine.link} netns {machine.pid}"
        switch += [cable, f"link set {port} master switch up"]
    for words in switch:
        subprocess.run(["ip", *words.split()], check=True)
    for machine in machines:
        machine.ip("link set lo up")
        machine.ip(f"addr add {machine.addr}/24 dev {machine.link}")
        machine.ip(f"link set {machine.link} up")
    return machines


class Job:
    """A training run on two machines, whose directory is `run` in a folder of its own."""

    def __init__(self, machines: Sequence[Machine], folder: Path, static: bool = False) -> None:
        self.machines, self._folder, self._static = machines, folder, static
        self.run = folder / "run"
        folder.mkdir()
        self._start = time.monotonic()
        self.begin()

    def begin(self) -> None:
        """Start the run on all machines."""
        train = ["-m", "serial", "-c", str(CONFIGS["cartpole dqn"]), "-s", "3", f"exp_name={self.run}", *WORDS]
        for machine in self.machines:
            self.boot(machine, train)

    def boot(self, machine: Machine, words: list[str] | None = None) -> None:
        """Start the machine's part of the job; by default as one that goes on in the directory."""
        first = self.machines[0]
        if self._static:
            rank = self.machines.index(machine)
            meet = [f"--master_addr={first.name}", f"--master_port={PORT}", f"--node_rank={rank}"]
        else:
            meet = ["--rdzv_backend=c10d", f"--rdzv_endpoint={first.name}:{PORT}", "--rdzv_id=job"]
            meet += ["--rdzv_conf=read_timeout=900,join_timeout=1800"]
        self.launch(machine, ["--nnodes=2", "--max_restarts=3", *meet], words or ["resume", str(self.run)])

    def launch(self, machine: Machine, options: list[str], words: list[str]) -> None:
        """Start torch's launcher with options, and one rank that does what the words say."""
        launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=1", *options]
        machine.boot([*launcher, "-m", "ding_lite", *words], self._log(machine))

    def _log(self, machine: Machine) -> Path:
        return self._folder / f"{machine.name}.log"

    def note(self, what: str) -> None:
        print(f"{self._folder.name:16} {time.monotonic() - self._start:6.1f} s  {what}", flush=True)

    def wait(self, condition: Callable[[], object], what: str) -> None:
        """Wait until something has happened, and say when it did.

        Raises:
            AssertionError: it does not happen; with the last lines of both machines.
        """
        end = time.monotonic() + TIMEOUT
        while not condition():
            if time.monotonic() > end:
                logs = [f"{machine.name}:\n{self._log(machine).read_text()[-3000:]}" for machine in self.machines]
                raise AssertionError(f"{self._folder.name}: not {what} within {TIMEOUT:g} s\n" + "\n".join(logs))
            time.sleep(0.05)
        self.note(what)

    def wait_for_checkpoint(self) -> None:
        self.wait(lambda: len(checkpoints(self.run)) >= 2, "two checkpoints")

    def wait_for_both(self) -> None:
        self.wait(lambda: {rank for rank, _ in running_ranks()} == {0, 1}, "both ranks run")

    def wait_for_end(self, ranks: set[tuple[int, int]]) -> None:
        self.wait(lambda: ranks.isdisjoint(running_ranks()), "the ranks have ended")

    def expect(self, machine: Machine, pattern: str) -> None:
        """Raise `AssertionError` unless a line of a machine's output is like the pattern."""
        text = self._log(machine).read_text()
        assert re.search(f"^{pattern}", text, re.MULTILINE), (
            f"{machine.name} did not say '{pattern}', but\n{text[-3000:]}"
        )

    def end(self) -> None:
        """Wait for the end on both machines, which must be a good one."""
        self.wait(lambda: all(machine.status is not None for machine in self.machines), "both launchers have ended")
        for machine in self.machines:
            assert machine.status == 0, f"{machine.name}: {machine.status}\n{self._log(machine).read_text()[-3000:]}"
        found = sorted(path.name for path in self._folder.glob("run*"))
        assert found == ["run"], f"expected one experiment directory, got {found}"


class ElasticJob(Job):
    """A training run on as many of the machines as there are; each starts the same command whenever it boots.

    Attributes:
        port: of the store, which the first machine's launcher keeps.
        shared_store: whether the launchers meet in a file instead.
    """

    port, shared_store = PORT, False

    def begin(self) -> None:
        """Start the run on the first machine."""
        self.boot(self.machines[0])

    def boot(self, machine: Machine, words: list[str] | None = None) -> None:
        """Start the machine's launcher, which joins the job, or begins it."""
        meet = [f"--rdzv_endpoint={self.machines[0].addr}:{self.port}", f"--rdzv_conf=read_timeout=900,{QUICK}"]
        if self.shared_store:
            meet = [f"--rdzv_endpoint={self._folder / 'rendezvous'}", f"--rdzv_conf=store_type=file,{QUICK}"]
        options = ["--nnodes=1:3", "--max_restarts=10", "--rdzv_backend=c10d", "--rdzv_id=job", *meet]
        options += [f"--local_addr={machine.addr}"]
        train = ["train", "-c", str(CONFIGS["cartpole dqn"]), "-s", "3", "--divide", f"exp_name={self.run}"]
        self.launch(machine, options, [*train, *ELASTIC_WORDS])

    def log(self) -> str:
        """Return the text of the run's log."""
        return (self.run / "log" / "log.txt").read_text()

    def change(self, event: Callable[[], None], line: str, *ranks: Machine) -> None:
        """Let something happen, and wait until the run learns again, with a rank on each of some machines.

        Raises:
            AssertionError: it does not, or went back by more than one save interval, or did not log a line like this.
        """
        self.wait(lambda: len(checkpoints(self.run)) >= 2, "two checkpoints")
        before, start, said = logged_iter(self.run), time.time(), len(self.log())
        event()
        pattern = rf"{line}: the run goes on with {len(ranks)} rank.*\n(.*\n)*.*resumed from .*, iteration (\d+)\n"
        self.wait(lambda: re.search(pattern, self.log()[said:]), line.replace("\\", ""))
        found = re.search(pattern, self.log()[said:])
        assert found
        resumed = int(found[2])
        self.wait(lambda: logged_iter(self.run) > resumed, f"learned on, after {resumed - before} iterations")
        seconds = read_metrics(self.run)[-1]["time"] - start
        assert before - resumed <= SAVE_INTERVAL, f"the run went back from iteration {before} to {resumed}"
        self.note(f"the next learning step came after {seconds:.1f} s")

    def end(self) -> None:
        """End the job by a signal to all launchers, which must end it for good, and look at what it has recorded."""
        for machine in self.machines:
            if machine.status is None:
                machine.terminate()
        self.wait(lambda: all(machine.status is not None for machine in self.machines), "all launchers have ended")
        assert read_json(self.run / "result.json")["signal"] == signal.SIGTERM
        assert [path.name for path in self._folder.glob("run*")] == ["run"]
        check_record(self.run)


class SharedStoreJob(ElasticJob):
    """An elastic job whose launchers meet in a file that all of them see."""

    shared_store = True


def check_record(run: Path) -> None:
    """Raise `AssertionError` if the figures of a run have a gap, or differ in their two files."""
    lines = [line for line in read_metrics(run) if LOSS in line]
    iterations = [line["train_iter"] for line in lines]
    assert iterations == [*range(LOG_INTERVAL, iterations[-1] + 1, LOG_INTERVAL)]
    assert [line["envstep"] for line in lines] == [step for step, tag, _ in points(run)[0] if tag == LOSS]


def running_ranks() -> set[tuple[int, int]]:
    """Return number and process of each rank on either machine."""
    ranks = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # gone meanwhile
            found = re.findall(rb"(?:^|\0)RANK=(\d+)", path.read_bytes())
            ranks |= {(int(rank), int(path.parent.name)) for rank in found}
    return ranks


# What happens to a job.


def cut(job: Job, seconds: float = 0.0) -> None:
    """Cut the second machine off, until the ranks have ended and for so many seconds at least."""
    first, second = job.machines
    job.wait_for_checkpoint()
    ranks, start = running_ranks(), time.monotonic()
    second.plug("down")
    job.note("machine-b is cut off")
    job.wait_for_end(ranks)
    job.expect(first, r"\[rank 0\] ends because rank 1 \(pid \d+ on machine-b\) was not heard of .* dead or cut off")
    job.expect(second, r"\[rank 1\] ends because .* on machine-a\), which keeps the store .* dead or cut off")
    time.sleep(max(0.0, start + seconds - time.monotonic()))
    second.plug("up")
    job.note("machine-b is back")
    job.wait_for_both()


def lose_power(job: Job, number: int = 1) -> None:
    """Let a machine vanish without a word to the other one, and boot it again, as often as its launcher ends."""
    lost, other = job.machines[number], job.machines[1 - number]
    job.wait_for_checkpoint()
    ranks = running_ranks()
    lost.plug("down")
    lost.kill()
    job.note(f"{lost.name} is dead")
    job.wait_for_end(ranks)
    job.expect(other, rf"\[rank {1 - number}\] ends because .* on {lost.name}\).* dead or cut off")
    lost.plug("up")
    job.boot(lost)
    job.note(f"{lost.name} boots")
    if number == 0:  # the store is gone, and so the other launcher ends when it hears that
        job.wait(lambda: other.status is not None, f"{other.name}'s launcher has ended")
        job.boot(other)
    job.wait_for_both()


def kill(job: Job) -> None:
    """Kill all processes of the second machine, whose system tells the other, and start them again."""
    first, second = job.machines
    job.wait_for_checkpoint()
    ranks = running_ranks()
    second.kill()
    job.note("machine-b's processes are killed")
    job.wait_for_end(ranks)
    job.expect(first, r"\[rank 0\] ends because rank 1 \(pid \d+ on machine-b\)")
    job.boot(second)
    job.wait_for_both()


def come_and_go(job: ElasticJob) -> None:
    """Let two machines join the first one, kill one of them, let it come again, and cut it off until it comes back."""
    first, second, third = job.machines
    job.change(lambda: job.boot(second), r"machine-b joined \(rank 1\)", first, second)
    job.change(lambda: job.boot(third), r"machine-c joined \(rank 2\)", first, second, third)
    job.change(second.kill, r"machine-b left \(rank 1\)", first, third)
    job.change(lambda: job.boot(second), r"machine-b joined \(rank 1\)", first, second, third)
    job.change(lambda: second.plug("down"), r"machine-b left \(rank 1\)", first, third)
    job.change(lambda: second.plug("up"), r"machine-b joined \(rank 1\)", first, second, third)


def lose_first(job: ElasticJob) -> None:
    """Let the machine of rank 0 vanish without a word, and come back."""
    first, second, third = job.machines

    def vanish() -> None:
        first.plug("down")
        first.kill()

    def come_back() -> None:
        first.plug("up")
        job.boot(first)

    job.change(lambda: job.boot(second), r"machine-b joined \(rank 1\)", first, second)
    job.change(lambda: job.boot(third), r"machine-c joined \(rank 2\)", first, second, third)
    job.change(vanish, r"machine-a left \(rank 0\)", second, third)
    job.change(come_back, r"machine-a joined \(rank 0\)", first, second, third)


SCENARIOS: dict[str, Callable[[Job], None]] = {
    "cut": cut,
    "cut_long": lambda job: cut(job, LONG),
    "kill": kill,
    "power_b": lose_power,
    "power_a": lambda job: lose_power(job, 0),
}
ELASTIC: dict[str, tuple[type[ElasticJob], Callable[[ElasticJob], None]]] = {
    "come_and_go": (ElasticJob, come_and_go),
    "lose_first": (SharedStoreJob, lose_first),
}
STATIC = "static_"  # before a scenario: launchers that meet without torch's rendezvous


def play(names: list[str], folder: Path) -> None:
    """Run scenarios, each with a job of its own that must be equal to one that was left in peace."""
    machines = build(folder)
    for name in [name for name in names if name in ELASTIC]:
        kind, happen = ELASTIC[name]
        elastic = kind(machines, folder / name)
        happen(elastic)
        elastic.end()
        elastic.note("its steps and figures have no gap")
    names = [name for name in names if name not in ELASTIC]
    if not names:
        return
    whole = Job(machines[:2], folder / "whole")
    whole.wait_for_both()
    whole.end()
    for name in names:
        job = Job(machines[:2], folder / name, static=name.startswith(STATIC))
        SCENARIOS[name.removeprefix(STATIC)](job)
        job.end()
        compare_runs(whole.run, job.run)
        job.note("equal to the run that was left in peace")


def play_inside(names: list[str], timeout: float) -> subprocess.CompletedProcess[str]:
    """Run scenarios in an enclosure; none: only build the machines."""
    with tempfile.TemporaryDirectory() as folder:
        return finish(start(_command(names), {**ENVIRONMENT, "TMPDIR": folder}), timeout)


def _command(names: list[str]) -> list[str]:
    return [*ENCLOSE, sys.executable, "-m", "tests.survival.machines", "--inside", *names]


def obstacle() -> str:
    """Return why there can be no such machines on this computer; empty if there can."""
    try:
        run = play_inside([], timeout=60)
    except FileNotFoundError as error:
        return f"no machines out of network namespaces here: {error}"
    last = run.stderr.strip().splitlines()[-1:]
    return f"no machines out of network namespaces here: {' '.join(last)}" if run.returncode else ""


def main() -> None:
    """Run the scenarios, one line for each thing that happens."""
    parser = argparse.ArgumentParser(description="Train on machines that are cut off, die or come.")
    known = [*ELASTIC, *SCENARIOS, *(STATIC + name for name in SCENARIOS)]
    parser.add_argument("names", nargs="*", metavar="SCENARIO", help=f"of {', '.join(known)}; none: all")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    wrong = set(args.names) - set(known)
    if wrong:
        parser.error(f"expected scenarios of {', '.join(known)}, got {', '.join(sorted(wrong))}")
    if args.inside:
        play(args.names, Path(tempfile.gettempdir()))
        return
    reason = obstacle()
    if reason:
        sys.exit(reason)
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, **ENVIRONMENT, "TMPDIR": folder}
        status = subprocess.run(_command(args.names or known), env=environment).returncode
    sys.exit(status)


if __name__ == "__main__":
    main()
