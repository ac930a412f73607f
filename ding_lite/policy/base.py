"""The base class of all policies: a documented config, and methods for learning, collecting and evaluation.

A policy works on batched data, see `docs/architecture.md`. Shapes: B samples, N environments, T steps, M samples of a
collect.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any, ClassVar

import gymnasium
import numpy as np
import torch
from easydict import EasyDict
from torch import Tensor, nn

from ding_lite.policy.common_keys import COMMON_KEYS
from ding_lite.policy.defaults import check_common_keys, merge_defaults
from ding_lite.policy.modes import PolicyModes
from ding_lite.torch_utils.data_parallel import synchronize_batchnorm, uses_ddp
from ding_lite.torch_utils.minibatch import minibatches, rank_sizes
from ding_lite.torch_utils.modes import Loss
from ding_lite.torch_utils.networks import broadcast_networks, modules_of
from ding_lite.torch_utils.optimizer import Trained
from ding_lite.torch_utils.optimizer_step import Optimizers, OptimizerStep
from ding_lite.utils.dist.ranks import get_local_rank, get_world_size
from ding_lite.utils.registry import MODEL_REGISTRY, ConfigError
from ding_lite.utils.tree import tree_leaves, tree_map


class Policy:
    """Base of all policies. To extend one, subclass it, override a method, and register the class under a name.

    A subclass's `config` holds only the keys that it adds or changes; `default_config` merges it with those of its
    bases; the keys that all policies have are in `common_keys.py`.

    Workers use a policy only through its modes. These call the methods below and do what all policies have in common:
    networks learn in training mode, act in evaluation mode, and are the same on all ranks, wherever the policy keeps
    them.

    Attributes:
        learn_mode: what a learner calls.
        collect_mode: what a collector calls.
        eval_mode: what an evaluator calls.
    """

    config: ClassVar[dict[str, Any]] = COMMON_KEYS
    pipeline: ClassVar[str] = "serial_pipeline"  # the function in ding_lite.entry that trains it
    config_without: ClassVar[tuple[str, ...]] = ()  # dotted keys of the bases' configs that it has no use for
    action_spaces: ClassVar[tuple[type, ...]] = (gymnasium.Space,)  # kinds of action that it can choose
    trainer_keys: ClassVar[tuple[str, ...]] = ()  # keys that act in our own training loop only, not in `RolloutDataset`

    @classmethod
    def default_config(cls) -> EasyDict:
        """Return the defaults of the class and its bases, merged."""
        return merge_defaults(cls)

    @classmethod
    def check_config(cls, cfg: EasyDict) -> None:
        """Raise `ConfigError` for values of `cfg.policy` that contradict one another."""
        check_common_keys(cfg.policy, cls.default_config())
        if cfg.policy.get("priority_IS_weight") and not cfg.policy.priority:
            raise ConfigError(
                "policy.priority_IS_weight=True weighs prioritised samples: set policy.priority=True too."
            )

    @staticmethod
    def default_model() -> tuple[str, list[str]]:
        """Return the registered name of the policy's model and the modules to import for it."""
        raise NotImplementedError

    def __init__(
        self,
        cfg: EasyDict,
        model: nn.Module | None = None,
        enable_field: tuple[str, ...] = ("learn", "collect", "eval"),
    ) -> None:
        """Build the policy.

        Args:
            cfg: the compiled `cfg.policy`.
            model: a model to train, which is not initialised again; None: `_create_model` creates one.
            enable_field: the modes to prepare: 'learn', 'collect', 'eval'.
        """
        if get_world_size() > 1 and not cfg.multi_gpu:
            raise ConfigError(
                f"{get_world_size()} processes, but policy.multi_gpu=False would train {get_world_size()} models apart:"
                " set policy.multi_gpu=True."
            )
        self._cfg = cfg
        on_gpu = cfg.cuda and torch.cuda.is_available()
        number = get_local_rank() % torch.cuda.device_count() if on_gpu else 0
        self._device = torch.device("cuda", number) if on_gpu else torch.device("cpu")
        self._model = (model if model is not None else self._create_model()).to(self._device)
        if uses_ddp(cfg) and cfg.ddp.sync_batchnorm:
            self._model = synchronize_batchnorm(self._model)
        self._model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stub lacks it
        self._dtype = next(self._model.parameters()).dtype
        self._optimizers = Optimizers()
        for field in enable_field:
            getattr(self, f"_init_{field}")()
        broadcast_networks(modules_of(self))  # targets too, after all that draws random parameters
        modes = PolicyModes(self)
        self.learn_mode, self.collect_mode, self.eval_mode = modes.learn, modes.collect, modes.eval

    def _create_model(self) -> nn.Module:
        """Return a new model with its initial parameters, which are drawn here and nowhere else."""
        kwargs = {key: value for key, value in self._cfg.model.items() if key != "type"}
        name, modules = self.default_model()
        for module in modules:
            importlib.import_module(module)
        return MODEL_REGISTRY.find(self._cfg.model.get("type", name))(**kwargs)

    @property
    def model(self) -> nn.Module:
        return self._model

    @property
    def device(self) -> torch.device:
        return self._device

    # Learn mode.

    def _init_learn(self) -> None:
        """Create the parts that learning needs in addition to the model."""
        self._init_optimizer()

    def _loss(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss of a batch and detached figures. It depends on nothing but the model and the batch."""
        raise NotImplementedError

    def _draw_noise(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return the random numbers that the losses of a batch need, by name; they find them in `batch["noise"]`.

        Losses are then functions of their batch, and N processes can use the noise of one process.
        """
        return {}

    def _forward_learn(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        """Take one optimizer step on a batch, a dict of `[B, ...]` tensors on the policy's device.

        Returns:
            Tensors, whose means may be logged, and `priority` `[B]` if the policy has priorities.
        """
        return self._optimizer.step(batch)

    def _get_batches(self, samples: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the batches of a collect, if the policy is on-policy; other policies have a replay buffer.

        By default this is one pass in random order. `_forward_learn` is called with each batch before the next is made.

        Args:
            samples: what `_get_train_sample` returned, `[M, ...]`. M may differ between ranks: all take the same
                number of steps, and each step is that of the joined batch.
        """
        sizes = rank_sizes(len(next(tree_leaves(samples))))
        yield from minibatches(self._to_device(samples), self._cfg.learn.batch_size, sizes)

    def _monitor_vars_learn(self) -> list[str]:
        """Return the names of the figures to log; those that a step does not return are left out."""
        return ["total_loss", "grad_norm", *self._optimizers.figures()]

    def _state_dict_learn(self) -> dict[str, Any]:
        """Return everything that learning has changed, which is the same on all ranks."""
        return {"model": self._model.state_dict(), **self._optimizers.state_dict()}

    def _load_state_dict_learn(self, state: dict[str, Any]) -> None:
        """Restore `_state_dict_learn`. Without `optimizer` in `state`, a new run starts: restore no counters."""
        self._model.load_state_dict(state["model"])
        if "optimizer" in state:
            self._optimizers.load_state_dict(state)

    def _init_optimizer(self) -> None:
        """Create one optimizer that minimises `_loss` over the whole model."""
        self._optimizer = self._add_optimizer("model", self._model, self._loss)

    def _add_optimizer(
        self, name: str, network: nn.Module | dict[str, Trained], loss: Loss, *args: Any, **options: Any
    ) -> OptimizerStep:
        """Return an optimizer of `loss` over `network`, whose `step(batch)` `_forward_learn` calls.

        Its state is saved and restored under its name; the name 'model' is for a policy's only optimizer. `network` may
        be a dict of parts, with an optimizer each. Further arguments are those of `OptimizerStep`: `learning_rate`, a
        number or a function of the steps so far; `optimizer`, a name or a class; and options of that class.
        """
        return self._optimizers.add(name, OptimizerStep(network, loss, self._cfg, *args, **options))

    def _autocast(self) -> AbstractContextManager[Any]:
        """Return a block in which forward passes have the precision of the config."""
        if self._cfg.precision == "float32":
            return nullcontext()
        return torch.autocast(self._device.type, torch.bfloat16)

    def _run(self, network: nn.Module, obs: Any, **kwargs: Any) -> Any:
        """Return a network's output for observations `[B, ...]`; it is float32 even where `precision` is bf16."""
        with self._autocast():
            output = network(self._to_device(obs), **kwargs)
        return output if self._cfg.precision == "float32" else tree_map(Tensor.float, output)

    # Collect mode.

    def _init_collect(self) -> None:
        """Create the parts that collecting needs in addition to the model."""

    def _forward_collect(self, obs: Any, **kwargs: Any) -> dict[str, Tensor]:
        """Return a dict with `action` `[N]` for observations `[N, ...]`, given `_get_collect_kwargs`."""
        raise NotImplementedError

    def _get_collect_kwargs(self, envstep: int) -> dict[str, Any]:
        """Return the keyword arguments of `_forward_collect` at this global env step, such as epsilon."""
        return {}

    def _process_transition(
        self, obs: Any, policy_output: dict[str, Tensor], timestep: SimpleNamespace
    ) -> dict[str, Any]:
        """Return the row `[N, ...]` of the rollout block for one step; override it to store more of the output.

        Args:
            obs: what the policy saw, `[N, ...]`.
            policy_output: what `_forward_collect` returned for it.
            timestep: reward, done (terminated), traj_flag (cut here: terminated or truncated) `[N]`, and the vector
                environment's info.
        """
        return {
            "obs": obs,
            "action": policy_output["action"],
            "reward": timestep.reward,
            "done": np.zeros_like(timestep.done) if self._cfg.learn.ignore_done else timestep.done,
            "traj_flag": timestep.traj_flag,
        }

    def _get_train_sample(self, block: dict[str, Any]) -> dict[str, Any]:
        """Turn a rollout block `[T, N, ...]` into samples, or what replay stores; by default it is unchanged."""
        return block

    def _reset_collect(self, env_id: np.ndarray | None = None) -> None:
        """Forget the running episodes of these environments; None means all."""

    def _state_dict_collect(self) -> dict[str, Any]:
        """Return this rank's memory of its running episodes, such as a recurrent state."""
        return {}

    def _load_state_dict_collect(self, state: dict[str, Any]) -> None:
        """Restore what `_state_dict_collect` returned."""

    # Eval mode.

    def _init_eval(self) -> None:
        """Create the parts that evaluation needs in addition to the model."""

    def _forward_eval(self, obs: Any) -> dict[str, Tensor]:
        """Return a dict with the best `action` `[N]` for observations `[N, ...]`."""
        raise NotImplementedError

    def _reset_eval(self, env_id: np.ndarray | None = None) -> None:
        """Forget the running episodes of these environments; None means all."""

    def _to_device(self, data: Any) -> Any:
        """Return nested dicts of arrays or tensors as tensors on the policy's device, floats of the model's type."""

        def move(leaf: Any) -> Tensor:
            leaf = torch.as_tensor(leaf)
            return leaf.to(self._device, self._dtype if leaf.is_floating_point() else None, non_blocking=True)

        return tree_map(move, data)
