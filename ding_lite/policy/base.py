"""The base class of all policies: it declares the config, and the methods for learning, collecting and evaluating.

Shapes: B samples in a batch, N environments, T steps, M samples in a collect. A batch is a dict of tensors `[B, ...]`
on the policy's device, see the data contract in `docs/architecture.md`. `envstep` counts env steps of all ranks.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

import gymnasium
import numpy as np
import torch
from easydict import EasyDict
from torch import Tensor, nn

from ding_lite.model.noisy import Noise, exploring, given_noise, noisy_layers
from ding_lite.policy.checkpointed import Checkpointed, WeightAverage
from ding_lite.policy.common_keys import (
    COMMON_KEYS,
    LEARNING_RATE_KEYS,
    SAMPLE_KEYS,
    check_actors,
    check_common_keys,
)
from ding_lite.policy.schedules import Schedules
from ding_lite.rl_utils.distribution import mode
from ding_lite.rl_utils.exploration import epsilon_at
from ding_lite.torch_utils import networks
from ding_lite.torch_utils.data import Batch, Block, Figures, Output, Row
from ding_lite.torch_utils.gradient import create_graphs, uses_ddp, uses_graphs
from ding_lite.torch_utils.minibatch import minibatches, rank_sizes
from ding_lite.torch_utils.normalizer import Normalizer
from ding_lite.torch_utils.optimizer import Trained
from ding_lite.torch_utils.optimizer_step import Optimizers, OptimizerStep
from ding_lite.torch_utils.switches import autocast, evaluated, find_precision, frozen, set_training
from ding_lite.torch_utils.target_network import TargetNetwork
from ding_lite.utils.key import ConfigDict, Groups, declared_keys, default_values
from ding_lite.utils.ranks.collectives import broadcast_module, get_local_rank, get_world_size
from ding_lite.utils.registry import MODEL_REGISTRY, POLICY_REGISTRY, ConfigError, wrapped
from ding_lite.utils.tree import tree_leaves, tree_map


def _di_engine_mode(name: str) -> property:
    """Return a property: the view of a policy's methods that has this name in DI-engine."""
    return property(lambda policy: getattr(importlib.import_module("ding_lite.di_engine.names"), name)(policy))


