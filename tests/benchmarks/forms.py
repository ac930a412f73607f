"""Every way to spread a run over processes, in one table: ``python -m tests.benchmarks.forms``.

Each form is the program that a user writes for it, run by the command that starts it, for ``--steps`` and for four
times as many learning steps; the table has differences, so that no start-up is in it. Networks, environments (8 in all)
and the samples of a learning step in all are those of `form_configs`, whatever the processes: A2C where nothing else is
said, policy gradient for agent and observers and for the forms beside it, behaviour cloning from a data set.

Bytes are those that all processes send through the loopback interface of a network of their own (`unshare`), TCP's
acknowledgements included. Where processes of one machine exchange memory instead, "through sockets" says what they
would send, from a second pair of runs. Lines are those of the program that are not blank, less the config.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.form_configs import SIZES, write_data
from tests.distributed.launcher import finish, start

FACTOR = 4
CONFIG = """
from tests.benchmarks.form_configs import task_configs

main_config, create_config = task_configs({!r}, {!r}, {})
"""
# Each rank is a machine of its own, as on a processor that does not order writes; no line of a program changes.
SOCKETS = """
from typing import Any

from torch.distributed import rpc
from ding_lite.utils.ranks import meeting

meeting.ORDERED = ()
plain = rpc.TensorPipeRpcBackendOptions


class ThroughSockets(plain):
    def __init__(self, **options: Any):
        plain.__init__(self, **(options | {"_transports": ["uv"], "_channels": ["basic"]}))


rpc.TensorPipeRpcBackendOptions = ThroughSockets
"""

PLAIN = """
from ding_lite.entry import serial_pipeline_onpolicy

if __name__ == "__main__":
    serial_pipeline_onpolicy((main_config, create_config), seed=0, max_train_iter=STEPS)
"""
GROUP = """
from ding_lite.entry import serial_pipeline_onpolicy
from ding_lite.utils import DDPContext

if __name__ == "__main__":
    with DDPContext():
        serial_pipeline_onpolicy((main_config, create_config), seed=0, max_train_iter=STEPS)
"""
DDP = GROUP.replace("    with", '    main_config.policy.data_parallel = "ddp"\n    with')
LAUNCH = """
from ding_lite.entry import launch

if __name__ == "__main__":
    launch((main_config, create_config), RANKS, kwargs=dict(seed=0, max_train_iter=STEPS))
"""
OFFLINE = GROUP.replace("_onpolicy", "_offline")
RPC = GROUP.replace("_onpolicy", "_rpc")
LOADER = """
import torch
from torch.utils.data import DataLoader
from ding_lite.entry import RolloutDataset
from ding_lite.utils import DDPContext, get_world_size

if __name__ == "__main__":
    with DDPContext():
        dataset = RolloutDataset((main_config, create_config), seed=0, unit="batch")
        model = dataset.policy.model
        optimizer = torch.optim.Adam(model.parameters(), lr=dataset.cfg.policy.learn.learning_rate)
        for step, batch in zip(range(STEPS), DataLoader(dataset, batch_size=None)):
            loss, _ = dataset.policy.loss(batch)
            optimizer.zero_grad()
            loss.backward()
            if get_world_size() > 1:
                for parameter in model.parameters():
                    torch.distributed.all_reduce(parameter.grad)
                    parameter.grad /= get_world_size()
            optimizer.step()
            dataset.publish()
"""
LIGHTNING = """
import lightning
import torch
from torch.utils.data import DataLoader
from ding_lite.entry import RolloutDataset


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.dataset = RolloutDataset((main_config, create_config), seed=0, unit="batch")
        self.policy = self.dataset.policy
        self.model = self.policy.model

    def train_dataloader(self):
        return DataLoader(self.dataset, batch_size=None)

    def configure_optimizers(self):
        return torch.optim.Adam(self.model.parameters(), lr=self.dataset.cfg.policy.learn.learning_rate)

    def training_step(self, batch, _):
        return self.policy.loss(batch)[0]

    def on_train_batch_end(self, *_):
        self.dataset.publish()


