"""Networks for hybrid actions: a type, one of K, and the arguments x of all types.

The critics of `HybridQAC` estimate Q(s, p, x). They take the type as probabilities p; a type that was played has the
probability 1. They are therefore differentiable in both parts of an action. `PDQN` estimates Q(s, k, x) of all types k.

Shapes: B samples, K action types, D arguments of all types together, C critics (2 if twin).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from ding_lite.model.actor_heads import HybridHead
from ding_lite.model.arguments import HybridShape, ObsShape, hybrid_sizes, with_arguments_of
from ding_lite.model.masks import one_hot
from ding_lite.model.mlp import MLP
from ding_lite.model.q_learning import DiscreteHead, DuelingHead, ValueNetwork
from ding_lite.model.qac import ActorNetwork, CriticNetwork, RegressionHead
from ding_lite.model.vac import ActorCritic
from ding_lite.utils.registry import MODEL_REGISTRY, ConfigError


class HybridCritic(nn.Module):
    """Critics of observations and hybrid actions: `network` takes vectors of K + D numbers, for `num_types` K."""

    def __init__(self, network: CriticNetwork, num_types: int) -> None:
        super().__init__()
        self.network, self._num_types = network, num_types

    def forward(self, obs: Tensor, action: dict[str, Tensor]) -> Tensor:
        """Return values `[C, B]`; `action_type` has probabilities `[B, K]` or the numbers of types `[B]`."""
        kind, args_BD = action["action_type"], action["action_args"]
        if not kind.is_floating_point():
            kind = one_hot(kind, self._num_types)
        return self.network(obs, action=torch.cat([kind.to(args_BD.dtype), args_BD], dim=-1))


@MODEL_REGISTRY.register("hybrid_qac")
class HybridQAC(ActorCritic):
    """An actor and critics for hybrid actions with arguments between -1 and 1.

    The actor's two heads share its encoder only.

    Args:
        action_shape: a dict of K and D, under `action_type_shape` and `action_args_shape`.
        action_space: only 'hybrid', as in DI-engine.
        twin_critic: two critics instead of one.
        **options: see `ActorCritic`.
    """

    @with_arguments_of(ActorCritic)
    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: HybridShape,
        action_space: Literal["hybrid"] = "hybrid",
        twin_critic: bool = False,
        *args: Any,
        **options: Any,
    ) -> None:
        super().__init__(obs_shape, *args, **options)
        num_types, num_args = hybrid_sizes(action_shape)
        encoders = self.new_encoder("actor"), self.new_encoder("critic")
        actor_sizes = [self.actor_features, *self.actor_sizes]
        action_type = MLP([*actor_sizes, num_types], output=True, **self.layer_options)
        action_args = RegressionHead([*actor_sizes, num_args], output=True, **self.layer_options)
        self.actor = ActorNetwork(encoders[0], HybridHead(action_type, action_args))
        critic_sizes = [self.size + num_types + num_args, *self.critic_sizes]
        critic = CriticNetwork(encoders[1], critic_sizes, 1 + twin_critic, **self.layer_options)
        self.critic = HybridCritic(critic, num_types)

    def compute_actor(self, obs: Tensor) -> dict[str, Tensor]:
        """Return a dict with the types' `logit` `[B, K]` and `action_args` `[B, D]` for observations `[B, ...]`."""
        output = self.actor(obs)
        return {"logit": output["action_type"], "action_args": output["action_args"]}

    def compute_critic(self, inputs: dict[str, Any]) -> dict[str, Tensor]:
        """Return a dict with `q_value` `[C, B]`, for `obs`, `logit`, whose softmax is p, and x in `action`."""
        action = {"action_type": inputs["logit"].softmax(-1), "action_args": inputs["action"]["action_args"]}
        return {"q_value": self.critic(inputs["obs"], action=action)}