class Policy(Checkpointed):
    """Base class of all policies. To write an algorithm, subclass it, override methods and register the class.

    The `config` of a subclass contains only the keys that it adds to those of its base classes, or changes.

    The learner, collectors and evaluators call the public methods. These do what all policies have in common, in order:
    they set scheduled numbers, normalise, switch the networks to training mode for losses and to evaluation mode for
    acting, and call the method with an underscore that a subclass overrides. Noisy layers draw noise in evaluation mode
    too when the policy explores.

    Args:
        cfg: the compiled `cfg.policy`.
        model: a model to train or to play with; its parameters are used as they are. None: `_create_model` creates one.
        enable_field: the uses to prepare, any of 'learn', 'collect' and 'eval'.

    Raises:
        ConfigError: several processes run, but `multi_gpu` is False.
    """

    config: ClassVar[dict[str, Any]] = COMMON_KEYS
    key_groups: ClassVar[Groups] = (SAMPLE_KEYS, LEARNING_RATE_KEYS)  # all groups that it has; subclasses replace it
    learns_from: ClassVar[Literal["replay", "collect", "dataset"]] = "replay"  # its source of samples
    # what its losses read of a data set, which must have these columns; without `next_obs`, replay does not return it
    required_columns: ClassVar[tuple[str, ...]] = ("obs", "action", "reward", "next_obs", "done")
    action_spaces: ClassVar[tuple[type, ...]] = (gymnasium.Space,)  # action spaces that it supports
    multi_agent: ClassVar[bool] = False  # whether it needs several agents
    actor_mode: ClassVar[str | None] = None  # argument `mode` of its model when it acts without exploration
    # outputs of `_forward_collect` that replay stores, where they exist; with `logit`, the policy never acts at random
    stored_outputs: ClassVar[tuple[str, ...]] = ()
    unit_actions: ClassVar[bool] = False  # whether all its continuous actions are between -1 and 1
    model_type: ClassVar[str] = ""  # name of the built-in model that it uses by default, see `default_model`
    model_attributes: ClassVar[tuple[str, ...]] = ()  # what its model must have: networks with optimizers, sizes
    allows_lag: ClassVar[bool] = True  # whether it may learn from what an older policy played, see `collect.max_lag`
    remembers: bool = False  # whether its model has a state of each running episode, see `_run`
    logged_figures: ClassVar[tuple[str, ...]] = ()  # figures to log, besides losses, norms and learning rates
    alarms: ClassVar[dict[str, tuple[float, str]]] = {}  # figures, the limits of their means, and what to do above them

    @classmethod
    def default_config(cls) -> EasyDict:
        """Return the default values of the keys that the class and its base classes declare."""
        return ConfigDict(default_values(declared_keys(cls)))

    @classmethod
    def check_config(cls, cfg: EasyDict) -> None:
        """Check the policy's values in the whole compiled config; a subclass calls `super().check_config(cfg)` first.

        Raises:
            ConfigError: two values contradict each other.
        """
        check_common_keys(cfg, cls.default_config())
        if cfg.policy.collect.get("actors"):
            check_actors(cfg.policy, cls.learns_from == "replay", cls.allows_lag)

    @classmethod
    def default_model(cls) -> tuple[str, list[str]]:
        """Return the name of the policy's model in the model registry, and the modules whose import registers it."""
        return cls.model_type, ["ding_lite.model"]

    def __init__(
        self,
        cfg: EasyDict,
        model: nn.Module | None = None,
        enable_field: tuple[str, ...] = ("learn", "collect", "eval"),
    ) -> None:
        if wrapped(type(self), cfg) is not type(self):
            raise ConfigError(f"A key of cfg.policy changes {type(self).__name__}: use ding_lite.policy.create_policy.")
        if get_world_size() > 1 and not cfg.multi_gpu:
            raise ConfigError(
                f"expected policy.multi_gpu=True with {get_world_size()} processes, got policy.multi_gpu=False: "
                "each process would train a model of its own; set policy.multi_gpu=True."
            )
        self._device = find_device(cfg)
        self.precision = find_precision(cfg.precision, self._device)  # "float32" or "bf16"
        self.schedules = Schedules(cfg, type(self), self._device)
        self._cfg = cfg = self.schedules.cfg  # a copy if there are schedules, whose numbers change
        self._model = (model if model is not None else self._create_model()).to(self._device)
        check_attributes(self)
        if uses_ddp(cfg) and cfg.ddp.sync_batchnorm:
            self._model = networks.synchronize_batchnorm(self._model)
        self._model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stub does not declare it
        self._dtype = next(self._model.parameters()).dtype
        self._optimizers = Optimizers()
        self._target_networks: dict[str, TargetNetwork] = {}  # by name in checkpoints; '': that of the whole model
        self._figures: dict[str, Tensor] = {}  # figures of the last collect, for the log
        self.env_place = (0, 0)  # number of the first environment that it plays, and of all; (0, 0): it plays all
        self._eval_random = torch.Generator(self._device)  # its own: evaluating must not change what is learned
        # Of the running episodes of an evaluator and of a collector: trees of tensors `[N, ...]`; what is missing is 0.
        self._memory: dict[bool, dict[str, Any]] = {False: {}, True: {}}
        self._acting: dict[str, nn.Module] = {}  # what acting needs besides the model, by name in checkpoints
        for field in enable_field:
            getattr(self, f"_init_{field}")()
        self.normalizer = Normalizer(None, None)
        self._modules = networks.modules_of(self)
        broadcast_module(nn.ModuleList(self._modules))  # last, so that target networks are included
        self._drifting = networks.drifting_buffers(self._modules) if cfg.multi_gpu else []
        self.schedules.set_numbers()
        averages = cfg.eval.average and "learn" in enable_field
        self._average = WeightAverage(self._model, cfg.eval.average) if averages else None
        self._noisy = list(noisy_layers(self._model).values())
        # Noisy layers draw noise only while the policy explores, which a graph would not notice.
        replays = uses_graphs(cfg, self._device) and not self._noisy
        self._graphs = create_graphs(self, *self._modules) if replays else None

    def _create_model(self) -> nn.Module:
        """Return a new model. Only here, parameters are initialised: not those of a model that the user passes."""
        kwargs = {key: value for key, value in self._cfg.model.items() if key != "type"}
        name, modules = self.default_model()
        for module in modules:
            importlib.import_module(module)
        return MODEL_REGISTRY.find(self._cfg.model.get("type", name))(**kwargs)

    @property
    def model(self) -> nn.Module:
        """The network that acts."""
        return self._model

    @property
    def device(self) -> torch.device:
        """The device of the networks."""
        return self._device

    @property
    def current_config(self) -> EasyDict:
        """`cfg.policy`, in which every key that has a schedule has the current number."""
        return self._cfg

    @property
    def stores_outputs(self) -> bool:
        """Whether a row needs more of what `act` returns than the action, or `act` must follow what is played."""
        own_rows = type(self)._process_transition is not Policy._process_transition
        return own_rows or self.remembers or bool(self.stored_outputs)

    @property
    def iteration(self) -> int:
        """The number of learner iterations so far."""
        return self.schedules.iteration

    # What the learner calls.

    def learn(self, batch: Batch) -> Figures:
        """Take one optimizer step on a batch, and return figures, see `_forward_learn`; a collective call."""
        self.schedules.set_numbers()
        output = self._forward_learn(self._ready(batch))
        if self._drifting:
            networks.average_buffers(self._drifting)
        if self._average is not None:
            self._average.update(self.iteration + 1)
        self.schedules.count_iteration()
        return self.schedules.figures | output | self._figures | self._optimizers.figures()

    def loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return the loss of a batch, a scalar, and detached figures, see `_loss`; nothing changes."""
        return self._loss(self._ready(batch))

    def batches(self, samples: Batch) -> Iterator[Batch]:
        """Yield the batches of one collect, see `_batches`; only for policies that learn from what was collected."""
        set_training(self._modules, False)
        for batch in self._batches(samples):
            yield batch
            set_training(self._modules, False)

    def weigh(self, weight: float) -> None:
        """Set the weight of this rank's batches in the joined ones, see `OptimizerStep.weight`."""
        for step in self._optimizers.values():
            step.weight = weight

    def finish(self) -> None:
        """Complete the check of the last step of a series, see `OptimizerStep.finish`."""
        self._optimizers.finish()

    def checksum(self, *others: nn.Module) -> tuple[int, int]:
        """Return a checksum of all parameters and buffers, and of those of other networks."""
        return networks.checksum_networks([*networks.modules_of(self), *others])

    def monitor_vars(self) -> list[str]:
        """Return the names of the figures to log, see `_monitor_vars_learn`, and of the schedules."""
        return [*self._monitor_vars_learn(), *self.schedules.figures]

    def _ready(self, batch: Batch) -> Batch:
        """Set training mode; return the batch in the form that losses expect, with noise. Noise in the batch is kept.

        Batches of what was just collected are normalised already, see `to_samples`.
        """
        if self.learns_from != "collect":
            batch = self._prepare(self.normalizer.normalize(batch) if self.normalizer.active else batch)
        set_training(self._modules, True)
        return {**batch, "noise": batch.get("noise") or self._draw_noise(batch)}

    # What a collector and an evaluator call.

    def begin_collect(self, envstep: int) -> dict[str, Any]:
        """Begin a collect; return the keyword arguments of `act` in it, such as epsilon."""
        self.schedules.count_collect(envstep)
        self.schedules.set_numbers()
        kwargs = self._begin_collect(envstep)
        if "eps" in kwargs:
            self._figures["epsilon"] = torch.tensor(kwargs["eps"])
        return kwargs

    def act(self, obs: Any, explore: bool = True, **kwargs: Any) -> Output:
        """Return a dict with `action` `[N]`, `[N, D]` or a dict of these, and whatever else the policy stores.

        Args:
            obs: observations `[N, ...]`, not normalised.
            explore: act as in a collect; False: choose the best actions.
            **kwargs: what `begin_collect` returned.
        """
        set_training(self._modules, False)
        obs = self._ready_obs(obs)
        if not explore:
            return self._forward_eval(obs)
        with exploring(self._noisy) if self._noisy else nullcontext():
            return self._forward_collect(obs, **kwargs)

    def _ready_obs(self, obs: Any) -> Any:
        """Return observations in the form that `_forward_collect` and `_forward_eval` expect."""
        return self.normalizer.normalize_obs(obs) if self.normalizer.active else obs

    def to_row(self, obs: Any, output: Output, timestep: SimpleNamespace) -> Row:
        """Return what the rollout block stores for one step, see `_process_transition`."""
        return self._process_transition(obs, output, timestep)

    def to_samples(self, block: Block) -> Batch:
        """Turn a rollout block `[T, N, ...]` into samples, and update the normaliser; a collective call.

        Samples that are learned from immediately are normalised here, as they were when the policy acted. Those of
        replay are normalised when they are learned from.
        """
        if self.normalizer.active and self.learns_from == "collect":
            block = self.normalizer.observe(block)
        elif self.normalizer.active:
            self.normalizer.update(block)
        return self._get_train_sample(block)

    def reset(self, env_id: Any = None, explore: bool = True) -> None:
        """Forget the running episodes of these environments of a collector, or of an evaluator; None: all.

        `env_id` has their numbers, or is a mask, bool `[N]`.
        """
        if env_id is None:
            self._memory[explore] = {}
        elif self._memory[explore]:
            index = torch.as_tensor(env_id, device=self._device)
            self._memory[explore] = tree_map(lambda leaf: _forget(leaf, index), self._memory[explore])
        if explore:
            self._reset_collect(env_id)
            return
        if env_id is None:  # a new evaluation
            self.schedules.set_numbers()
            self._eval_random.manual_seed(0)
        self._reset_eval(env_id)

    def see_reward(self, reward: np.ndarray, explore: bool = True) -> None:
        """Take the true rewards `[N]` of the last actions of `act`; only policies that ask for a return do."""

    def evaluating(self) -> AbstractContextManager[None]:
        """Return a context manager for evaluations: in it, networks have averaged weights if `eval.average` is set."""
        return nullcontext() if self._average is None else self._average.used()

    learn_mode, collect_mode, eval_mode = map(_di_engine_mode, ("learn_mode", "collect_mode", "eval_mode"))

    # What subclasses override, for learning.

    @property
    def optimizers(self) -> list[torch.optim.Optimizer]:
        """All optimizers of torch that learning uses, for instance to change a learning rate."""
        return [optimizer for step in self._optimizers.values() for optimizer in step.optimizers.values()]

    def _init_learn(self) -> None:
        """Create what learning needs besides the model: optimizers, target networks. By default: one optimizer."""
        self._optimizer = self._add_optimizer("model", self._model)

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return the loss of a batch, a scalar, and detached tensors whose means may be logged.

        It must depend only on the networks and the batch, and change neither.
        """
        raise NotImplementedError

    def _draw_noise(self, batch: Batch) -> dict[str, Any]:
        """Return all random numbers that the losses of a batch need, by name; empty if they need none.

        The losses find them in `batch["noise"]`, so they are functions of their batch.
        """
        return {}

    def _prepare(self, batch: Batch) -> Batch:
        """Return a batch of replay or of a data set in the form that losses expect.

        With `unit_actions`, continuous actions are `[B, D]` between -1 and 1. `done` is false everywhere if
        `learn.ignore_done` is set. `weight` `[B]` is left out if `policy.priority_IS_weight` is not set.
        """
        batch, cfg, weighted = dict(batch), self._cfg, self.learns_from != "dataset"
        if self.unit_actions:
            batch["action"] = tree_map(_bounded, batch["action"])
        if cfg.learn.ignore_done and "done" in batch:
            batch["done"] = torch.zeros_like(batch["done"])
        if "priority" in cfg:  # None: if it is set
            weighted = cfg.priority and cfg.get("priority_IS_weight") is not False
        if not weighted:
            batch.pop("weight", None)
        return batch

    def _forward_learn(self, batch: Batch) -> Figures:
        """Take one optimizer step on a batch, with `noise` from `_draw_noise`.

        Returns:
            Tensors whose means may be logged, and `priority` `[B]` if the policy sets priorities in replay.
        """
        output = self._optimizer.step(self._loss, batch)
        self._update_targets()
        return output

    def _batches(self, samples: Batch) -> Iterator[Batch]:
        """Yield the batches of one collect; by default, one pass over the samples in random order.

        `_forward_learn` is called with each batch before the next batch is requested. All ranks take the same number
        of steps, and each is the step that one process would take on the joined batch.

        Args:
            samples: the samples `[M, ...]` that `_get_train_sample` returned. M may differ between ranks.
        """
        sizes = rank_sizes(len(next(tree_leaves(samples))))
        yield from minibatches(self._to_device(samples), self._cfg.learn.batch_size, sizes)

    def _monitor_vars_learn(self) -> list[str]:
        """Return the names of the figures to log. A figure that no step returns is left out of the log."""
        return [*self._optimizers.names(), *self.logged_figures]

    def _add_optimizer(
        self, name: str, network: nn.Module | dict[str, Trained], *args: Any, **options: Any
    ) -> OptimizerStep:
        """Create an optimizer. `_forward_learn` calls its `step(self._loss, batch)`; checkpoints contain its state.

        Args:
            name: its name in checkpoints and logs; 'model' if it is the policy's only optimizer.
            network: the network to train, or a dict of parts, each with its own optimizer.
            *args: further arguments of `OptimizerStep`, such as the learning rate; also by name.
            **options: further keyword arguments.
        """
        return self._optimizers.add(name, OptimizerStep(network, self._cfg, *args, **options))

    def _add_target(self, name: str) -> nn.Module:
        """Return a target network of the network that the optimizer of this name trains; checkpoints include it."""
        learn, optimizer = self._cfg.learn, self._optimizers[name]
        network = self._model if name == "model" else optimizer.network
        target = TargetNetwork(network, optimizer.flat, learn.get("target_update_freq"), learn.get("target_theta"))
        self._target_networks["" if network is self._model else name] = target
        return target.network

    def _update_targets(self) -> None:
        """Update every target network, as `learn.target_update_freq` or `learn.target_theta` says."""
        for target in self._target_networks.values():
            target.update()

    def _run(
        self,
        network: nn.Module,
        obs: Any,
        explore: bool | None = None,
        layer_noise: Noise | None = None,
        **kwargs: Any,
    ) -> Any:
        """Return a network's output for observations `[B, ...]`, arrays or tensors on any device.

        It is float32, even if it was computed in bf16.

        Args:
            network: the network.
            obs: the observations.
            explore: of a model that acts: True in a collect, False in an evaluation. A model that `remembers` continues
                the running episodes then. It gets sequences of one row, and `prev_state`, None for zeros, and returns
                `next_state`, see `run_core`. The output contains `prev_state`, the state before the step.
            layer_noise: noise for its noisy layers, see `draw_noise`; None: they draw their own when they explore.
            **kwargs: further arguments of the network.
        """
        obs = self._to_device(obs)
        memory = None if explore is None or not self.remembers else self._memory[explore]
        if memory is not None:
            obs, before = tree_map(lambda leaf: leaf[None], obs), memory.get("state")
            kwargs["prev_state"] = before
        forward: Callable[..., Any] = network
        if self._graphs is not None and torch.is_inference_mode_enabled():
            forward = self._graphs.replayed(network)
        noise = nullcontext() if layer_noise is None else given_noise(network, layer_noise)
        with autocast(self.precision, self._device), noise:
            output = forward(obs, **kwargs)
        if self.precision != "float32":
            output = tree_map(Tensor.float, output)
        if memory is not None:
            memory["state"] = after = output.pop("next_state")
            output = tree_map(lambda leaf: leaf[0], output)
            output["prev_state"] = tree_map(torch.zeros_like, after) if before is None else before
        return output

    def _run_frozen(self, network: nn.Module, obs: Any, **kwargs: Any) -> Any:
        """Return the result of `_run` in evaluation mode; its gradient flows to `kwargs`, but to no parameters."""
        with frozen(network), evaluated(network):
            return self._run(network, obs, **kwargs)

    # For collecting.

    def _init_collect(self) -> None:
        """Create what collecting needs in addition to the model, such as the schedule of epsilon."""

    def _forward_collect(self, obs: Any, **kwargs: Any) -> Output:
        """Choose actions for observations `[N, ...]`, with exploration; by default, those of an evaluation.

        Args:
            obs: the observations.
            **kwargs: what `_begin_collect` returned.

        Returns:
            A dict with `action` `[N]` or `[N, D]`, and what `_process_transition` needs in addition.
        """
        return self._forward_eval(obs)

    def _begin_collect(self, envstep: int) -> dict[str, Any]:
        """Return keyword arguments for `_forward_collect`: epsilon, of a policy that has the keys `other.eps`."""
        eps = self._cfg.other.get("eps")
        return {"eps": epsilon_at(envstep, eps.start, eps.end, eps.decay, eps.type)} if eps else {}

    def _process_transition(self, obs: Any, policy_output: Output, timestep: SimpleNamespace) -> Row:
        """Return a row of the rollout block: arrays or tensors `[N, ...]` by column, including `stored_outputs`.

        Args:
            obs: the observations `[N, ...]` before the step.
            policy_output: what `_forward_collect` returned for these observations.
            timestep: has `reward`, `done` (terminated) and `traj_flag` (the trajectory ends here: terminated or
                truncated), each `[N]`, and `info` of the vector environment.
        """
        return {
            "obs": obs,
            "action": policy_output["action"],
            "reward": timestep.reward,
            "done": timestep.done & (not self._cfg.learn.ignore_done),
            "traj_flag": timestep.traj_flag,
            **{key: policy_output[key] for key in self.stored_outputs if key in policy_output},
        }

    def _get_train_sample(self, block: Block) -> Batch:
        """Turn a rollout block `[T, N, ...]` into samples. By default, the block is returned unchanged, for replay."""
        return block

    def _reset_collect(self, env_id: Any = None) -> None:
        """Forget more of the running episodes of these environments than `_memory`; None means all."""

    # For evaluating.

    def _init_eval(self) -> None:
        """Create what evaluation needs in addition to the model."""

    @torch.inference_mode()
    def _forward_eval(self, obs: Any) -> Output:
        """Return a dict with the best actions, `action` `[N]` or `[N, D]`, for observations `[N, ...]`.

        By default, it is the model's `action`, or the most likely one by its `logit`.
        """
        options: dict[str, Any] = {"mode": self.actor_mode} if self.actor_mode else {}
        output = self._run(self._model, obs, explore=False, **options)
        return output if "action" in output else output | {"action": mode(output["logit"])}

    def _reset_eval(self, env_id: Any = None) -> None:
        """Forget more of the running episodes of these environments than `_memory`; None means all."""

    def _to_device(self, data: Any) -> Any:
        """Return nested dicts of arrays or tensors as tensors on the policy's device; floats get the model's dtype."""

        def move(leaf: Any) -> Tensor:
            leaf = torch.as_tensor(leaf)
            return leaf.to(self._device, self._dtype if leaf.is_floating_point() else None, non_blocking=True)

        return tree_map(move, data)


def create_policy(
    cfg: EasyDict, model: nn.Module | None = None, enable_field: tuple[str, ...] = ("learn", "collect", "eval")
) -> Policy:
    """Build the policy of a compiled `cfg.policy`, see `Policy` for the arguments."""
    policy_cls: type[Policy] = wrapped(POLICY_REGISTRY.find(cfg.type), cfg)
    return policy_cls(cfg, model, enable_field)


def find_device(cfg: EasyDict) -> torch.device:
    """Return the device of this rank's networks; `cfg` is the compiled `cfg.policy`."""
    on_gpu = cfg.cuda and torch.cuda.is_available()
    return torch.device(f"cuda:{get_local_rank() % torch.cuda.device_count()}" if on_gpu else "cpu")


def check_attributes(policy: Policy) -> None:
    """Check that a policy's model has what the policy reads of it."""
    wanted, model = policy.model_attributes, policy.model
    if missing := [name for name in wanted if not hasattr(model, name)]:
        raise ConfigError(
            f"Policy '{policy.current_config.type}' needs a model with the attributes {', '.join(wanted)}, but "
            f"{type(model).__name__} has no {', '.join(missing)}: see 'What each policy asks of a model' in "
            "docs/extending.md."
        )


def _forget(leaf: Tensor, index: Tensor) -> Tensor:
    """Return a tensor `[N, ...]` with zeros where `index`, numbers or a mask `[N]`, says so."""
    if index.dtype == torch.bool:
        return leaf.masked_fill(index.view(-1, *[1] * (leaf.ndim - 1)), 0.0)
    return leaf.index_fill(0, index, 0.0)


def _bounded(action: Tensor) -> Tensor:
    """Return a continuous action as `[B, D]` between -1 and 1, and a discrete one, which is an integer, unchanged."""
    return action.reshape(len(action), -1).clamp(-1.0, 1.0) if action.is_floating_point() else action