if __name__ == "__main__":
    torch.set_num_threads(1)
    strategy = "ddp" if RANKS > 1 else "auto"
    trainer = lightning.Trainer(
        accelerator="cpu", devices=RANKS, strategy=strategy, max_steps=STEPS, logger=False, enable_checkpointing=False
    )
    trainer.fit(Module())
"""
PYTHON = ["{python}", "{program}"]
TORCHRUN = ["{python}", "-m", "torch.distributed.run", "--nproc_per_node={ranks}", "--master_port=29500", "{program}"]
LAUNCHED = [word.replace("distributed.run", "distributed.launch") for word in TORCHRUN]
SRUN = ["{python}", "srun.py", "{program}"]
COMMAND = ["{python}", "-m", "ding_lite", "-m", "serial_onpolicy", "-c", "config.py", "max_train_iter={steps}"]


class Form(NamedTuple):
    """One row: how it is started, the program, processes, and the policy."""

    name: str
    command: list[str]
    program: str
    ranks: int
    policy: str = "a2c"
    in_memory: bool = False  # processes of one machine exchange tensors in memory


FORMS = [
    Form("`python FILE`", PYTHON, PLAIN, 1),
    Form("`python -m torch.distributed.launch`", LAUNCHED, GROUP, 2, in_memory=True),
    Form("`torchrun`", TORCHRUN, GROUP, 2, in_memory=True),
    Form("`launch(config, N)`", PYTHON, LAUNCH, 1),
    Form("`launch(config, N)`", PYTHON, LAUNCH, 2, in_memory=True),
    Form("`ding_lite --nproc N`", COMMAND, "", 1),
    Form("`ding_lite --nproc N`", [*COMMAND, "--nproc", "{ranks}"], "", 2, in_memory=True),
    Form("`srun` (its variables)", SRUN, GROUP, 2, in_memory=True),
    Form("`torchrun`, `data_parallel='ddp'`", TORCHRUN, DDP, 2),
    Form("`RolloutDataset`, own loop", PYTHON, LOADER, 1),
    Form("`RolloutDataset`, own loop", TORCHRUN, LOADER, 2),
    Form("Lightning", PYTHON, LIGHTNING, 1),
    Form("Lightning", PYTHON, LIGHTNING, 2),
    Form("offline, `python FILE`", PYTHON, OFFLINE, 1, "bc"),
    Form("offline, `torchrun`", TORCHRUN, OFFLINE, 2, "bc", True),
    Form("policy gradient, `python FILE`", PYTHON, PLAIN, 1, "pg"),
    Form("policy gradient, `torchrun`", TORCHRUN, GROUP, 2, "pg", True),
    Form("the same, agent and 1 observer", TORCHRUN, RPC, 2, "pg", True),
    Form("the same, agent and 2 observers", TORCHRUN, RPC, 3, "pg", True),
]  # fmt: skip
SRUN_PROGRAM = """
import os, subprocess, sys

