"""Actor-critic networks whose critics estimate Q(s, a), or Q(s, .) of discrete actions.

Shapes: B samples, D dimensions of an action, A discrete actions, C critics (2 if twin), K atoms of a distribution,
`...` any leading dimensions, for example several actions per state. `actor`, `critic` and `value` share no parameters,
so each can have its own optimizer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from ding_lite.model.actor_heads import GaussianHead
from ding_lite.model.arguments import ActionShape, ObsShape, check_choice, single_size, with_arguments_of
from ding_lite.model.masks import obey_mask
from ding_lite.model.mlp import MLP
from ding_lite.model.vac import ActorCritic
from ding_lite.utils.registry import MODEL_REGISTRY

ACTION_SPACES = ("regression", "reparameterization")
ELSEWHERE = {"hybrid": "Hybrid actions have the model HybridQAC, 'hybrid_qac', and the policy 'paddpg'."}


class RegressionHead(MLP):
    """Maps features to an action between -1 and 1. Arguments as for `MLP`."""

    def forward(self, x: Tensor) -> Tensor:
        """Return actions `[B, D]` for features `[B, sizes[0]]`."""
        return torch.tanh(super().forward(x))


class ActorNetwork(nn.Module):
    """An encoder of observations, and a head that maps its features to an action or to a distribution."""

    def __init__(self, encoder: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, obs: Tensor) -> Any:
        """Return the output of the head for observations `[B, ...]`."""
        return obey_mask(self.head(self.encoder(obs)), obs)


class CriticNetwork(nn.Module):
    """Critics of observations, with or without actions, which share only the encoder.

    Args:
        encoder: maps observations to features.
        sizes: number of features, plus D if there are actions; then the sizes of the hidden layers.
        num: C.
        num_values: K, if a critic returns the values of K discrete actions, or K quantiles; None: it returns a value.
        **layers: activation and normalisation, see `MLP`.
    """

    def __init__(
        self, encoder: nn.Module, sizes: Sequence[int], num: int, num_values: int | None = None, **layers: Any
    ) -> None:
        super().__init__()
        self.encoder, self._num_values = encoder, num_values
        # A loop is as fast as one batched product of the critics' weights, measured on one CPU thread.
        self.heads = nn.ModuleList(MLP([*sizes, num_values or 1], output=True, **layers) for _ in range(num))

    def forward(
        self, obs: Tensor, action: Tensor | None = None, own_actions: bool = False, num: int | None = None
    ) -> Tensor:
        """Return values `[C, ..., B]`, or `[C, ..., B, K]`, for observations `[B, ...]` and actions `[..., B, D]`.

        With `own_actions`, the actions are `[C, ..., B, D]`, those of each critic. With `num`, only the first `num`
        critics are computed.
        """
        x = self.encoder(obs)
        if action is not None:
            x = torch.cat([x.expand(*action.shape[:-1], -1), action], dim=-1)
        value = torch.stack([head(x[c] if own_actions else x) for c, head in enumerate(self.heads[:num])])
        return value.squeeze(-1) if self._num_values is None else value


@MODEL_REGISTRY.register("continuous_qac")
class QAC(ActorCritic):
    """An actor and critics Q(s, a) for continuous actions between -1 and 1.

    Args:
        action_shape: D.
        action_space: 'regression': the actor returns an action; 'reparameterization': it returns mu and sigma of a
            normal variable whose tanh is the action, see `rl_utils/q_continuous.py`.
        twin_critic: two critics instead of one.
        **options: see `ActorCritic`.
    """

    distribution: ClassVar[dict[str, Any]] = dict(sigma_type="conditioned")  # arguments of the actor's `GaussianHead`

    @with_arguments_of(ActorCritic)
    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        action_space: Literal["regression", "reparameterization"],
        twin_critic: bool = False,
        *args: Any,
        **options: Any,
    ) -> None:
        super().__init__(obs_shape, *args, **options)
        check_choice("action_space", action_space, ACTION_SPACES, elsewhere=ELSEWHERE)
        self.action_space, size = action_space, single_size(action_shape)
        encoder, sizes = self.new_encoder("actor"), [self.actor_features, *self.actor_sizes, size]
        if action_space == "regression":
            head: nn.Module = RegressionHead(sizes, output=True, **self.layer_options)
        else:
            head = GaussianHead(sizes, **self.distribution, **self.layer_options)
        self.actor = ActorNetwork(encoder, head)
        encoder, sizes = self.new_encoder(), [self.size + size, *self.critic_sizes]
        self.critic = self._new_critic(encoder, sizes, 1 + twin_critic)

    def _new_critic(self, encoder: nn.Module, sizes: Sequence[int], num: int) -> CriticNetwork:
        return CriticNetwork(encoder, sizes, num, **self.layer_options)

    def compute_actor(self, obs: Tensor) -> dict[str, Any]:
        """Return a dict with `action` `[B, D]`, or with `logit`, a dict of `mu` and `sigma` `[B, D]`."""
        return {"action" if self.action_space == "regression" else "logit": self.actor(obs)}

    def compute_critic(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return a dict with `q_value` `[C, ..., B]`, for a dict of `obs` `[B, ...]` and `action` `[..., B, D]`."""
        return {"q_value": self.critic(inputs["obs"], action=inputs["action"])}


