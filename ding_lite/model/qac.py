"""Actor-critic networks whose critics estimate Q(s, a).

Shapes: B samples, D dimensions of an action, C critics (2 if twin), K atoms of a distribution, `...` any leading
dimensions, for example several actions per state. `actor`, `critic` and `value` share no parameters, so each can have
its own optimizer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from ding_lite.model.actor_heads import GaussianHead
from ding_lite.model.arguments import ActionShape, ObsShape, check_choice, single_size
from ding_lite.model.encoders import create_encoder, feature_size
from ding_lite.model.mlp import MLP, Activation
from ding_lite.utils.registry import MODEL_REGISTRY, EncoderChoice


class ModeModel(nn.Module):
    """A model that computes what the argument `mode` of a call names.

    Attributes:
        modes: names of the methods that a call may name.
    """

    modes: ClassVar[tuple[str, ...]] = ()

    def forward(self, inputs: Any, mode: str) -> dict[str, Any]:
        """Return the result of the method named `mode` for `inputs`.

        Raises:
            ValueError: there is no such method in `modes`.
        """
        if mode not in self.modes:
            raise ValueError(f"{type(self).__name__}: expected a mode of {', '.join(self.modes)}, got '{mode}'.")
        return getattr(self, mode)(inputs)


ACTION_SPACES = ("regression", "reparameterization")


ELSEWHERE = {"hybrid": "Hybrid actions have the model HybridQAC, 'hybrid_qac', and the policy 'paddpg'."}


class RegressionHead(MLP):
    """Maps features to an action between -1 and 1. Arguments as for `MLP`."""

    def forward(self, x: Tensor) -> Tensor:
        """Return actions `[B, D]` for features `[B, sizes[0]]`."""
        return torch.tanh(super().forward(x))


class ActorNetwork(nn.Module):
    """An encoder of observations, and a head that maps its features to an action or to a distribution.

    Args:
        encoder: maps observations to features.
        head: maps features to the output.
    """

    def __init__(self, encoder: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, obs: Tensor) -> Any:
        """Return the output of the head for observations `[B, ...]`."""
        return self.head(self.encoder(obs))


class CriticNetwork(nn.Module):
    """Critics of observations, with or without actions, which share only the encoder.

    Args:
        encoder: maps observations to features.
        sizes: number of features, plus D if there are actions; then the sizes of a critic's hidden layers.
        activation: see `Activation`.
        num: C.
        norm_type: normalisation of a critic's hidden layers, see `with_norm`.
    """

    def __init__(
        self,
        encoder: nn.Module,
        sizes: Sequence[int],
        activation: Activation,
        num: int,
        norm_type: str | None = None,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        # A loop is as fast as one batched product of the critics' weights, measured on one CPU thread.
        self.heads = nn.ModuleList(MLP([*sizes, 1], activation, output=True, norm_type=norm_type) for _ in range(num))

    def forward(self, obs: Tensor, action: Tensor | None = None) -> Tensor:
        """Return values `[C, ..., B]` for observations `[B, ...]` and actions `[..., B, D]`."""
        x = self.encoder(obs)
        if action is not None:
            x = torch.cat([x.expand(*action.shape[:-1], -1), action], dim=-1)
        return torch.stack([head(x).squeeze(-1) for head in self.heads])


@MODEL_REGISTRY.register("continuous_qac")
class QAC(ModeModel):
    """An actor and critics Q(s, a) for continuous actions between -1 and 1.

    Args:
        obs_shape: length of a vector, or (channels, height, width) of an image, or a dict of these.
        action_shape: D.
        action_space: 'regression': the actor returns an action; 'reparameterization': it returns mu and sigma of a
            normal variable whose tanh is the action, see `rl_utils/q_continuous.py`.
        twin_critic: two critics instead of one.
        actor_head_hidden_size: size of the hidden layers of the actor's head.
        actor_head_layer_num: hidden layers in addition to the first one.
        critic_head_hidden_size: size of the hidden layers of a critic's head.
        critic_head_layer_num: hidden layers in addition to the first one.
        activation: one of 'relu', 'tanh', 'gelu', 'elu', 'silu'.
        norm_type: 'LN': layer normalisation of the hidden dense layers, before the activation; None: none.
        encoder_hidden_size_list: sizes of the layers of the encoders, one encoder for each network. None: vectors are
            passed to the heads directly. For images: three convolutions' channels, then the dense layer's size.
        encoder: name, or `type` and options, of another encoder, see `named_encoder`.

    Raises:
        ConfigError: `action_space` is another one, or `action_shape` is not a whole number.
    """

    modes: ClassVar[tuple[str, ...]] = ("compute_actor", "compute_critic")

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        action_space: Literal["regression", "reparameterization"],
        twin_critic: bool = False,
        actor_head_hidden_size: int = 64,
        actor_head_layer_num: int = 1,
        critic_head_hidden_size: int = 64,
        critic_head_layer_num: int = 1,
        activation: Activation = "relu",
        norm_type: str | None = None,
        encoder_hidden_size_list: Sequence[int] | None = None,
        encoder: EncoderChoice = None,
    ) -> None:
        super().__init__()
        check_choice("action_space", action_space, ACTION_SPACES, ELSEWHERE)
        action_shape = single_size(action_shape)
        layers = encoder_hidden_size_list or ()  # without layers, the vector itself is the features
        size = feature_size(obs_shape, layers)

        def new_encoder() -> nn.Module:
            return create_encoder(obs_shape, layers, activation, encoder, norm_type)

        actor_sizes = [size, *[actor_head_hidden_size] * (1 + actor_head_layer_num), action_shape]
        critic_sizes = [critic_head_hidden_size] * (1 + critic_head_layer_num)
        self.action_space = action_space
        layer_options: dict[str, Any] = dict(activation=activation, norm_type=norm_type)
        self.actor = ActorNetwork(new_encoder(), self._create_actor_head(actor_sizes, layer_options))
        self.critic = self._create_critic(
            new_encoder(), [size + action_shape, *critic_sizes], 1 + twin_critic, layer_options
        )
        if "compute_value" in self.modes:
            self.value = CriticNetwork(new_encoder(), [size, *critic_sizes], num=1, **layer_options)

    def _create_actor_head(self, sizes: Sequence[int], layer_options: dict[str, Any]) -> nn.Module:
        if self.action_space == "regression":
            return RegressionHead(sizes, output=True, **layer_options)
        return GaussianHead(sizes, sigma_type="conditioned", **layer_options)

    def _create_critic(
        self, encoder: nn.Module, sizes: Sequence[int], num: int, layer_options: dict[str, Any]
    ) -> CriticNetwork:
        return CriticNetwork(encoder, sizes, num=num, **layer_options)

    def compute_actor(self, obs: Tensor) -> dict[str, Any]:
        """Return a dict with `action` `[B, D]`, or with `logit`, a dict of `mu` and `sigma` `[B, D]`."""
        return {"action" if self.action_space == "regression" else "logit": self.actor(obs)}

    def compute_critic(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return a dict with `q_value` `[C, ..., B]`, for a dict of `obs` `[B, ...]` and `action` `[..., B, D]`."""
        return {"q_value": self.critic(inputs["obs"], action=inputs["action"])}


