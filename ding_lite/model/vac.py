"""The base of all actor-critics; networks of policies for any kind of action, with the value of a state or without."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from ding_lite.model.actor_heads import BoundType, GaussianHead, SigmaType, create_actor_head
from ding_lite.model.arguments import ActionShape, HybridShape, ObsShape, check_hidden, with_arguments_of
from ding_lite.model.encoders import create_encoder, feature_size, residual_head_sizes
from ding_lite.model.masks import obey_mask
from ding_lite.model.mlp import MLP, Activation
from ding_lite.model.q_learning import ValueNetwork
from ding_lite.model.recurrent import CoreChoice, LSTMType, create_core, run_core
from ding_lite.utils.registry import MODEL_REGISTRY, ConfigError, EncoderChoice


class ActorCritic(nn.Module):
    """A model with several computations, such as that of the actor and that of the critic, named by `mode`.

    A subclass creates the networks, of layers with the sizes that this class holds.

    Args:
        obs_shape: length of a vector, or (channels, height, width) of an image, or a dict of these.
        actor_head_hidden_size: size of the hidden layers of the actor's head; None: 64, or 128 for 'simba'.
        actor_head_layer_num: hidden layers in addition to the first one, or SimBa's blocks.
        critic_head_hidden_size: size of the hidden layers of a critic's head; None: 64, or 512 for 'simba'.
        critic_head_layer_num: hidden layers in addition to the first one, or SimBa's blocks; None: 1, or 2 for 'simba'.
        activation: one of 'relu', 'tanh', 'gelu', 'elu', 'silu'.
        norm_type: 'LN': layer normalisation of the hidden dense layers, before the activation; None: none.
        encoder_hidden_size_list: sizes of the layers of the encoders, one encoder for each network. None: vectors are
            passed to the heads directly. For images: three convolutions' channels, then the dense layer's size.
        encoder: name, or `type` and options, of another encoder, see `named_encoder`. Without
            `encoder_hidden_size_list`, the heads are those of SimBa if its name is 'simba', see `SimBaEncoder`.
        critic_obs: keys of a dict of observations that only the critic sees; of nested dicts, dotted paths.

    Attributes:
        modes: names of the methods that a call may name.
        first_layers: hidden layers of each head beside those that `actor_head_layer_num` counts, as in DI-engine.
        hidden_key: the argument that hides parts from the actor, for messages.
        hidden_obs: dotted paths of what the actor does not see.
        size: number of features of an encoder that sees everything.
        actor_features: number of features of the actor's encoder.
        actor_sizes: sizes of the hidden layers of the actor's head.
        critic_sizes: sizes of the hidden layers of a critic's head.
        layer_options: activation and normalisation, the arguments of every head.
    """

    modes: ClassVar[tuple[str, ...]] = ("compute_actor", "compute_critic")
    first_layers: ClassVar[int] = 1
    hidden_key: ClassVar[str] = "critic_obs"

    def __init__(
        self,
        obs_shape: ObsShape,
        actor_head_hidden_size: int | None = None,
        actor_head_layer_num: int = 1,
        critic_head_hidden_size: int | None = None,
        critic_head_layer_num: int | None = None,
        activation: Activation = "relu",
        norm_type: str | None = None,
        encoder_hidden_size_list: Sequence[int] | None = None,
        encoder: EncoderChoice = None,
        critic_obs: list[str] | None = None,
    ) -> None:
        super().__init__()
        self.hidden_obs: list[str] = check_hidden(self.hidden_key, critic_obs, obs_shape)
        layers = encoder_hidden_size_list or ()  # without layers, the vector itself is the features
        residual = residual_head_sizes(encoder) if encoder_hidden_size_list is None else None
        actor_size, critic_size, num = residual or (64, 64, 1)
        self.layer_options: dict[str, Any] = dict(activation=activation, norm_type=norm_type)
        encoder = None if residual else encoder
        self._encoder_options = self.layer_options | dict(obs_shape=obs_shape, hidden_size_list=layers, encoder=encoder)
        if residual:
            self.layer_options["residual"] = True
        self.size = feature_size(obs_shape, layers)
        self.actor_features = feature_size(obs_shape, layers, self.hidden_obs)
        num = num if critic_head_layer_num is None else critic_head_layer_num
        self.actor_sizes = [actor_head_hidden_size or actor_size] * (self.first_layers + actor_head_layer_num)
        self.critic_sizes = [critic_head_hidden_size or critic_size] * (self.first_layers + num)

    def new_encoder(self, owner: Literal["actor", "critic"] = "critic") -> nn.Module:
        """Return an encoder of what its owner sees of the observations, with parameters of its own."""
        return create_encoder(**self._encoder_options, hidden=self.hidden_obs if owner == "actor" else ())

    def forward(self, inputs: Any, mode: str) -> dict[str, Any]:
        """Return the result of the method named `mode` for `inputs`."""
        if mode not in self.modes:
            raise ValueError(f"{type(self).__name__}: expected a mode of {', '.join(self.modes)}, got '{mode}'.")
        return getattr(self, mode)(inputs)


@MODEL_REGISTRY.register("vac")
class VAC(ActorCritic):
    """A policy and the value of a state, for discrete, multi-discrete, continuous or hybrid actions.

    The form of `logit` depends on the kind of action, for B samples, A discrete actions and D dimensions: `[B, A]` if
    'discrete'; a dict of `mu` and `sigma` `[B, D]` if 'continuous'; a dict of `action_type`, a discrete logit, and
    `action_args`, a continuous one, if 'hybrid'. For D branches with at most A options each, it is a dict of `branches`
    `[B, D, A]` if 'multi_discrete'.

    Args:
        action_shape: number of actions if 'discrete', of each branch's options if 'multi_discrete', of dimensions if
            'continuous'; for 'hybrid' a dict under `action_type_shape` and `action_args_shape`.
        action_space: 'discrete', 'multi_discrete', 'continuous' or 'hybrid'.
        share_encoder: policy and value use the same encoder; False: each has its own.
        encoder_hidden_size_list: sizes of an encoder's layers; for images three convolutions' channels, then the
            dense layer's size.
        actor_head_layer_num: hidden layers in the policy's head before its output.
        critic_head_layer_num: hidden layers in the value's head before its output.
        sigma_type: 'independent' of the observation, learned as its logarithm, or as itself if 'scalar'; 'conditioned'
            on the observation; or 'fixed'.
        fixed_sigma_value: sigma if it is 'fixed'.
        bound_type: 'tanh' keeps mu between -1 and 1; None: no bound.
        init_sigma: the first sigma if it is 'independent' or 'scalar'; None: exp(-0.5) with `learn.ppo_param_init`,
            else 1.
        lstm_type: put a recurrent core after each encoder: 'lstm', 'gru' or 'normal', see `RecurrentCore`. The
            observations are then sequences. None: none.
        memory: 'gtrxl' puts a transformer with memory there instead, see `create_core`.
        **options: see `ActorCritic`.
    """

    modes: ClassVar[tuple[str, ...]] = ("compute_actor", "compute_critic", "compute_actor_critic")
    first_layers: ClassVar[int] = 0

    @with_arguments_of(ActorCritic)
    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape | HybridShape,
        action_space: str = "discrete",
        share_encoder: bool = True,
        encoder_hidden_size_list: Sequence[int] = (128, 128, 64),
        *,
        sigma_type: SigmaType = "independent",
        fixed_sigma_value: float = 0.3,
        bound_type: BoundType = None,
        init_sigma: float | None = None,
        lstm_type: LSTMType | None = None,
        memory: CoreChoice = None,
        **options: Any,
    ) -> None:
        super().__init__(obs_shape, encoder_hidden_size_list=encoder_hidden_size_list, **options)
        self._share_encoder = share_encoder
        if share_encoder and self.hidden_obs:
            raise ConfigError(
                f"policy.model.critic_obs={self.hidden_obs}: an encoder that policy and value share can hide nothing "
                "from the policy: set policy.model.share_encoder=False."
            )
        if share_encoder:
            self.encoder = self.new_encoder()
        else:
            self.actor_encoder, self.critic_encoder = self.new_encoder("actor"), self.new_encoder("critic")
        self._recurrent = bool(lstm_type or memory)
        if self._recurrent and share_encoder:
            self.core = create_core(self.size, lstm_type, memory)
        elif self._recurrent:
            sizes = (self.actor_features, self.size)
            self.actor_core, self.critic_core = (create_core(size, lstm_type, memory) for size in sizes)
        self.actor_head = create_actor_head(
            [self.actor_features, *self.actor_sizes],
            action_shape,
            action_space,
            sigma_type=sigma_type,
            fixed_sigma_value=fixed_sigma_value,
            bound_type=bound_type,
            init_sigma=init_sigma,
            **self.layer_options,
        )
        self.critic_head = MLP([self.size, *self.critic_sizes, 1], output=True, **self.layer_options)

    def forward(
        self, inputs: Any, mode: str = "compute_actor_critic", prev_state: Any = None, **sequence: Any
    ) -> dict[str, Any]:
        """Return the result of the method named `mode` for observations `inputs`, `[B, ...]`.

        With a recurrent core, observations and outputs are sequences `[T, B, ...]`; `run_core` describes the other
        arguments and the states in the result. With a core each, a state is a dict of those of `actor` and `critic`, or
        of the one that `mode` needs.
        """
        if not self._recurrent or mode not in self.modes:
            return super().forward(inputs, mode)
        names = [name for name in ("actor", "critic") if name in mode]
        states: dict[str, Any]
        if self._share_encoder:
            y_TBF, _, states = run_core(self.encoder, self.core, inputs, prev_state, **sequence)
            features = dict.fromkeys(names, y_TBF)
        else:
            cores = {"actor": (self.actor_encoder, self.actor_core), "critic": (self.critic_encoder, self.critic_core)}
            runs = {name: run_core(*cores[name], inputs, (prev_state or {}).get(name), **sequence) for name in names}
            features = {name: run[0] for name, run in runs.items()}
            states = {key: {name: run[2][key] for name, run in runs.items()} for key in runs[names[0]][2]}
        actor = {"logit": obey_mask(self.actor_head(features["actor"]), inputs)} if "actor" in names else {}
        return (
            actor | ({"value": self.critic_head(features["critic"]).squeeze(-1)} if "critic" in names else {}) | states
        )

    def compute_actor(self, obs: Tensor) -> dict[str, Any]:
        """Return a dict with `logit`."""
        encoder = self.encoder if self._share_encoder else self.actor_encoder
        return {"logit": obey_mask(self.actor_head(encoder(obs)), obs)}

    def compute_critic(self, obs: Tensor) -> dict[str, Tensor]:
        """Return a dict with `value` `[B]`."""
        encoder = self.encoder if self._share_encoder else self.critic_encoder
        return {"value": self.critic_head(encoder(obs)).squeeze(-1)}

    def compute_actor_critic(self, obs: Tensor) -> dict[str, Any]:
        """Return a dict with `logit` and `value` `[B]`."""
        if not self._share_encoder:
            return self.compute_actor(obs) | self.compute_critic(obs)
        features = self.encoder(obs)
        logit = obey_mask(self.actor_head(features), obs)
        return {"logit": logit, "value": self.critic_head(features).squeeze(-1)}

    @property
    def value_layer(self) -> nn.Module:
        """The linear layer that returns the value."""
        return self.critic_head[-1]

    def init_parameters(self) -> None:
        """Initialise the network in place, see `init_orthogonal`; the last layer of the value has gain 1."""
        init_orthogonal(self, self.actor_head, {self.value_layer: 1.0})


@torch.no_grad()
def init_orthogonal(model: nn.Module, actor_head: nn.Module, gains: Mapping[nn.Module, float] = {}) -> None:
    """Initialise a network in place, as recommended for PPO (Andrychowicz et al. 2021, arXiv:2006.05990).

    Weights are orthogonal with gain sqrt 2, and biases zero. The last layers of the policy have gain 0.01, so that all
    actions are nearly equally likely at first. log sigma starts at -0.5, unless the model has its `init_sigma`.

    `actor_head` is the part whose last layers return the policy's logit, and `gains` has the gains of other layers.
    """
    gains = {mlp[-1]: 0.01 for mlp in actor_head.modules() if isinstance(mlp, MLP)} | dict(gains)
    for layer in model.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            weight = nn.init.orthogonal_(torch.empty(layer.weight.shape), gains.get(layer, math.sqrt(2)))
            layer.weight.copy_(weight)  # orthogonal_ itself cannot fill a channels_last weight
            if layer.bias is not None:
                layer.bias.zero_()
        elif isinstance(layer, GaussianHead):
            layer.reset_sigma(math.exp(-0.5))


@MODEL_REGISTRY.register("ppg")
class PPG(VAC):
    """The networks of PPG: a policy with an auxiliary value, and a value with an encoder of its own.

    Args:
        actor_head_layer_num: hidden layers in the policy's head before its output.
        **options: see `VAC`.
    """

    modes = ("compute_actor", "compute_critic", "compute_actor_critic", "compute_auxiliary")

    @with_arguments_of(VAC, without=("share_encoder", "lstm_type", "memory"))
    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape | HybridShape,
        *,
        actor_head_layer_num: int = 2,
        **options: Any,
    ) -> None:
        super().__init__(
            obs_shape, action_shape, share_encoder=False, actor_head_layer_num=actor_head_layer_num, **options
        )
        self.auxiliary_head = MLP([self.actor_features, *self.critic_sizes, 1], output=True, **self.layer_options)

    def compute_auxiliary(self, obs: Tensor) -> dict[str, Any]:
        """Return a dict with `logit`, `value` `[B]`, and `auxiliary_value` `[B]`, of the policy's encoder."""
        features = self.actor_encoder(obs)
        auxiliary_B = self.auxiliary_head(features).squeeze(-1)
        logit = obey_mask(self.actor_head(features), obs)
        return {"logit": logit, "auxiliary_value": auxiliary_B} | self.compute_critic(obs)


