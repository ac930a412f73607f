"""The parts of models that DI-engine's `model.common` has, with its arguments, for models of a config file's own."""

from __future__ import annotations

from ding_lite.model.actor_heads import BoundType, GaussianHead, SigmaType
from ding_lite.model.encoders import FCEncoder as FCEncoder
from ding_lite.model.encoders import IMPALAConvEncoder as IMPALAConvEncoder
from ding_lite.model.image import ConvEncoder as ConvEncoder
from ding_lite.model.mlp import Activation
from ding_lite.model.q_learning import DiscreteHead as DiscreteHead
from ding_lite.model.q_learning import DuelingHead as DuelingHead


class ReparameterizationHead(GaussianHead):
    """Maps features `[B, hidden_size]` to `mu` and `sigma` `[B, output_size]`, see `GaussianHead`.

    Args:
        hidden_size: number of features, and size of the hidden layers.
        output_size: dimensions of an action.
        layer_num: hidden layers.
        sigma_type: see `GaussianHead`, as for `fixed_sigma_value` and `bound_type`.
        fixed_sigma_value: see above.
        activation: see `Activation`.
        norm_type: normalisation of the hidden layers, see `with_norm`.
        bound_type: see above.
    """

    def __init__(
        self,
        hidden_size: int,
        output_size: int,
        layer_num: int = 2,
        sigma_type: SigmaType = "independent",
        fixed_sigma_value: float = 1.0,
        activation: Activation = "relu",
        norm_type: str | None = None,
        bound_type: BoundType = None,
    ) -> None:
        sizes = [hidden_size] * (layer_num + 1) + [output_size]
        super().__init__(sizes, sigma_type, fixed_sigma_value, bound_type, activation=activation, norm_type=norm_type)