ContinuousQAC = QAC  # the name in later versions of DI-engine


@MODEL_REGISTRY.register("continuous_normal_qac")
class NormalQAC(QAC):
    """`QAC` whose actor's normal distribution is not squashed by tanh: actions at the bounds have a finite likelihood.

    Instead tanh keeps mu between -1 and 1. sigma is a parameter that does not depend on the observation. Arguments as
    for `QAC`.
    """

    distribution: ClassVar[dict[str, Any]] = dict(sigma_type="independent", bound_type="tanh")


@MODEL_REGISTRY.register("continuous_qvac")
class QVAC(NormalQAC):
    """`NormalQAC` with a network for the state value V(s) in addition.

    Arguments as for `QAC`; the head of the value has the size of a critic's head.
    """

    modes: ClassVar[tuple[str, ...]] = ("compute_actor", "compute_critic", "compute_value")

    @with_arguments_of(QAC)
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.value = CriticNetwork(self.new_encoder(), [self.size, *self.critic_sizes], num=1, **self.layer_options)

    def compute_value(self, obs: Tensor) -> dict[str, Tensor]:
        """Return a dict with `v_value` `[B]` for observations `[B, ...]`."""
        return {"v_value": self.value(obs)[0]}


@MODEL_REGISTRY.register("qac_ensemble")
class QACEnsemble(QAC):
    """`QAC` with any number of critics.

    Args:
        ensemble_num: C.
        **options: see `QAC`.
    """

    num_quantiles: int | None = None

    @with_arguments_of(QAC, without=("twin_critic",))
    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        action_space: Literal["regression", "reparameterization"],
        ensemble_num: int = 10,
        **options: Any,
    ) -> None:
        self.ensemble_num = ensemble_num
        super().__init__(obs_shape, action_shape, action_space, twin_critic=False, **options)

    def _new_critic(self, encoder: nn.Module, sizes: Sequence[int], num: int) -> CriticNetwork:
        return CriticNetwork(encoder, sizes, self.ensemble_num, self.num_quantiles, **self.layer_options)


@MODEL_REGISTRY.register("edac")
class EDAC(QACEnsemble):
    """`QACEnsemble` whose critics have one hidden layer less: `critic_head_layer_num` counts all of them.

    Arguments as for `QACEnsemble`; SimBa's blocks are counted as there.
    """

    def _new_critic(self, encoder: nn.Module, sizes: Sequence[int], num: int) -> CriticNetwork:
        return super()._new_critic(encoder, sizes if "residual" in self.layer_options else sizes[:-1], num)


@MODEL_REGISTRY.register("qac_quantile")
class QACQuantile(QACEnsemble):
    """`QACEnsemble` whose critics predict quantiles of the return: `q_value` is `[C, ..., B, K]`.

    Args:
        num_quantiles: K.
        **options: see `QACEnsemble`.
    """

    @with_arguments_of(QACEnsemble)
    def __init__(self, *args: Any, num_quantiles: int = 25, **options: Any) -> None:
        self.num_quantiles = num_quantiles
        super().__init__(*args, **options)


