"""What the ranks of the tests of agent and observers run."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from easydict import EasyDict
from torch import Tensor

from ding_lite.entry import serial_pipeline_rpc
from ding_lite.envs import derive_seeds
from ding_lite.model.vac import PG
from ding_lite.observers.serial_entry_rpc import (
    AGENT,
    Observer,
    RemoteCollector,
    RPCLink,
    SplitEncoder,
    find_encoder,
    result,
)
from ding_lite.policy import PGPolicy
from ding_lite.run.setup import prepare_run
from ding_lite.utils import ENV_REGISTRY, MODEL_REGISTRY, DDPContext, UserError
from ding_lite.utils.ranks.collectives import alone
from ding_lite.utils.ranks.interrupt import InterruptGuard
from ding_lite.utils.registry import ConfigError
from dizoo.classic_control.cartpole.config.cartpole_pg_rpc_config import create_config, main_config
from dizoo.classic_control.cartpole.envs.cartpole_env import CartPoleEnv
from tests.distributed.launcher import say
from tests.policy.helpers import parameter_hash

cartpole_dqn_config = import_module("dizoo.classic_control.cartpole.config.cartpole_dqn_config")

RANK = int(os.environ.get("RANK", "0"))  # also where `get_rank` tells of one process
SMALL = ["env.collector_env_num=2", "policy.collect.n_episode=4", "policy.model.encoder_hidden_size_list=[16,8]"]
QUICK = [*SMALL, "policy.eval.evaluator.eval_freq=20", "policy.learn.learner.hook.log_show_after_iter=5"]


@MODEL_REGISTRY.register("pg_double")
class DoublePG(PG):
    def __init__(self, obs_shape: int, action_shape: int, encoder_hidden_size_list: list[int]) -> None:
        super().__init__(obs_shape, action_shape, encoder_hidden_size_list=encoder_hidden_size_list)
        self.double()


class OpenObserver(Observer):
    """Shows what it sees, which a real one never sends, and which environments it has played."""

    def show(self) -> Tensor:
        return self._held

    def encode(self, parameters: list[Tensor], index_B: Tensor) -> Tensor:
        assert threading.current_thread() is not threading.main_thread()
        return super().encode(parameters, index_B)


# Gradients of the split model, against those of one process.


def compare(model: str) -> dict[str, Any] | None:
    """Collect, then learn from the same samples split and in this process; return what both did."""
    config = [*SMALL, f"policy.model.type={model}", "policy.learn.batch_size=40"]
    setup = prepare_run((main_config, create_config), seed=0, overrides=config)
    with alone(), ExitStack() as stack:
        if RANK == AGENT:
            return lead(setup.cfg)
        OpenObserver(setup, RANK, stack).serve()
    return None


def lead(cfg: EasyDict) -> dict[str, Any]:
    split, whole = (create_policy(cfg) for _ in range(2))
    assert parameter_hash(split.model) == parameter_hash(whole.model)
    with RPCLink(None) as link:
        encoder = SplitEncoder(find_encoder(split), link)
        collector = RemoteCollector(encoder, split, cfg.seed, InterruptGuard())
        with pytest.raises(UserError, match="belong to the observers"):
            collector.set_attr("gravity", 5.0)
        samples, figures = collector.collect()
        shown = [result(link.ask(rank, "show")) for rank in link.observers]
        seeds = [derive_seeds(cfg.seed, rank, "draws", n=1)[0] for rank in link.observers]
        drawn = [draw_first(whole, obs, seed) for obs, seed in zip(shown, seeds, strict=True)]
        joined = samples | {"obs": torch.cat(shown)}
        with encoder.does(encoder.encode_remotely):
            steps = [take_steps(split, samples), take_steps(whole, joined)]
            twice = call_twice(split, samples)
        for rank in link.observers:
            result(link.ask(rank, "end", 0))
    found = {"steps": steps, "sizes": [len(part) for part in shown], "shown": shown, "drawn": drawn, "twice": twice}
    return {**found, "figures": figures, "samples": samples}


def create_policy(cfg: EasyDict) -> PGPolicy:
    torch.manual_seed(0)
    return PGPolicy(cfg.policy)


def draw_first(policy: PGPolicy, obs: Tensor, seed: int) -> list[int]:
    """Return what this process would do in the first row of the two environments of an observer."""
    torch.manual_seed(seed)
    return policy.act(obs[:2])["action"].tolist()


def call_twice(policy: PGPolicy, samples: dict[str, Any]) -> str:
    """Return what a loss that needs the observers twice is told."""
    loss, _ = policy._loss(samples)
    try:
        policy._loss(samples)
    except ConfigError as error:
        return str(error)
    finally:
        loss.backward()
    return ""


def take_steps(policy: PGPolicy, samples: dict[str, Any]) -> list[dict[str, Tensor]]:
    """Take a step on each of some uneven parts, then on each shuffled minibatch."""
    torch.manual_seed(1)
    uneven = [slice(3), slice(-2, None), slice(0, None, 3)]
    batches = [policy._to_device({key: value[part] for key, value in samples.items()}) for part in uneven]
    steps = []
    for batch in [*batches, *policy.batches(samples)]:
        output = policy.learn(batch)
        gradients = [parameter.grad for parameter in policy.model.parameters() if parameter.grad is not None]
        vectors = {"gradient": gradients, "parameters": [parameter.detach() for parameter in policy.model.parameters()]}
        flat = {key: torch.cat([part.flatten() for part in parts]) for key, parts in vectors.items()}
        steps.append({**flat, "loss": output["total_loss"]})
    return steps


def compare_all() -> dict[str, Any]:
    """Return what is wrong with some configs, and on the agent the comparisons with one process."""
    return {"refused": refuse(), **{model: compare(model) for model in ("pg", "pg_double")}}


# Whole runs.


def rank_train() -> None:
    """Train in one go; then in two, the second of which resumes the first; say what each ended with."""
    with DDPContext():
        hashes = {}
        for name, steps, more in (("whole", 1200, []), ("parts", 600, []), ("parts", 1200, ["resume_training=True"])):
            rate = dict(type="linear", start=1e-3, end=1e-4, over=1200, by="env_step")
            learn = [f"policy.learn.{key}" for key in (f"learning_rate={rate}", *more)]
            overrides = [*QUICK, f"exp_name={name}", *learn]
            policy = serial_pipeline_rpc((main_config, create_config), 0, max_env_step=steps, overrides=overrides)
            assert (policy is None) == (RANK != AGENT)
            assert policy is None or "forward" not in vars(policy.model.encoder)
            hashes[name] = parameter_hash(policy.model) if policy else None
        if RANK == AGENT:
            Path("hashes.json").write_text(json.dumps(hashes))


def refuse() -> list[str]:
    """Return what this rank is told of configs that cannot be run."""
    own, replay = (main_config, create_config), (cartpole_dqn_config.main_config, cartpole_dqn_config.create_config)
    differing = f"policy.learn.batch_size={60 + RANK}"
    discount = "{'type': 'linear', 'start': 0.9, 'end': 0.99, 'over': 9, 'by': 'iteration'}"
    told = []
    mistakes = [
        ["policy.lern.batch_size=8"],
        [differing],
        [f"policy.discount_factor={discount}"],
        ["policy.divide=True"],
    ]
    for pair, overrides in (*((own, mistake) for mistake in mistakes), (replay, [])):
        try:
            serial_pipeline_rpc(pair, 0, overrides=overrides)
        except UserError as error:
            told.append(f"{type(error).__name__}: {error}")
    return told


# Failures.


@ENV_REGISTRY.register("failing")
class FailingEnv(CartPoleEnv):
    """CartPole, of which a rank's environments do what FAIL says in the 40th step."""

    count = 0

    def step(self, action: Any) -> Any:
        FailingEnv.count += 1
        if FailingEnv.count == 40 and RANK == 2:
            say(f"failing at {time.time()}")
            if os.environ["FAIL"] != "encode":
                fail(os.environ["FAIL"])
        return super().step(action)


def fail(how: str) -> None:
    if how == "encode":
        raise ArithmeticError("boom")
    os.kill(os.getpid(), signal.SIGKILL if how == "kill" else signal.SIGUSR1)


def rank_fail() -> None:
    with DDPContext():
        if os.environ["FAIL"] == "encode" and RANK == 2:
            Observer.encode = lambda *_: fail("encode")  # type: ignore[method-assign,assignment]
        create = {**create_config, "env": {"type": "failing", "import_names": ["tests.distributed.rpc_ranks"]}}
        serial_pipeline_rpc((main_config, create), 0, overrides=[*QUICK, "exp_name=run"])
