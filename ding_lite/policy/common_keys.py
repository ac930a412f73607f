"""Config keys that every policy has: how it learns, where it computes, how ranks average, what is recorded.

`epsilon_keys` are those of the policies that explore with random actions.
"""

from __future__ import annotations

from typing import Any

from ding_lite.torch_utils.optimizer import OPTIMIZER_KEYS
from ding_lite.utils.key import Key, with_option


def epsilon_keys(start: float, end: float, decay: int, spread: bool = False) -> dict[str, Any]:
    """Return the keys `other.eps` of a policy that explores with random actions.

    Args:
        start: default of the key.
        end: default of the key.
        decay: default of the key.
        spread: whether the policy has the key `spread`.
    """
    meaning = "environment i of a rank's N explores with epsilon^(1 + spread i / (N - 1)); Ape-X: 7"
    reason = "policy.other.eps is a schedule itself"
    more = dict(spread=Key(0.0, meaning, low=0, constant=reason)) if spread else {}
    return with_option(
        "noisy_net=False",
        dict(
            type=Key("exp", "decrease of epsilon: 'exp' or 'linear'", choices=("exp", "linear")),
            start=Key(
                start, "epsilon, the share of random actions, at global env step 0", low=0, high=1, constant=reason
            ),
            end=Key(end, "final epsilon", low=0, high=1, constant=reason),
            decay=Key(
                decay,
                "global env steps: time constant, or length of the linear decrease",
                type=float,
                low=1,
                constant=reason,
            ),
            **more,
        ),
    )


RUN_KEYS: dict[str, Any] = dict(
    cuda=Key(False, "train on a GPU; without one the run prints a note and uses the CPU"),
    multi_gpu=Key(False, "average gradients over all ranks; required with several processes, on CPUs too"),
    bp_update_sync=Key(
        True, "False: unless ranks share memory, torch's DDP averages gradients during backward", needs="multi_gpu"
    ),
    data_parallel=Key(
        "flat",
        "what averages gradients: 'flat', one collective of our own, or 'ddp', torch's DistributedDataParallel",
        choices=("flat", "ddp"),
        needs="multi_gpu",
    ),
    ddp=with_option(
        "data_parallel=ddp",
        dict(
            find_unused_parameters=Key(
                False, "allow parameters that have no gradient in some iterations or on some ranks"
            ),
            static_graph=Key(False, "promise that every iteration uses the same parameters in the same way"),
            bucket_cap_mb=Key(25.0, "MiB of gradients that are sent together", above=0),
            sync_batchnorm=Key(False, "batch normalisation uses the samples of all ranks; GPUs only"),
            comm_hook=Key(
                "",
                "torch's hook that compresses gradients: 'fp16', 'bf16' or 'powersgd'; empty: none",
                choices=("", "fp16", "bf16", "powersgd"),
            ),
        ),
    ),
    num_threads=Key(
        None,
        "torch's threads in each rank, at most its cores; None: 1 for fewer than 100,000 parameters without "
        "convolutions, else torch's choice",
        type=int,
        low=1,
        high=4096,
    ),
    precision=Key(
        "float32",
        "number type of forward and backward passes: 'float32', or 'bf16' with torch's autocast",
        choices=("float32", "bf16"),
    ),
    compile=Key(False, "compile loss and gradient with torch.compile, in the first iteration; on CPUs this needs g++"),
)
LEARN_KEYS: dict[str, Any] = dict(
    on_nonfinite=Key(
        "stop",
        "if the loss or a gradient is NaN or infinite: 'stop' the run, or 'skip' the update",
        choices=("stop", "skip"),
    ),
    resume_training=Key(False, "continue a run: that of load_ckpt_before_run, or else the one in exp_name"),
    learner=dict(
        hook=dict(
            load_ckpt_before_run=Key("", "checkpoint file to start from; empty: none"),
            log_show_after_iter=Key(100, "learner iterations between two records of the training figures", low=1),
            save_ckpt_after_iter=Key(10000, "learner iterations between two checkpoints", low=1),
            keep_ckpt=Key(3, "number of newest checkpoints to keep, in addition to the best; 0: all", low=0),
            save_replay_buffer=Key(
                True, "save the replay buffer in checkpoints, for exact resuming", needs="other.replay_buffer.type"
            ),
            check_ranks_after_iter=Key(
                1000, "learner iterations between comparisons of all ranks; 0: never", low=0, needs="multi_gpu"
            ),
        ),
    ),
)
EVAL_KEYS: dict[str, Any] = dict(
    evaluator=dict(
        eval_freq=Key(1000, "learner iterations between two evaluations", low=1),
        eval_at_start=Key(True, "also evaluate before the first iteration; the final policy is always evaluated"),
    ),
)
COMMON_KEYS: dict[str, Any] = dict(
    type=Key("", "name in the policy registry"),
    **RUN_KEYS,
    discount_factor=Key(0.99, "gamma, per env step", low=0, high=1),
    model=dict(),  # the model's arguments, see its signature; shapes are taken from the environment
    learn=dict(
        batch_size=Key(64, "samples per rank and iteration", low=1),
        **OPTIMIZER_KEYS,
        ignore_done=Key(False, "bootstrap at terminal states too, as is done where a time limit ends an episode"),
        **LEARN_KEYS,
    ),
    collect=dict(
        n_sample=Key(
            None,
            "env steps per rank and collect, rounded up to a multiple of collector_env_num; None: collector_env_num",
            type=int,
            low=1,
        ),
    ),
    eval=EVAL_KEYS,
    other=dict(),
)