@MODEL_REGISTRY.register("pg")
class PG(ValueNetwork):
    """The policy network of REINFORCE, for discrete, multi-discrete, continuous or hybrid actions.

    Args:
        action_shape: number of actions if 'discrete', of each branch's options if 'multi_discrete', of dimensions if
            'continuous'; for 'hybrid' a dict under `action_type_shape` and `action_args_shape`.
        action_space: 'discrete', 'multi_discrete', 'continuous' or 'hybrid'.
        **options: see `ValueNetwork`.
    """

    @with_arguments_of(ValueNetwork, without=("noise",))
    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape | HybridShape,
        action_space: str = "discrete",
        *args: Any,
        **options: Any,
    ) -> None:
        super().__init__(obs_shape, *args, **options)
        head = self.head_options
        inner = [head["input_size"], *[head["hidden_size"]] * head["layer_num"]]
        layers = {key: head[key] for key in ("activation", "norm_type")}
        self.head = create_actor_head(inner, action_shape, action_space, **layers)

    def forward(self, obs: Tensor) -> dict[str, Any]:
        """Return a dict with `logit`, whose form is that of `VAC`, for observations `[B, ...]`."""
        return {"logit": obey_mask(self.head(self.encoder(obs)), obs)}

    def init_parameters(self) -> None:
        """Initialise the network in place, see `init_orthogonal`."""
        init_orthogonal(self, self.head)
