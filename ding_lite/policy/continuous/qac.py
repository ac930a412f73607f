"""What policies share that learn an actor and critics Q(s, a) for continuous actions.

Shapes: B samples, N environments, D dimensions of an action, C critics. Actions are within -1..1, which `env.act_scale`
maps to the bounds of the environment; recorded ones beyond are clipped, as the environment did.

Every network has its own optimizer, and its figures are logged under its name: `critic_loss`,
`critic_grad_norm` (of the averaged gradient, before clipping), `critic_learning_rate`, `actor_loss` and so on.
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
from ding_lite.rl_utils.squashed import squashed_sample
from ding_lite.torch_utils.target_network import TargetNetwork
from ding_lite.utils.key import Key
from ding_lite.utils.registry import ConfigError


class QACPolicy(Policy):
    """Base of actor-critics for continuous actions, trained from a replay buffer, or with `OfflinePolicy` from data.

    Their models have the networks `actor` and `critic`, as `QAC` has. A subclass creates its optimizers with
    `_add_optimizer` and its targets with `_add_target` in `_init_learn`; in `_forward_learn` it calls `_prepare`, then
    `_step` for each network, then `_update_targets`. Where replay is prioritised, the figures of the critics' loss hold
    `priority` `[B]`, such as the mean of |error| over the critics that `q_td_error` returns.
    """

    config: ClassVar[dict[str, Any]] = dict(
        priority=Key(False, "prioritised replay (Schaul et al. 2016)"),
        priority_IS_weight=Key(False, "weigh losses to undo the bias of prioritised replay"),
        nstep=Key(1, "env steps summed before the bootstrap", low=1),
        random_collect_size=Key(0, "env steps per rank played at random before learning starts", low=0),
        model=dict(
            twin_critic=Key(True, "two critics, whose smaller value is believed"),
            action_space=Key("reparameterization", "what the actor says, see the model"),
            actor_head_hidden_size=Key(256, "size of the actor's hidden layers"),
            critic_head_hidden_size=Key(256, "size of a critic's hidden layers"),
        ),
        learn=dict(
            update_per_collect=Key(1, "learner iterations after each collect", low=1),
            batch_size=256,
            target_theta=Key(0.005, "share of the critic that its target takes over at an update", above=0, high=1),
        ),
        collect=dict(
            noise_sigma=Key(0.1, "standard deviation of the noise on actions, where the actor says one", low=0),
        ),
        other=dict(
            replay_buffer=dict(
                type=Key("", "'uniform' or 'prioritized'; empty: as policy.priority says"),
                replay_buffer_size=Key(100000, "env steps per rank that are kept", low=1),
            ),
        ),
    )
    config_without: ClassVar[tuple[str, ...]] = ("learn.learning_rate",)
    action_spaces: ClassVar[tuple[type, ...]] = (gymnasium.spaces.Box,)
    action_space: ClassVar[str] = "reparameterization"  # what policy.model.action_space has to be
    networks: ClassVar[tuple[str, ...]] = ("critic", "actor")  # whose figures are logged
    _model: Any  # with these networks as attributes

    @classmethod
    def check_config(cls, cfg: EasyDict) -> None:
        super().check_config(cfg)
        given = cfg.policy.model.get("action_space", cls.action_space)
        if given != cls.action_space:
            raise ConfigError(f"policy.model.action_space must be '{cls.action_space}' for this policy, got '{given}'.")
        if not cfg.env.act_scale:
            raise ConfigError(f"Policy '{cfg.policy.type}' acts within -1..1: set env.act_scale=True.")

    @staticmethod
    def default_model() -> tuple[str, list[str]]:
        return "continuous_qac", ["ding_lite.model"]

    def _monitor_vars_learn(self) -> list[str]:
        own = [f"{name}_{figure}" for name in self.networks for figure in ("loss", "grad_norm")]
        return [*own, *(name for name in super()._monitor_vars_learn() if name not in ("total_loss", "grad_norm"))]

    def _init_learn(self) -> None:
        self._targets: dict[str, TargetNetwork] = {}

    def _add_target(self, name: str) -> nn.Module:
        """Return a target of the network of this name, which has an optimizer; `_update_targets` lets it follow."""
        flat, theta = self._optimizers[name].flat, self._cfg.learn.target_theta
        self._targets[name] = TargetNetwork(getattr(self._model, name), flat, theta=theta)
        return self._targets[name].network

    def _update_targets(self) -> None:
        for target in self._targets.values():
            target.update()

    def _prepare(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return the batch as the losses want it: actions `[B, D]` within -1..1, and `noise`.

        `weight` `[B]` is in it only if `policy.priority_IS_weight` says so.
        """
        action_BD = batch["action"].reshape(len(batch["action"]), -1).clamp(-1.0, 1.0)
        done_B = torch.zeros_like(batch["done"]) if self._cfg.learn.ignore_done else batch["done"]
        batch = batch | {"action": action_BD, "done": done_B}
        if not self._cfg.get("priority_IS_weight", False):
            batch.pop("weight", None)
        return batch

    def _step(self, name: str, batch: dict[str, Any]) -> dict[str, Tensor]:
        """Take a step of the optimizer of this name; return its figures, the common ones under that name."""
        output = self._optimizers[name].step(batch)
        common = {f"{name}_loss": output.pop("total_loss"), f"{name}_grad_norm": output.pop("grad_norm")}
        return output | common

    def _run_frozen(self, network: nn.Module, obs: Tensor, **kwargs: Any) -> Any:
        """Return what `_run` does, with a gradient to `kwargs` and none to the network."""
        with _frozen(network):
            return self._run(network, obs, **kwargs)

    def _state_dict_learn(self) -> dict[str, Any]:
        return super()._state_dict_learn() | {"targets": {k: v.state_dict() for k, v in self._targets.items()}}

    def _load_state_dict_learn(self, state: dict[str, Any]) -> None:
        super()._load_state_dict_learn(state)
        for name, target in self._targets.items():
            if "optimizer" in state:
                target.load_state_dict({**state["targets"][name], "optimizer": state["optimizer"]})
            else:
                target.load_state_dict({"model": getattr(self._model, name).state_dict()})

    @torch.inference_mode()
    def _forward_collect(self, obs: Any, **kwargs: Any) -> dict[str, Any]:
        output = self._forward_eval(obs)
        return output | {"action": self._explore(output)}

    def _explore(self, output: dict[str, Any]) -> Tensor:
        """Return the action to play while collecting, `[N, D]`, given what `_forward_eval` returned.

        Here it is a sample of the squashed normal that the actor says, or the actor's action with Gaussian noise.
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
        """Return the action in the middle of the distribution, `[N, D]`."""
        return logit["mu"].tanh()


@contextmanager
def _frozen(network: nn.Module) -> Iterator[None]:
    """Let what is computed inside pass gradients through a network, and none to its parameters."""
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
    for parameter in parameters:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)
