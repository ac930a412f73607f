"""What runs in an actor's process, and how the run's setup gets there.

Shapes: N environments of an actor.
"""

from __future__ import annotations

import copy
import importlib
import pickle
import socket
import sys
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from ding_lite.envs import derive_seeds
from ding_lite.envs.builders import find_builder
from ding_lite.envs.wrappers import ENGINES
from ding_lite.policy import Policy
from ding_lite.policy.checkpointed import load_to_act
from ding_lite.run.setup import RunSetup, policy_process
from ding_lite.utils.checkpoint.file import to_arrays
from ding_lite.utils.checkpoint.origin import library_versions
from ding_lite.utils.registry import CONFIG_MODULE, REGISTRIES, ConfigError, UserError
from ding_lite.utils.seed import random_state, set_random_state, set_seed
from ding_lite.utils.tree import tree_map


class Actor:
    """Plays in a process of Ray's, with its own environments and a copy of the policy that only acts."""

    _policy: Policy
    _collector: Any

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._lost: list[int] = []  # environments whose episodes do not continue in the next block

    def build(self, job: bytes, place: dict[str, Any]) -> None:
        """Build policy and environments anew.

        `job` is what `pack` returned. `place` has `index` and `count` of the actor, `state`, from which a new process
        continues, and if it has to begin anew, the number of this `attempt`. New episodes depend on it, and on the
        run's `envstep`, because a resumed run counts attempts anew.
        """
        self._stack.close()
        setup, index, attempt = unpack(job), place["index"], place["attempt"]
        policy = self._stack.enter_context(policy_process(setup, "actor", index, fields=("collect",)))
        collector = setup.create_collector(policy, index, lambda: False, self._stack)
        num_envs = setup.cfg.env.collector_env_num
        policy.env_place = (index * num_envs, place["count"] * num_envs)
        self._lost = list(range(num_envs))
        if attempt:
            path = index, place["envstep"], attempt
            set_seed(derive_seeds(setup.cfg.seed, "actor", *path, n=1)[0])
            collector.reset(derive_seeds(setup.cfg.seed, "collect", *path, n=num_envs))
        elif (state := place["state"]) is not None:
            self._lost = collector.load_local_state_dict(state["collector"])
            policy.load_local_state_dict(state["policy"])
            set_random_state(state["random"])
        self._policy, self._collector = policy, collector

    def play(self, request: dict[str, Any], weights: dict[str, Any]) -> dict[str, Any]:
        """Collect once what `ActorCollector` asks for, with the model's `weights`, arrays by name.

        Return the rollout block as arrays, its figures, the random state, and the environments that were not restored.
        """
        policy, collector = self._policy, self._collector
        load_to_act(policy, request["numbers"] | {"model": tree_map(torch.from_numpy, weights)})
        if request["random_state"] is not None:
            set_random_state(request["random_state"])
        collector.envstep = request["envstep"]
        block, figures = collector.collect(random=request["random"])
        figures.pop("interrupt")
        lost, self._lost = self._lost, []
        return {"block": to_arrays(block), "figures": figures, "random": random_state(), "lost": lost}

    def answer(self) -> None:
        """Return: the process has started."""

    def state(self) -> dict[str, Any]:
        """Return what `place["state"]` restores."""
        own = {"collector": self._collector.local_state_dict(), "policy": self._policy.local_state_dict()}
        return own | {"random": random_state()}


def pack(setup: RunSetup, cloudpickle: Any) -> bytes:
    """Return the setup and what it needs, in a form that `unpack` reads in a process on any machine.

    `cloudpickle` is Ray's module: it also sends classes of the user's script.
    """
    cfg = copy.deepcopy(setup.cfg)
    cfg.policy.cuda = cfg.policy.multi_gpu = False
    builder = None if cfg.env.manager.type in ENGINES else find_builder(cfg.env, setup.builders[0])
    builders = setup.builders[0] or (builder and [builder] * cfg.env.collector_env_num)
    named = {kind: registry.data for kind, registry in REGISTRIES.items()}
    own = [name for name in sys.modules if name.startswith(CONFIG_MODULE)]  # cannot be imported elsewhere
    classes = {
        kind: {name: cls for name, cls in group.items() if cls.__module__ in ("__main__", *own)}
        for kind, group in named.items()
    }
    modules = {cls.__module__ for group in named.values() for cls in group.values()}
    modules = {name for name in modules if name.partition(".")[0] not in ("ding_lite", "__main__", *own)}
    facts = {"path": sys.path, "versions": library_versions(), "modules": sorted(modules)}
    for name in own:
        cloudpickle.register_pickle_by_value(sys.modules[name])
    try:
        content = cloudpickle.dumps((replace(setup, cfg=cfg, builders=(builders, None)), classes))
    except Exception as error:  # the user's objects may raise anything
        raise ConfigError(
            f"The environments of '{cfg.env.env_id or cfg.env.type}' (module {_module_of(builder)}) cannot be sent to "
            f"actors, because they cannot be pickled: {error}. Create such objects when an environment is built."
        ) from error
    finally:
        for name in own:
            cloudpickle.unregister_pickle_by_value(sys.modules[name])
    return cloudpickle.dumps((facts, content))


def _module_of(builder: Any) -> str:
    """Return the module of the user's function or class that builds an environment."""
    if isinstance(builder, partial):
        builder = builder.args[0] if builder.args else builder.keywords["spec"].entry_point
    return getattr(builder, "__module__", str(builder))


def unpack(job: bytes) -> RunSetup:
    """Return the setup in an actor's process, with the user's classes registered."""
    facts, content = pickle.loads(job)
    check_versions(facts["versions"])
    sys.path += [path for path in facts["path"] if path not in sys.path]
    try:
        for name in facts["modules"]:
            importlib.import_module(name)
        setup, classes = pickle.loads(content)
    except ImportError as error:
        raise UserError(
            f"An actor on machine '{socket.gethostname()}' cannot import {error.name or error}, which this run needs: "
            "install it there, or run the actors where it is."
        ) from error
    for kind, group in classes.items():
        for name, cls in group.items():
            REGISTRIES[kind][name] = cls
    return setup


def check_versions(expected: dict[str, str]) -> None:
    """Raise `UserError` if libraries of this machine have other versions than the `expected` ones, those of a rank."""
    found = library_versions()
    for name in expected | found:
        if found.get(name) != expected.get(name):
            raise UserError(
                f"Machine '{socket.gethostname()}' has {name} {found.get(name)}, and that of the ranks has "
                f"{expected.get(name)}: install the same version on all."
            )