ContinuousQAC = QAC  # the name in later versions of DI-engine


@MODEL_REGISTRY.register("continuous_qvac")
class QVAC(QAC):
    """`QAC` with a network for the state value V(s) in addition.

    The actor's normal distribution is not squashed by tanh, so that actions at the bounds have a finite likelihood.
    Instead tanh keeps mu between -1 and 1. sigma is a parameter that does not depend on the observation. Arguments as
    for `QAC`; the head of the value has the size of a critic's head.
    """

    modes: ClassVar[tuple[str, ...]] = ("compute_actor", "compute_critic", "compute_value")

    def _create_actor_head(self, sizes: Sequence[int], layer_options: dict[str, Any]) -> nn.Module:
        if self.action_space == "regression":
            return super()._create_actor_head(sizes, layer_options)
        return GaussianHead(sizes, sigma_type="independent", bound_type="tanh", **layer_options)

    def compute_value(self, obs: Tensor) -> dict[str, Tensor]:
        """Return a dict with `v_value` `[B]` for observations `[B, ...]`."""
        return {"v_value": self.value(obs)[0]}


class DistributionalCritic(nn.Module):
    """A critic that predicts a distribution of the return, at atoms that are equally spaced.

    Args:
        encoder: maps observations to features.
        sizes: number of features plus D, then the sizes of the hidden layers.
        activation: see `Activation`.
        atoms: the smallest atom, the largest one, and K.
        norm_type: normalisation of the hidden layers, see `with_norm`.
    """

    def __init__(
        self,
        encoder: nn.Module,
        sizes: Sequence[int],
        activation: Activation,
        atoms: tuple[float, float, int],
        norm_type: str | None = None,
    ) -> None:
        super().__init__()
        self.encoder, self._atoms = encoder, atoms
        self.head = MLP([*sizes, atoms[-1]], activation, output=True, norm_type=norm_type)

    def forward(self, obs: Tensor, action: Tensor) -> dict[str, Tensor]:
        """Return the critic's output for observations `[B, ...]` and actions `[..., B, D]`.

        Returns:
            `logit` `[..., B, K]`, whose softmax is the distribution, and its mean `q_value` `[..., B]`.
        """
        x = self.encoder(obs)
        logit = self.head(torch.cat([x.expand(*action.shape[:-1], -1), action], dim=-1))
        atom_K = torch.linspace(*self._atoms, dtype=logit.dtype, device=logit.device)
        return {"logit": logit, "q_value": logit.softmax(-1) @ atom_K}