class DistributionalCritic(nn.Module):
    """A critic as `CriticNetwork`, of a distribution; `atoms` are the smallest return, the largest one, and K."""

    def __init__(
        self, encoder: nn.Module, sizes: Sequence[int], atoms: tuple[float, float, int], **layers: Any
    ) -> None:
        super().__init__()
        self.encoder, self._atoms = encoder, atoms
        self.head = MLP([*sizes, atoms[-1]], output=True, **layers)

    def forward(self, obs: Tensor, action: Tensor) -> dict[str, Tensor]:
        """Return `logit` `[..., B, K]`, whose softmax is the distribution, and its mean `q_value` `[..., B]`."""
        x = self.encoder(obs)
        logit = self.head(torch.cat([x.expand(*action.shape[:-1], -1), action], dim=-1))
        atom_K = torch.linspace(*self._atoms, dtype=logit.dtype, device=logit.device)
        return {"logit": logit, "q_value": logit.softmax(-1) @ atom_K}


@MODEL_REGISTRY.register("qac_dist")
class QACDIST(QAC):
    """`QAC` with one critic, which predicts a distribution of the return (Barth-Maron et al. 2018, arXiv:1804.08617).

    Args:
        critic_head_type: only 'categorical', as in DI-engine.
        v_min: the smallest atom.
        v_max: the largest atom.
        n_atom: K.
        **options: see `QAC`.
    """

    @with_arguments_of(QAC, without=("twin_critic",))
    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        action_space: Literal["regression", "reparameterization"] = "regression",
        critic_head_type: Literal["categorical"] = "categorical",
        *,
        v_min: float = -10.0,
        v_max: float = 10.0,
        n_atom: int = 51,
        **options: Any,
    ) -> None:
        self.v_min, self.v_max, self.n_atom = v_min, v_max, n_atom
        super().__init__(obs_shape, action_shape, action_space, twin_critic=False, **options)

    def _new_critic(self, encoder: nn.Module, sizes: Sequence[int], num: int) -> Any:
        return DistributionalCritic(encoder, sizes, (self.v_min, self.v_max, self.n_atom), **self.layer_options)

    def compute_critic(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return `q_value` `[..., B]` and `distribution` `[..., B, K]`; arguments as for `QAC`."""
        output = self.critic(inputs["obs"], action=inputs["action"])
        return {"q_value": output["q_value"], "distribution": output["logit"].softmax(-1)}


@MODEL_REGISTRY.register("discrete_qac")
class DiscreteQAC(ActorCritic):
    """An actor and critics Q(s, .) for discrete actions.

    Args:
        action_shape: A.
        twin_critic: two critics instead of one.
        **options: see `ActorCritic`.
    """

    @with_arguments_of(ActorCritic)
    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        twin_critic: bool = False,
        *args: Any,
        **options: Any,
    ) -> None:
        super().__init__(obs_shape, *args, **options)
        number, encoders = single_size(action_shape), (self.new_encoder("actor"), self.new_encoder("critic"))
        actor_sizes, critic_sizes = [self.actor_features, *self.actor_sizes, number], [self.size, *self.critic_sizes]
        self.actor = ActorNetwork(encoders[0], MLP(actor_sizes, output=True, **self.layer_options))
        self.critic = CriticNetwork(encoders[1], critic_sizes, 1 + twin_critic, number, **self.layer_options)

    def compute_actor(self, obs: Tensor) -> dict[str, Tensor]:
        """Return a dict with `logit` `[B, A]`."""
        return {"logit": self.actor(obs)}

    def compute_critic(self, obs: Tensor) -> dict[str, Tensor]:
        """Return a dict with `q_value` `[C, B, A]`."""
        return {"q_value": self.critic(obs)}


@MODEL_REGISTRY.register("acer")
class ACER(DiscreteQAC):
    """The network of ACER: a policy over discrete actions, and Q(s, .), each with its own encoder.

    Args:
        actor_head_layer_num: hidden layers in the policy's head before its output.
        critic_head_layer_num: hidden layers in the critic's head before its output; None: 1.
        **options: see `DiscreteQAC`.
    """

    first_layers: ClassVar[int] = 0

    @with_arguments_of(DiscreteQAC, without=("twin_critic",))
    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        encoder_hidden_size_list: Sequence[int] = (128, 128, 64),
        **options: Any,
    ) -> None:
        options["encoder_hidden_size_list"] = encoder_hidden_size_list
        super().__init__(obs_shape, action_shape, twin_critic=False, **options)

    def compute_critic(self, obs: Tensor) -> dict[str, Tensor]:
        """Return a dict with `q_value` `[B, A]`."""
        return {"q_value": self.critic(obs)[0]}
