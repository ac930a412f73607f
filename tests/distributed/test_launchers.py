"""One config file under every launcher: the same run, to the bit, on every rank.

Two processes take the same steps whoever started them, so that all forms of two processes must end with one hash.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.distributed.launcher import Forked, finish, free_port, start_forked
from tests.policy.helpers import parameter_hash
from tests.run.helpers import CONFIG, last_checkpoint, result

MAIN = """
main_config.update(exp_name="run", seed=7)
main_config.policy.multi_gpu = True
main_config.policy.eval.evaluator.eval_freq = 100


if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline
    from ding_lite.utils import DDPContext, get_local_rank, get_rank, get_world_size
    from tests.distributed.launcher import say
    from tests.policy.helpers import parameter_hash

    with DDPContext():
        policy = serial_pipeline((main_config, create_config), max_env_step=320)
        found = parameter_hash(policy.model.state_dict())
        say(f"{get_rank()} of {get_world_size()}, {get_local_rank()}: {found}")
"""
TORCHRUN = ["-m", "torch.distributed.run"]
STATIC = "--nnodes=2 --nproc_per_node=1 --master_addr=127.0.0.1 --master_port={port}"
C10D = "--nnodes=2 --nproc_per_node=1 --rdzv_backend=c10d --rdzv_endpoint=127.0.0.1:{port} --rdzv_id=x"


def srun(task: int, nodes: str, local_id: int, per_node: str, port: int) -> dict[str, str]:
    """What `srun --ntasks=2` sets; the port is chosen here only because the real one, of the job, may be in use."""
    return {
        "SLURM_JOB_ID": "17",
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NODELIST": nodes,
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_TASKS_PER_NODE": per_node,
        "SLURM_PROCID": str(task),
        "SLURM_LOCALID": str(local_id),
        "MASTER_PORT": str(port),
    }


def begin(how: str, folder: Path) -> list[Forked]:
    """Start the processes that a user, or a scheduler, would start."""
    port, script = free_port(), str(folder / "mine.py")
    one_node, two_nodes = ("localhost", "2", [0, 1]), ("127.0.0.[1-2]", "1(x2)", [0, 0])
    if how.startswith("srun"):
        nodes, per_node, local_ids = one_node if how == "srun, one node" else two_nodes
        envs = [srun(task, nodes, local_id, per_node, port) for task, local_id in enumerate(local_ids)]
        return [start_forked([script], env, folder) for env in envs]
    if "nodes" in how:
        options = (STATIC if "static" in how else C10D).format(port=port).split()
        ranks = [[f"--node_rank={node}"] if "static" in how else ["--local_addr=127.0.0.1"] for node in range(2)]
        return [start_forked([*TORCHRUN, *options, *own, script], cwd=folder) for own in ranks]
    together = [*TORCHRUN, "--nproc_per_node=2", f"--master_port={port}"] if how == "torchrun" else []
    return [start_forked([*together, script], cwd=folder)]


TOGETHER = ["torchrun", "torchrun, two nodes, c10d", "srun, two nodes"]
VARIANTS = ["torchrun, two nodes, static", "srun, one node"]  # each differs from one above in an option
CASES = [*TOGETHER, *(pytest.param(how, marks=pytest.mark.slow) for how in VARIANTS)]
LOCAL_RANKS = {how: [0, 0] if "two nodes" in how else [0, 1] for how in [*TOGETHER, *VARIANTS]} | {"python": [0]}
Run = Callable[[str], tuple[Path, list[str], str]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a function of a launcher's name: it returns the run's directory, what the ranks said, and the model."""
    text = CONFIG.read_text().partition("if __name__")[0]

    @functools.cache
    def run_once(how: str) -> tuple[Path, list[str], str]:
        folder = tmp_path_factory.mktemp("launcher")
        (folder / "mine.py").write_text(text + MAIN)
        ends = [finish(process, timeout=150) for process in begin(how, folder)]
        assert [end.returncode for end in ends] == [0] * len(ends), (how, [end.stderr for end in ends])
        said = sorted("".join(end.stdout for end in ends).splitlines())
        return folder, said, parameter_hash(last_checkpoint(folder / "run")["policy"]["model"])

    return run_once


@pytest.mark.parametrize("how", ["python", *CASES])
def test_every_launcher_runs_the_config_on_its_ranks(run: Run, how: str) -> None:
    folder, said, model = run(how)
    size = len(LOCAL_RANKS[how])
    told = result(folder / "run")
    # the limit counts the env steps of all ranks
    assert (told["envstep"], told["world_size"], told["seed"]) == (320, size, 7)
    ranks = [f"{rank} of {size}, {local_rank}: {model}" for rank, local_rank in enumerate(LOCAL_RANKS[how])]
    assert said == ranks


@pytest.mark.parametrize("how", CASES[1:])
def test_two_processes_end_with_the_same_parameters_whoever_started_them(run: Run, how: str) -> None:
    assert run(how)[-1] == run("torchrun")[-1] != run("python")[-1]