@MODEL_REGISTRY.register("qac_dist")
class QACDIST(QAC):
    """`QAC` with one critic, which predicts a distribution of the return (Barth-Maron et al. 2018, arXiv:1804.08617).

    Args:
        obs_shape: see `QAC`, as for all arguments that are not explained here.
        action_shape: D.
        action_space: 'regression' or 'reparameterization'.
        critic_head_type: only 'categorical', as in DI-engine.
        actor_head_hidden_size: size of the hidden layers of the actor's head.
        actor_head_layer_num: hidden layers in addition to the first one.
        critic_head_hidden_size: size of the hidden layers of the critic's head.
        critic_head_layer_num: hidden layers in addition to the first one.
        activation: one of 'relu', 'tanh', 'gelu', 'elu', 'silu'.
        norm_type: 'LN': layer normalisation of the hidden dense layers, before the activation; None: none.
        v_min: the smallest atom.
        v_max: the largest atom.
        n_atom: K.
        encoder_hidden_size_list: sizes of the layers of the encoders.
        encoder: name, or `type` and options, of another encoder, see `named_encoder`.

    Raises:
        ConfigError: `action_shape` is not a whole number.
    """

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        action_space: Literal["regression", "reparameterization"] = "regression",
        critic_head_type: Literal["categorical"] = "categorical",
        actor_head_hidden_size: int = 64,
        actor_head_layer_num: int = 1,
        critic_head_hidden_size: int = 64,
        critic_head_layer_num: int = 1,
        activation: Activation = "relu",
        norm_type: str | None = None,
        v_min: float = -10.0,
        v_max: float = 10.0,
        n_atom: int = 51,
        encoder_hidden_size_list: Sequence[int] | None = None,
        encoder: EncoderChoice = None,
    ) -> None:
        self.v_min, self.v_max, self.n_atom = v_min, v_max, n_atom
        super().__init__(
            obs_shape,
            action_shape,
            action_space,
            actor_head_hidden_size=actor_head_hidden_size,
            actor_head_layer_num=actor_head_layer_num,
            critic_head_hidden_size=critic_head_hidden_size,
            critic_head_layer_num=critic_head_layer_num,
            activation=activation,
            norm_type=norm_type,
            encoder_hidden_size_list=encoder_hidden_size_list,
            encoder=encoder,
        )

    def _create_critic(self, encoder: nn.Module, sizes: Sequence[int], num: int, layer_options: dict[str, Any]) -> Any:
        return DistributionalCritic(encoder, sizes, atoms=(self.v_min, self.v_max, self.n_atom), **layer_options)

    def compute_critic(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return `q_value` `[..., B]` and `distribution` `[..., B, K]`; arguments as for `QAC`."""
        output = self.critic(inputs["obs"], action=inputs["action"])
        return {"q_value": output["q_value"], "distribution": output["logit"].softmax(-1)}