class ArgumentQNetwork(nn.Module):
    """Q(s, k, x) of all action types k, given the arguments x of all types.

    The head maps features and arguments, concatenated, to K values. `mask` `[K, D]` is 1 where an argument belongs to a
    type: the head is then applied once for each type, and the arguments of other types are 0 (multi-pass, Bester et al.
    2019, arXiv:1905.04388). None: the value of a type may depend on all arguments.
    """

    mask: Tensor | None

    def __init__(self, encoder: nn.Module, head: nn.Module, mask: Sequence[Sequence[int]] | None = None) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head
        mask_KD = None if mask is None else torch.tensor(mask, dtype=torch.float32)
        self.register_buffer("mask", mask_KD, persistent=False)  # a constant: the config has it

    def forward(self, obs: Tensor, action_args: Tensor) -> Tensor:
        """Return values `[B, K]` for observations `[B, ...]` and arguments `[B, D]`."""
        x = self.encoder(obs)
        if self.mask is None:
            return self.head(torch.cat([x, action_args], dim=-1))
        args_BKD = action_args.unsqueeze(1) * self.mask
        x_BK = x.unsqueeze(1).expand(-1, len(self.mask), -1)
        return self.head(torch.cat([x_BK, args_BKD], dim=-1)).diagonal(dim1=-2, dim2=-1)


@MODEL_REGISTRY.register("pdqn")
class PDQN(ActorCritic):
    """Values of action types, and the arguments of the types between -1 and 1 (Xiong et al. 2018, arXiv:1810.06394).

    `dis` computes the values, `cont` the arguments. They share no parameters.

    Args:
        action_shape: a dict of K and D, under `action_type_shape` and `action_args_shape`.
        dueling: compute the values from a state value and advantages, see `DuelingHead`.
        head_hidden_size: size of the hidden layers of each head; None: the number of the head's inputs.
        head_layer_num: hidden layers in each head before its output.
        multi_pass: the value of a type depends on its own arguments only, see `ArgumentQNetwork`.
        action_mask: K lists of D numbers, 1 where an argument belongs to a type, else 0; required by `multi_pass`.
        **options: see `ValueNetwork`.
    """

    modes: ClassVar[tuple[str, ...]] = ("compute_discrete", "compute_continuous")

    @with_arguments_of(ValueNetwork, without=("noise",))
    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: HybridShape,
        encoder_hidden_size_list: Sequence[int] = (128, 128, 64),
        dueling: bool = True,
        head_hidden_size: int | None = None,
        head_layer_num: int = 1,
        *,
        multi_pass: bool = False,
        action_mask: list[list[int]] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(obs_shape, encoder_hidden_size_list=encoder_hidden_size_list, **options)
        num_types, num_args = hybrid_sizes(action_shape)
        if multi_pass and (action_mask is None or [len(row) for row in action_mask] != [num_args] * num_types):
            raise ConfigError(
                f"policy.model.multi_pass=True needs an action_mask of {num_types} lists, one for each type, of "
                f"{num_args} numbers 0 or 1, one for each argument, got {action_mask}."
            )
        encoders, inputs = [self.new_encoder() for _ in range(2)], self.size + num_args
        head = (DuelingHead if dueling else DiscreteHead)(
            head_hidden_size or inputs, num_types, head_layer_num, input_size=inputs, **self.layer_options
        )
        self.dis = ArgumentQNetwork(encoders[0], head, action_mask if multi_pass else None)
        args_sizes = [self.size, *[head_hidden_size or self.size] * head_layer_num, num_args]
        self.cont = ActorNetwork(encoders[1], RegressionHead(args_sizes, output=True, **self.layer_options))

    def compute_continuous(self, obs: Tensor) -> dict[str, Tensor]:
        """Return a dict with `action_args` `[B, D]` for observations `[B, ...]`."""
        return {"action_args": self.cont(obs)}

    def compute_discrete(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return a dict with `logit`, the values `[B, K]`, and `action_args`, for a dict of `state`, `action_args`."""
        logit = self.dis(inputs["state"], action_args=inputs["action_args"])
        return {"logit": logit, "action_args": inputs["action_args"]}
