"""Q-networks that estimate distributions of returns, by quantiles or by probabilities of fixed returns.

Shapes: B samples, A discrete actions, K quantiles or atoms, H features, E numbers that represent a probability.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ding_lite.model.arguments import ActionShape, ObsShape, single_size, with_arguments_of
from ding_lite.model.masks import allowed_mean, obey_mask
from ding_lite.model.q_learning import DiscreteHead, DuelingHead, ValueNetwork
from ding_lite.utils.registry import MODEL_REGISTRY, ConfigError


@MODEL_REGISTRY.register("qrdqn")
class QRDQN(ValueNetwork):
    """Quantiles of the return of each discrete action (Dabney et al. 2018, arXiv:1710.10044).

    Args:
        action_shape: number of actions.
        num_quantiles: K, quantiles of each action.
        **options: see `ValueNetwork`.
    """

    @with_arguments_of(ValueNetwork)
    def __init__(
        self, obs_shape: ObsShape, action_shape: ActionShape, *args: Any, num_quantiles: int = 32, **options: Any
    ) -> None:
        super().__init__(obs_shape, *args, **options)
        self._shape = (single_size(action_shape), num_quantiles)
        self.head = DiscreteHead(output_size=math.prod(self._shape), **self.head_options)

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        """Return a dict for observations `[B, ...]`.

        `q` `[B, A, K]` are the quantiles, `tau` `[B, K, 1]` their probabilities (i + 1/2) / K, and `logit` `[B, A]`
        their means, the action values.
        """
        q_BAK = self.head(self.encoder(obs)).unflatten(-1, self._shape)
        tau_K = midpoints(self._shape[1], q_BAK)
        logit_BA = obey_mask(q_BAK.mean(-1), obs)
        return {"logit": logit_BA, "q": q_BAK, "tau": tau_K[:, None].expand(q_BAK.shape[0], -1, -1)}


def midpoints(number: int, like: Tensor) -> Tensor:
    """Return the midpoints (i + 1/2) / K of K equal parts of [0, 1], `[K]`, with the dtype and device of `like`."""
    return (torch.arange(number, device=like.device, dtype=like.dtype) + 0.5) / number


class QuantileHead(nn.Module):
    """Maps features, and probabilities tau, to the quantiles of the return of each action.

    Z_tau(s, a) = f(psi(s) * phi(tau))_a,   phi_j(tau) = ReLU(sum_{e=1}^E cos(pi e tau) w_ej + b_j)

    psi are the features and f is a `DiscreteHead` (Dabney et al. 2018, arXiv:1806.06923, eq. 4). The paper's sum begins
    at e = 0, which adds a constant, as b_j does.

    Args:
        quantile_embedding_size: E.
        **options: see `DiscreteHead`, for f.
    """

    @with_arguments_of(DiscreteHead)
    def __init__(
        self,
        hidden_size: int,
        output_size: int,
        layer_num: int = 1,
        quantile_embedding_size: int = 128,
        *args: Any,
        input_size: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.Q = DiscreteHead(hidden_size, output_size, layer_num, *args, input_size=input_size, **options)
        self.phi = nn.Linear(quantile_embedding_size, hidden_size if input_size is None else input_size)

    def forward(self, x: Tensor, tau: Tensor) -> Tensor:
        """Return quantiles `[K, B, A]` for features `[B, H]` and probabilities `[B, K]`."""
        number_E = torch.arange(1, self.phi.in_features + 1, dtype=tau.dtype, device=tau.device)
        phi_KBH = functional.relu(self.phi((math.pi * number_E * tau.t()[..., None]).cos()))
        return self.Q(x * phi_KBH)


class ImplicitQuantileNetwork(ValueNetwork):
    """A `ValueNetwork` with a `QuantileHead`.

    Args:
        action_shape: number of actions.
        num_quantiles: K, quantiles of each action; of IQN, if no probabilities are given.
        quantile_embedding_size: numbers that represent a probability, see `QuantileHead`.
        **options: see `ValueNetwork`.
    """

    @with_arguments_of(ValueNetwork)
    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        *args: Any,
        num_quantiles: int = 32,
        quantile_embedding_size: int = 128,
        **options: Any,
    ) -> None:
        super().__init__(obs_shape, *args, **options)
        sizes = dict(output_size=single_size(action_shape), quantile_embedding_size=quantile_embedding_size)
        self.head = QuantileHead(**sizes, **self.head_options)
        self.num_quantiles = num_quantiles


@MODEL_REGISTRY.register("iqn")
class IQN(ImplicitQuantileNetwork):
    """Quantiles of the return of each discrete action for any probabilities (Dabney et al. 2018, arXiv:1806.06923)."""

    def forward(self, obs: Tensor, tau: Tensor | None = None) -> dict[str, Tensor]:
        """Return a dict for observations `[B, ...]` and probabilities `[B, K]`.

        `q` `[K, B, A]` are the quantiles, `quantiles` `[K, B, 1]` their probabilities, and `logit` `[B, A]` the means
        of the quantiles, the action values. Without `tau` the probabilities are (i + 1/2) / K.
        """
        feature_BH = self.encoder(obs)
        if tau is None:
            tau = midpoints(self.num_quantiles, next(self.head.parameters())).expand(feature_BH.shape[0], -1)
        q_KBA = self.head(feature_BH, tau)
        return {"logit": obey_mask(q_KBA.mean(0), obs), "q": q_KBA, "quantiles": tau.t()[..., None]}


class FractionHead(nn.Linear):
    """Maps features `[B, H]` to the logarithms `[B, K]` of the lengths of K intervals that fill [0, 1].

    At first they are almost equal (Yang et al. 2019, arXiv:1911.02140, section 4.1). FQF trains this layer with its own
    optimizer.
    """

    def __init__(self, hidden_size: int, num_quantiles: int) -> None:
        super().__init__(hidden_size, num_quantiles)
        nn.init.xavier_uniform_(self.weight, gain=0.01)
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            return super().forward(x.to(self.weight.dtype)).log_softmax(-1)


@MODEL_REGISTRY.register("fqf")
class FQF(ImplicitQuantileNetwork):
    """Quantiles of the return of each action, with probabilities that depend on the state (arXiv:1911.02140)."""

    @with_arguments_of(ImplicitQuantileNetwork)
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fraction = FractionHead(self.head_options["input_size"], self.num_quantiles)

    def forward(self, obs: Tensor, boundaries: bool = False) -> dict[str, Tensor]:
        """Return a dict for observations `[B, ...]`.

        `quantiles` `[B, K + 1]` are the ends of the intervals, from 0 to 1; only their gradient flows to `fraction`.
        `quantiles_hats` `[B, K]` are the midpoints of the intervals, `q` `[B, K, A]` the quantiles there, and `logit`
        `[B, A]` their means, weighted by the lengths of the intervals: the action values. `entropies` `[B, 1]` are the
        entropies of the lengths. With `boundaries`, `q_tau_i` `[B, K - 1, A]` are the quantiles at the inner ends,
        without gradient.
        """
        feature_BH = self.encoder(obs)
        log_length_BK = self.fraction(feature_BH.detach())
        length_BK = log_length_BK.exp()
        end_BK1 = functional.pad(length_BK.cumsum(-1), (1, 0))
        middle_BK = ((end_BK1[:, 1:] + end_BK1[:, :-1]) / 2).detach()
        q_BKA = self.head(feature_BH, middle_BK).transpose(0, 1)
        output = {
            "logit": obey_mask((q_BKA * length_BK.detach()[..., None]).sum(1), obs),
            "q": q_BKA,
            "quantiles": end_BK1,
            "quantiles_hats": middle_BK,
            "entropies": -(log_length_BK * length_BK).sum(-1, keepdim=True),
        }
        if boundaries:
            with torch.no_grad():
                output["q_tau_i"] = self.head(feature_BH, end_BK1[:, 1:-1]).transpose(0, 1)
        return output


def check_support(v_min: float, v_max: float, n_atom: int) -> None:
    """Check the support of a categorical distribution, `n_atom` atoms equally spaced from `v_min` to `v_max`."""
    if not v_min < v_max:
        raise ConfigError(
            f"policy.model.v_min={v_min} must be smaller than policy.model.v_max={v_max}: set them to the smallest and "
            "the largest discounted return that is possible."
        )
    if n_atom < 2:
        raise ConfigError(f"policy.model.n_atom: expected at least 2, got {n_atom}.")


class DistributionHead(nn.Module):
    """Maps features `[B, input_size]` to a distribution of the return of each action.

    With `dueling`, the logits of the atoms are V_i + A_i(a) - mean_a A_i (Hessel et al. 2018, arXiv:1710.02298). The
    mean is over the allowed actions.

    Args:
        n_atom: K.
        v_min: the smallest atom.
        v_max: the largest atom.
        dueling: compute the logits from a value and advantages.
        **options: see `DiscreteHead`.
    """

    @with_arguments_of(DiscreteHead)
    def __init__(
        self,
        hidden_size: int,
        output_size: int,
        layer_num: int = 1,
        n_atom: int = 51,
        v_min: float = -10.0,
        v_max: float = 10.0,
        *args: Any,
        dueling: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        check_support(v_min, v_max, n_atom)
        self.dueling = dueling
        self._shape, self._bounds = (output_size, n_atom), (v_min, v_max)
        self.A = DiscreteHead(hidden_size, output_size * n_atom, layer_num, *args, **options)
        self.V = DiscreteHead(hidden_size, n_atom, layer_num, *args, **options) if dueling else None

    def forward(self, x: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
        """Return a dict for features `[B, input_size]` and a mask `[B, A]`, see `C51DQN`; None allows all actions."""
        logit_BAK = self.A(x).unflatten(-1, self._shape)
        if self.V is not None:
            logit_BAK = self.V(x)[:, None] + logit_BAK - allowed_mean(logit_BAK, mask, dim=-2)
        log_dist_BAK = logit_BAK.log_softmax(-1)
        dist_BAK = log_dist_BAK.exp()
        support_K = torch.linspace(*self._bounds, self._shape[1], dtype=dist_BAK.dtype, device=dist_BAK.device)
        return {
            "logit": (dist_BAK * support_K).sum(-1),
            "distribution": dist_BAK,
            "log_distribution": log_dist_BAK,
        }


@MODEL_REGISTRY.register("rainbowdqn")
class RainbowDQN(ValueNetwork):
    """The network of Rainbow (Hessel et al. 2018, arXiv:1710.02298): that of C51 with a dueling head.

    Args:
        action_shape: number of actions.
        v_min: the smallest return that the distribution can express.
        v_max: the largest one.
        n_atom: K, number of returns from v_min to v_max that the distribution can express.
        dueling: compute the head's output from a value and advantages.
        distributional: estimate a distribution; False: only action values, as `DQN` does, without a support.
        **options: see `ValueNetwork`.
    """

    @with_arguments_of(ValueNetwork)
    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        *args: Any,
        v_min: float = -10.0,
        v_max: float = 10.0,
        n_atom: int = 51,
        dueling: bool = True,
        distributional: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(obs_shape, *args, **options)
        self.v_min, self.v_max, self.n_atom = v_min, v_max, n_atom
        sizes: dict[str, Any] = dict(output_size=single_size(action_shape), **self.head_options)
        if distributional:
            self.head = DistributionHead(n_atom=n_atom, v_min=v_min, v_max=v_max, dueling=dueling, **sizes)
        else:
            self.head = (DuelingHead if dueling else DiscreteHead)(**sizes)

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        """Return a dict for observations `[B, ...]`.

        `distribution` `[B, A, K]` are the probabilities of the atoms, `log_distribution` their logarithms, and `logit`
        `[B, A]` the expected returns, the action values. A model that is not distributional returns only `logit`.
        """
        output = self._values(self.encoder(obs), obs)
        output = output if isinstance(output, dict) else {"logit": output}
        return output | {"logit": obey_mask(output["logit"], obs)}


@MODEL_REGISTRY.register("c51dqn")
class C51DQN(RainbowDQN):
    """A categorical distribution of the return of each discrete action (Bellemare et al. 2017, arXiv:1707.06887)."""

    @with_arguments_of(RainbowDQN, without=("dueling", "distributional"))
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, dueling=False, **options)
