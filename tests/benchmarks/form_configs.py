"""The configs of `forms`: A2C, policy gradient and behaviour cloning with one network a task."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from easydict import EasyDict

NEVER = 10**9  # learner iterations
POLICIES: dict[str, dict[str, Any]] = {
    "a2c": dict(learn=dict(adv_norm=True), collect=dict(gae_lambda=0.95)),
    "pg": dict(learn=dict()),
    "bc": dict(continuous=False, learn=dict(train_epoch=NEVER)),
}
SIZES = {  # samples of a learning step, network
    "cartpole": (64, [128, 128, 64]),
    "pong": (128, [32, 64, 64, 512]),
}


def task_configs(task: str, policy: str, ranks: int) -> tuple[EasyDict, EasyDict]:
    """Return main_config and create_config; `ranks` share the 8 environments and the batch."""
    batch, sizes = SIZES[task]
    env: dict[str, Any] = dict(env_id="CartPole-v0", stop_value=None, evaluator_env_num=1, n_evaluator_episode=1)
    create: dict[str, Any] = dict(
        env=dict(type="cartpole", import_names=["dizoo.classic_control.cartpole.envs.cartpole_env"])
    )
    if task == "pong":
        env |= dict(env_id="PongNoFrameskip-v4", frame_stack=4, max_episode_steps=100)
        create = dict(
            env=dict(type="atari", import_names=["dizoo.atari.envs.atari_env"]), env_manager=dict(type="native")
        )
    env["collector_env_num"] = 8 // ranks
    own: dict[str, Any] = copy.deepcopy(POLICIES[policy])
    learn = own["learn"]
    learn["batch_size"] = batch // ranks
    learn["learner"] = dict(hook=dict(save_ckpt_after_iter=NEVER))
    if policy == "a2c":
        own["collect"]["n_sample"] = batch // ranks
    elif policy == "pg":
        own["collect"] = dict(n_episode=8 // ranks)
    else:
        own["collect"] = dict(data_path="data.npz")
    main = dict(
        exp_name="run",
        env=env,
        policy=dict(
            num_threads=1,
            multi_gpu=ranks > 1,
            model=dict(encoder_hidden_size_list=sizes),
            eval=dict(evaluator=dict(eval_freq=NEVER)),
            **own,
        ),
    )
    return EasyDict(main), EasyDict(**create, policy=dict(type=policy))


def write_data(task: str, path: str) -> None:
    """Write a data set of the task's shapes; what is in it does not matter to a rate."""
    generator = np.random.default_rng(0)
    if task == "cartpole":
        np.savez(
            path, obs=generator.normal(size=(20_000, 4)).astype(np.float32), action=generator.integers(2, size=20_000)
        )
    else:
        frames = generator.integers(256, size=(2_000, 4, 84, 84), dtype=np.uint8)
        np.savez(path, obs=frames, action=generator.integers(6, size=2_000))
