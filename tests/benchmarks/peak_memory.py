"""Peak resident memory of the main job, with full replay buffers: ``python -m tests.benchmarks.peak_memory``.

The job is ``dizoo/atari/pong_dqn_ddp_config.py`` as it is, but that the buffer is filled by random play (which takes a
minute instead of an hour), before it trains, evaluates and saves for a while. Goal: at most 1.6 GB a rank.
"""

from __future__ import annotations

import argparse
import resource
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from tests.benchmarks.meter import peak_rss_mb, write_result
from tests.benchmarks.sides import run_side

GOAL_GB = 1.6


def worker(args: argparse.Namespace) -> None:
    """One rank: run the job and report."""
    import torch
    import torch.distributed as dist

    from ding_lite.entry import serial_pipeline
    from ding_lite.utils import DDPContext, get_rank, get_world_size
    from dizoo.atari.pong_dqn_ddp_config import create_config, main_config

    torch.set_num_threads(1)
    with DDPContext():
        capacity = main_config.policy.other.replay_buffer.replay_buffer_size
        main_config.policy.random_collect_size = capacity
        steps = get_world_size() * (capacity + args.steps)
        serial_pipeline((main_config, create_config), seed=0, max_env_step=steps)
        children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        peaks: list[Any] = [None] * get_world_size()
        if get_world_size() > 1:
            dist.all_gather_object(peaks, (peak_rss_mb(), children))
        else:
            peaks = [(peak_rss_mb(), children)]
        if get_rank() == 0:
            write_result(args.result, {"peaks": peaks, "steps": steps})


def main() -> None:
    """Start the ranks and print each one's peak."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", nargs="+", type=int, default=[1, 2])
    parser.add_argument(
        "--steps", type=int, default=2000, help="environment steps a rank learns for after the random ones"
    )
    parser.add_argument("--result", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.result:
        worker(args)
        return
    for ranks in args.ranks:
        result = run_side("peak_memory", ["--steps", str(args.steps)], seconds=600, ranks=ranks)
        for rank, (own, child) in enumerate(result["peaks"]):
            also = f" (largest child process {child / 953.67:.2f} GB)" if child > 1 else ""
            print(f"{ranks} ranks, rank {rank}: peak {own / 953.67:.2f} GB{also}, goal {GOAL_GB} GB", flush=True)


if __name__ == "__main__":
    main()
