"""Config keys that several policies have, in groups, and checks of those that all have.

`COMMON_KEYS` belong to every policy. A class lists the other groups that it has in `key_groups`: where its samples come
from, `SAMPLE_KEYS` or `ROLLOUT_KEYS`, `EPISODE_KEYS`, `REPLAY_KEYS` or `DATASET_KEYS`; then the options that it offers.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from easydict import EasyDict

from ding_lite.torch_utils.optimizer import LEARNING_RATE, OPTIMIZER_KEYS, check_optimizer
from ding_lite.utils.key import Key, declared_keys, default_values, merge_keys, with_option
from ding_lite.utils.registry import LEARNING_PARTS, ConfigError

GPU_ONLY = {"sync_batchnorm": True, "comm_hook": "bf16"}  # values of `policy.ddp` that need a GPU
RUN_KEYS: dict[str, Any] = dict(
    cuda=Key(False, "train on a GPU; without one the run prints a note and uses the CPU"),
    multi_gpu=Key(False, "average gradients over all ranks; required with several processes, on CPUs too"),
    divide=Key(
        False,
        "batch_size, n_sample, n_episode, random_collect_size, replay_buffer_size and env.collector_env_num count all "
        "ranks together, so that any number of ranks takes the same learning steps, but actors keep their "
        "environments; multi_gpu is then True by default",
        needs="multi_gpu",
    ),
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
        "number type of forward and backward passes: 'float32', 'bf16' with torch's autocast, or 'auto', which is bf16 "
        "where the processor or the GPU multiplies in it",
        choices=("float32", "bf16", "auto"),
    ),
    cuda_graph=Key(
        "auto",
        "'auto': replay losses, updates and acting networks as CUDA graphs where possible; 'off': launch every kernel",
        choices=("auto", "off"),
        needs="cuda",
    ),
    deterministic=Key(False, "convolutions on a GPU repeat to the bit, so that a resumed run does", needs="cuda"),
    compile=Key(False, "compile loss and gradient with torch.compile, in the first iteration; on CPUs this needs g++"),
)
LEARN_KEYS: dict[str, Any] = dict(
    on_nonfinite=Key(
        "stop",
        "if the loss or a gradient is NaN or infinite: 'stop' the run, or 'skip' the update",
        choices=("stop", "skip"),
    ),
    resume_training=Key(False, "continue a run: that of load_ckpt_before_run, or else the one in exp_name"),
    allow_lost_replay=Key(
        False,
        "resume from what is left of a checkpoint of which ranks' parts are lost: their environments begin anew",
        needs="resume_training",
    ),
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
    average=Key(
        None,
        "evaluate averaged weights, with this share of the newest per learner iteration; None: the newest ones",
        type=float,
        above=0,
        high=1,
        constant=True,
    ),
    evaluator=dict(
        eval_freq=Key(1000, "learner iterations between two evaluations", low=1),
        eval_after=Key(0, "learner iterations before the first evaluation; the final policy is evaluated too", low=0),
    ),
)
ACTOR_KEYS: dict[str, Any] = dict(
    actors=Key(
        0,
        "processes of Ray that play for all ranks, with collector_env_num environments each; 0: ranks play themselves",
        low=0,
        high=4096,
    ),
    max_lag=Key(
        None,
        "largest age of the weights that samples were played with, in learner iterations, when they arrive; None: no "
        "limit with replay, else 0",
        type=int,
        low=0,
        needs="actors",
    ),
    max_retry=Key(3, "failures of one actor in a row after which the run ends", low=0, needs="actors"),
    actor_timeout=Key(
        600.0,
        "seconds that an actor may take for one collect before it is replaced",
        above=0,
        constant=True,
        needs="actors",
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
    collect=dict(),
    eval=EVAL_KEYS,
    other=dict(),
)
LEARNING_RATE_KEYS: dict[str, Any] = dict(learn=dict(learning_rate=LEARNING_RATE))
# How much a policy plays in a collect: any number of env steps, many of them, or whole episodes.
SAMPLE_KEYS: dict[str, Any] = dict(
    collect=dict(
        n_sample=Key(
            None,
            "env steps per rank and collect, rounded up to a multiple of collector_env_num; None: collector_env_num",
            type=int,
            low=1,
        ),
        **ACTOR_KEYS,
    ),
)
ROLLOUT_KEYS: dict[str, Any] = dict(
    collect=dict(
        n_sample=Key(2048, "env steps per rank and collect, rounded up to a multiple of collector_env_num", low=1),
        **ACTOR_KEYS,
    ),
)
EPISODE_KEYS: dict[str, Any] = dict(
    collect=dict(
        n_episode=Key(8, "whole episodes per rank and collect, rounded up to a multiple of collector_env_num", low=1),
        **ACTOR_KEYS,
    ),
)
EPOCH_KEYS: dict[str, Any] = dict(learn=dict(epoch_per_collect=Key(10, "passes over the samples of a collect", low=1)))
NSTEP_KEYS: dict[str, Any] = dict(nstep=Key(1, "n: env steps whose rewards are summed before the bootstrap", low=1))
REPLAY_KEYS: dict[str, Any] = merge_keys(
    SAMPLE_KEYS,
    NSTEP_KEYS,
    dict(
        priority=Key(False, "prioritised replay (Schaul et al. 2016)"),
        priority_IS_weight=Key(
            False, "weight the loss of each sample to correct the bias of prioritised replay", needs="priority"
        ),
        random_collect_size=Key(0, "env steps per rank with random actions before learning starts", low=0),
        learn=dict(
            update_per_collect=Key(
                None, "learner iterations after each collect; None: one for each env step of all ranks", type=int, low=1
            ),
        ),
        other=dict(
            replay_buffer=dict(
                type=Key("", "'uniform' or 'prioritized'; empty: determined by policy.priority"),
                replay_buffer_size=Key(100000, "capacity: env steps per rank", low=1),
                device=Key(
                    "cpu",
                    "whose memory holds the steps and their priorities: 'cpu' or 'cuda'",
                    choices=("cpu", "cuda"),
                    needs="cuda",
                ),
            ),
        ),
    ),
)
# Keys of policies that learn from a data set: from its actions alone, and from its rewards, too.
IMITATION_KEYS: dict[str, Any] = dict(
    learn=dict(
        train_epoch=Key(100, "passes over the data set", low=1),
        learner=dict(
            dataloader=dict(
                num_workers=Key(1, "worker processes per rank that load batches; 0: none", low=0, high=4096),
            ),
        ),
    ),
    collect=dict(
        data_type=Key("", "'hdf5', 'npz', 'npy' or 'minari'; empty: determined by the path's ending"),
        data_path=Key("", "the data set: a file, a directory or a Minari id"),
        action_units=Key(
            "",
            "units of the data set's actions: 'env', the environment's own; 'policy', those of env.act_scale and "
            "choices from 0; empty: as the data set says",
            choices=("", "env", "policy"),
        ),
    ),
)
DATASET_KEYS: dict[str, Any] = merge_keys(
    IMITATION_KEYS,
    dict(
        collect=dict(
            reward_norm=Key(
                "",
                "how the data set's rewards change, by DI-engine's names, see docs/offline.md; empty: not at all",
                choices=("", "normalize", "iql_locomotion", "iql_antmaze", "cql_antmaze", "antmaze"),
            ),
        ),
    ),
)
TARGET_KEYS: dict[str, Any] = dict(
    learn=dict(
        target_update_freq=Key(None, "iterations between target copies; 100 if both are None", type=int, low=1),
        target_theta=Key(None, "or the share of the online network mixed in", type=float, above=0, high=1),
    ),
)
TARGET_THETA = Key(0.005, "share of a network mixed into its target at each update", above=0, high=1)
SOFT_TARGET_KEYS: dict[str, Any] = dict(learn=dict(target_theta=TARGET_THETA))
DOUBLE_KEYS: dict[str, Any] = dict(
    double=Key(True, "double Q-learning: the online network chooses the action of the target")
)
NOISY_KEYS: dict[str, Any] = dict(noisy_net=Key(False, "explore with noisy layers in the head instead of epsilon"))
OF_SCHEDULE = "policy.other.eps is a schedule itself"
EPSILON = dict(
    type=Key("exp", "decrease of epsilon: 'exp' or 'linear'", choices=("exp", "linear")),
    start=Key(0.95, "epsilon, the share of random actions, at global env step 0", low=0, high=1, constant=OF_SCHEDULE),
    end=Key(0.1, "final epsilon", low=0, high=1, constant=OF_SCHEDULE),
    decay=Key(
        10000,
        "global env steps: time constant, or length of the linear decrease",
        type=float,
        low=1,
        constant=OF_SCHEDULE,
    ),
)
SPREAD = Key(
    0.0,
    "environment i of the N of all ranks or actors has epsilon^(1 + spread i / (N - 1)); Ape-X: 7",
    low=0,
    constant=OF_SCHEDULE,
)
# Keys of policies that explore with random actions, and of those whose environments may have different epsilons.
EPSILON_KEYS: dict[str, Any] = dict(other=dict(eps=with_option("noisy_net=False", EPSILON)))
SPREAD_KEYS: dict[str, Any] = dict(other=dict(eps=with_option("noisy_net=False", dict(spread=SPREAD))))
# Keys of DQN and its variants.
DQN_KEYS: dict[str, Any] = merge_keys(REPLAY_KEYS, TARGET_KEYS, EPSILON_KEYS)
AGENT_KEYS: dict[str, Any] = dict(
    multi_agent=Key(False, "several agents share the networks; each is a sample of its own, see docs/agents.md")
)
MIRROR_KEYS: dict[str, Any] = dict(
    symmetry=dict(
        mirror=Key("", "'module:function' that mirrors observations and actions, see the page on PPO; empty: none"),
        augment=Key(True, "learn from the mirror image of each sample, too", needs="mirror"),
        loss_weight=Key(0.0, "weight of the squared error of the mean actions' symmetry", low=0, needs="mirror"),
    ),
)
NORMAL = ("reparameterization",)  # the only action space of actors that return a normal distribution
NORMAL_KEYS: dict[str, Any] = dict(
    model=dict(action_space=Key("reparameterization", "what the actor returns: a distribution", choices=NORMAL))
)
TWIN_CRITIC_KEYS: dict[str, Any] = dict(
    model=dict(twin_critic=Key(True, "use two critics; their smaller value is the estimate"))
)
NOISE_SIGMA = Key(0.1, "standard deviation of the Gaussian noise added to the actor's action", low=0)
# The heads of DI-engine's offline policies, which are wider than those of its models.
WIDE_HEAD_KEYS: dict[str, Any] = dict(
    model=dict(
        actor_head_hidden_size=Key(256, "size of the hidden layers of the actor's head"),
        critic_head_hidden_size=Key(256, "size of the hidden layers of a critic's head"),
    ),
)


def check_common_keys(cfg: EasyDict, defaults: EasyDict) -> None:
    """Raise `ConfigError` if keys that several policies have, or those of a part that learns beside it, contradict."""
    policy, learn = cfg.policy, cfg.policy.learn
    check_data_parallel(policy, defaults.ddp)
    check_optimizer("policy.learn", learn, defaults.learn)
    for name, registry in LEARNING_PARTS.items():
        if "optimizer" in cfg.get(name, {}):
            part_cls: Any = registry.find(cfg[name].type)
            check_optimizer(name, cfg[name], default_values(declared_keys(part_cls)))
            part_cls.check_config(cfg)
    if policy.get("priority_IS_weight") and not policy.priority:
        raise ConfigError("policy.priority_IS_weight=True needs prioritised replay: set policy.priority=True too.")
    if learn.get("target_theta") is not None and learn.get("target_update_freq") is not None:
        raise ConfigError("Set policy.learn.target_update_freq or policy.learn.target_theta, not both.")


def check_data_parallel(policy: EasyDict, defaults: EasyDict) -> None:
    """Raise `ConfigError` if `data_parallel`, `ddp` or `compile` have no effect, or need a GPU or a newer torch."""
    ddp = policy.ddp
    if policy.compile and "isolate_recompiles" not in inspect.signature(torch.compile).parameters:
        raise ConfigError(f"policy.compile=True needs torch 2.13 or newer, got {torch.__version__}: update torch.")
    if policy.compile and (policy.data_parallel == "ddp" or not policy.bp_update_sync):
        raise ConfigError(
            "policy.compile=True computes all gradients at once, so nothing can be averaged meanwhile: set "
            "policy.data_parallel='flat' and policy.bp_update_sync=True, or policy.compile=False."
        )
    if policy.data_parallel == "flat":
        for key in [key for key in defaults if ddp[key] != defaults[key]]:
            raise ConfigError(
                f"policy.ddp.{key}={ddp[key]!r} has an effect only with policy.data_parallel='ddp': set that too, or "
                "leave this key out."
            )
        return
    if ddp.comm_hook == "powersgd" and policy.learn.on_nonfinite == "skip":
        raise ConfigError(
            "policy.ddp.comm_hook='powersgd' adds the part of a gradient that it did not send to the next one, so a "
            "NaN would stay: set policy.learn.on_nonfinite='stop'."
        )
    if ddp.comm_hook == "powersgd" and ddp.find_unused_parameters:
        raise ConfigError(
            "policy.ddp.comm_hook='powersgd' sends more than once, which mixes with the search for unused parameters: "
            "set policy.ddp.find_unused_parameters=False."
        )
    if ddp.static_graph and ddp.find_unused_parameters:
        raise ConfigError(
            "policy.ddp.static_graph=True finds unused parameters in the first iteration: set either this or "
            "policy.ddp.find_unused_parameters=True, not both."
        )
    for key in [key for key, value in GPU_ONLY.items() if ddp[key] == value]:
        if not (policy.cuda and torch.cuda.is_available()):
            raise ConfigError(
                f"policy.ddp.{key}={ddp[key]!r} works only on GPUs: set policy.cuda=True on a machine that has one, or "
                "leave this key out."
            )


def check_actors(policy: EasyDict, replays: bool, allows_lag: bool) -> None:
    """Raise `ConfigError` if actors cannot play for a policy, or not with this lag, see `Policy.allows_lag`."""
    collect = policy.collect
    if not replays and collect.get("n_episode") is not None:
        raise ConfigError(
            f"policy.collect.actors={collect.actors}: policy '{policy.type}' learns from whole episodes, of which "
            "actors play different numbers of steps: set it to 0, or use 'ppo'."
        )
    if not allows_lag and collect.max_lag:
        raise ConfigError(
            f"policy.collect.max_lag={collect.max_lag}: policy '{policy.type}' is strictly on-policy and must learn "
            "from what its newest weights played: set it to 0, or use 'ppo' or 'impala'."
        )