step = dict(SLURM_STEP_ID="0", SLURM_STEP_NUM_TASKS="2", SLURM_STEP_NODELIST="localhost", SLURM_STEP_TASKS_PER_NODE="2")
env = dict(os.environ, SLURM_JOB_ID="7", **step)
ranks = [
    subprocess.Popen([sys.executable, *sys.argv[1:]], env=dict(env, SLURM_PROCID=str(rank), SLURM_LOCALID=str(rank)))
    for rank in range(2)
]
sys.exit(max(rank.wait() for rank in ranks))
"""


class Result(NamedTuple):
    """Of one run, start-up included."""

    seconds: float
    envstep: int
    sent: int


def count_lines(program: str) -> int:
    """Lines that are not blank."""
    return sum(bool(line.strip()) for line in program.splitlines())


def write_files(form: Form, task: str, steps: int, sockets: bool, folder: str) -> None:
    """Write what a run needs into its folder."""
    agents = int(form.program is RPC)
    config = CONFIG.format(task, form.policy, form.ranks - agents)
    if agents:  # the batch is of all together, nothing is averaged
        config += f"main_config.policy.learn.batch_size, main_config.policy.multi_gpu = {SIZES[task][0]}, False\n"
    program = form.program.replace("STEPS", str(steps)).replace("RANKS", str(form.ranks))
    head = "from config import create_config, main_config\n"
    Path(folder, "config.py").write_text(config)
    Path(folder, "program.py").write_text((SOCKETS if sockets else "") + head + program)
    Path(folder, "srun.py").write_text(SRUN_PROGRAM)
    if form.policy == "bc":
        write_data(task, f"{folder}/data.npz")


def run(form: Form, task: str, steps: int, sockets: bool = False) -> Result:
    """Run a form in a network of its own, for so many learning steps."""
    with tempfile.TemporaryDirectory() as folder:
        write_files(form, task, steps, sockets, folder)
        values = {"python": sys.executable, "program": "program.py", "ranks": form.ranks, "steps": steps}
        words = [word.format(**values) for word in form.command]
        script = 'ip link set lo up && "$@" && cat /proc/net/dev >net'
        env = {"PYTHONPATH": f"{folder}:{Path(__file__).resolve().parents[2]}"}
        begin = time.perf_counter()
        done = finish(start(["unshare", "-rn", "sh", "-c", script, "sh", *words], env, folder), timeout=600)
        seconds = time.perf_counter() - begin
        if done.returncode:
            said = done.stdout[-1000:] + done.stderr[-3000:]
            raise SystemExit(f"{form.name}, {task}: exit status {done.returncode}\n{said}")
        counters = next(line for line in Path(folder, "net").read_text().splitlines() if "lo:" in line)
        result = Path(folder, "run", "result.json")
        envstep = json.loads(result.read_text())["envstep"] if result.exists() else steps * SIZES[task][0]
        return Result(seconds, envstep, int(counters.split()[9]))


def measure(form: Form, task: str, steps: int) -> str:
    """Return a row of the table."""
    short, long = (run(form, task, count) for count in (steps, FACTOR * steps))
    more, seconds = (FACTOR - 1) * steps, long.seconds - short.seconds
    rate = "-" if form.policy == "bc" else f"{(long.envstep - short.envstep) / seconds:,.0f}"
    sent = f"{(long.sent - short.sent) / more:,.0f}" if form.ranks > 1 else "0"
    remote = sent
    if form.in_memory and form.program and form.program is not LAUNCH:
        few = max(steps // 4, 5)
        first, second = (run(form, task, count, sockets=True) for count in (few, 2 * few))
        remote = f"{(second.sent - first.sent) / few:,.0f}"
    elif form.in_memory:
        remote = "as torchrun"
    lines = count_lines(form.program)
    return f"| {form.name} | {task} | {form.ranks} | {rate} | {more / seconds:,.1f} | {sent} | {remote} | {lines} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=sorted(SIZES), default=sorted(SIZES))
    parser.add_argument("--steps", type=int, nargs="+", default=[400, 30], help="of the shorter run, for each task")
    parser.add_argument("--only", default="", help="forms whose name has this in it")
    args = parser.parse_args()
    obstacle = subprocess.run(["unshare", "-rn", "ip", "link", "set", "lo", "up"], capture_output=True, text=True)
    if obstacle.returncode:
        raise SystemExit(f"needs a network namespace of its own to count bytes: {obstacle.stderr.strip()}")
    columns = ["form", "task", "processes", "env steps/s", "learning steps/s", "bytes sent a learning step"]
    columns += ["through sockets", "lines"]
    print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for task, steps in zip(args.tasks, args.steps, strict=True):
        for form in FORMS:
            if args.only in form.name:
                print(measure(form, task, steps), flush=True)


if __name__ == "__main__":
    main()
