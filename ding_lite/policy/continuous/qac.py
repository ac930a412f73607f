"""The base class of policies that learn an actor and critics Q(s, a), for continuous actions by default.

Shapes: B samples, N environments, D dimensions of an action, C critics. Continuous actions are between -1 and 1;
`env.act_scale` maps them to the bounds of the environment. Recorded actions outside these bounds are clipped, as the
environment clipped them then.

Every network has its own optimizer, and its figures are logged under its name: `critic_loss`, `critic_grad_norm` (the
norm of the averaged gradient before clipping), `critic_learning_rate`, `actor_loss` and so on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import gymnasium
import torch
from easydict import EasyDict
from torch import Tensor, nn

from ding_lite.policy.base import Policy
from ding_lite.rl_utils.q_continuous import squashed_sample
from ding_lite.utils.key import Key
from ding_lite.utils.registry import ConfigError
from ding_lite.utils.tree import tree_map

INIT_W = Key(
    3e-3,
    "initial parameters of last layers are uniform in -init_w..init_w; None: as torch chooses",
    type=(float, None),
    low=0,
    constant="parameters are initialised once",
)


class QACPolicy(Policy):
    """Base of actor-critics for continuous actions.

    They learn from a replay buffer or, if combined with `OfflinePolicy`, from a data set.

    The model has the networks `actor` and `critic`, like `QAC`. A subclass does the following:

    * `_init_learn` creates the optimizers with `_add_optimizer` and the target networks with `_add_target`.
    * `_forward_learn` calls `_prepare`, then the `step` of each optimizer, then `_update_targets`.
    * If replay is prioritised, the critics' loss returns `priority` `[B]` among its figures, for example the mean over
      the critics of the absolute errors.

    Attributes:
        action_space: the required value of `policy.model.action_space`.
        networks: names of the networks whose figures are logged.
        small_at_first: names of the networks whose last layers `learn.init_w` initialises, if a subclass has this key.
    """

    config: ClassVar[dict[str, Any]] = dict(
        priority=Key(False, "prioritised replay (Schaul et al. 2016)"),
        priority_IS_weight=Key(
            False, "weight the loss of each sample to correct the bias of prioritised replay", needs="priority"
        ),
        nstep=Key(1, "env steps whose rewards are summed before the bootstrap", low=1),
        random_collect_size=Key(0, "env steps per rank with random actions before learning starts", low=0),
        model=dict(
            twin_critic=Key(True, "use two critics; their smaller value is the estimate"),
            action_space=Key("reparameterization", "what the actor returns; fixed by the policy"),
        ),
        learn=dict(
            update_per_collect=Key(
                None, "learner iterations after each collect; None: one for each env step of all ranks", type=int, low=1
            ),
            batch_size=256,
            target_theta=Key(0.005, "share of a network mixed into its target at each update", above=0, high=1),
        ),
        collect=dict(
            noise_sigma=Key(0.1, "standard deviation of the Gaussian noise added to the actor's action", low=0),
        ),
        other=dict(
            replay_buffer=dict(
                type=Key("", "'uniform' or 'prioritized'; empty: determined by policy.priority"),
                replay_buffer_size=Key(100000, "capacity of the buffer, in env steps per rank", low=1),
            ),
        ),
    )
    config_without: ClassVar[tuple[str, ...]] = ("learn.learning_rate",)
    action_spaces: ClassVar[tuple[type, ...]] = (gymnasium.spaces.Box,)
    unit_actions: ClassVar[bool] = True
    action_space: ClassVar[str] = "reparameterization"
    networks: ClassVar[tuple[str, ...]] = ("critic", "actor")
    small_at_first: ClassVar[tuple[str, ...]] = ("actor",)
    _model: Any  # with these networks as attributes

    @classmethod
    def check_config(cls, cfg: EasyDict) -> None:
        super().check_config(cfg)
        given = cfg.policy.model.get("action_space", cls.action_space)
        if given != cls.action_space:
            raise ConfigError(f"policy.model.action_space must be '{cls.action_space}', got '{given}': leave it out.")

    @staticmethod
    def default_model() -> tuple[str, list[str]]:
        return "continuous_qac", ["ding_lite.model"]

    def _create_model(self) -> nn.Module:
        model = super()._create_model()
        bound = self._cfg.learn.get("init_w")
        networks = [] if bound is None else [getattr(model, name) for name in self.small_at_first]
        for head in (head for network in networks for head in getattr(network, "heads", [network])):
            *_, last = (module for module in head.modules() if isinstance(module, nn.Linear))
            for parameter in last.parameters():
                nn.init.uniform_(parameter, -bound, bound)
        return model

    def _monitor_vars_learn(self) -> list[str]:
        own = [f"{name}_{figure}" for name in self.networks for figure in ("loss", "grad_norm")]
        return [*own, *(name for name in super()._monitor_vars_learn() if name not in ("total_loss", "grad_norm"))]

    def _prepare(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return the batch in the form that the losses expect.

        Continuous actions, also those in a dict, are `[B, D]` between -1 and 1. `done` is false everywhere if
        `learn.ignore_done` is set. `weight` `[B]` is left out unless `policy.priority_IS_weight` is set.
        """
        action = tree_map(_bounded, batch["action"])
        done_B = torch.zeros_like(batch["done"]) if self._cfg.learn.ignore_done else batch["done"]
        batch = batch | {"action": action, "done": done_B}
        if not self._cfg.get("priority_IS_weight", False):
            batch.pop("weight", None)
        return batch

    def _run_frozen(self, network: nn.Module, obs: Tensor, **kwargs: Any) -> Any:
        """Return the result of `_run`; its gradient flows to `kwargs`, but not to the network's parameters."""
        with _frozen(network):
            return self._run(network, obs, **kwargs)

    @torch.inference_mode()
    def _forward_collect(self, obs: Any, **kwargs: Any) -> dict[str, Any]:
        output = self._forward_eval(obs)
        return output | {"action": self._explore(output)}

    def _explore(self, output: dict[str, Any]) -> Tensor:
        """Return the action to collect with, `[N, D]`, for an output of `_forward_eval`.

        It is a sample of the squashed normal distribution if the actor returns one, else the actor's action plus
        Gaussian noise.
        """
        if "logit" in output:
            return squashed_sample(output["logit"], torch.randn_like(output["logit"]["mu"]))[0]
        noise_ND = torch.randn_like(output["action"]) * self._cfg.collect.noise_sigma
        return (output["action"] + noise_ND).clamp(-1.0, 1.0)

    @torch.inference_mode()
    def _forward_eval(self, obs: Any) -> dict[str, Any]:
        output = self._run(self._model, obs, mode="compute_actor")
        return output | {"action": output["action"] if "action" in output else self._mode(output["logit"])}

    def _mode(self, logit: dict[str, Tensor]) -> Tensor:
        """Return the action at the centre of the distribution, `[N, D]`."""
        return logit["mu"].tanh()


def _bounded(action: Tensor) -> Tensor:
    """Return a continuous action as `[B, D]` between -1 and 1, and a discrete one, which is an integer, unchanged."""
    return action.reshape(len(action), -1).clamp(-1.0, 1.0) if action.is_floating_point() else action


@contextmanager
def _frozen(network: nn.Module) -> Iterator[None]:
    """Inside this block, gradients flow through a network to its inputs, but not to its parameters."""
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
    if torch.compiler.is_compiling():  # a compiled loss is differentiated with respect to chosen parameters only
        parameters = []
    for parameter in parameters:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)
