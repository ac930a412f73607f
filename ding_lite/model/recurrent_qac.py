"""Actor-critic networks with memories, whose critics estimate Q(s, a).

Shapes: T rows of a sequence, U of these to learn from, B sequences, F features, D dimensions of an action, C critics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from ding_lite.model.arguments import with_arguments_of
from ding_lite.model.gtrxl import GTrXL, State
from ding_lite.model.qac import QAC
from ding_lite.model.recurrent import CoreChoice, LSTMType, RecurrentCore, create_core, run_core, unroll
from ding_lite.utils.registry import MODEL_REGISTRY


class SequenceEncoder(nn.Module):
    """An encoder and a recurrent core, which turn sequences of observations into features for 'actor' or 'critic'."""

    def __init__(self, encoder: nn.Module, core: RecurrentCore | GTrXL, owner: str) -> None:
        super().__init__()
        self.encoder, self.core, self.owner = encoder, core, owner

    def run(self, obs: Any, prev_state: State | None = None, **sequence: Any) -> dict[str, Any]:
        """Return `features` `[T, B, F]` of observations `[T, B, ...]`, and the states that `run_core` returns."""
        y_TBF, _, states = run_core(self.encoder, self.core, obs, prev_state, **sequence)
        return {"features": y_TBF, **states}

    def forward(self, inputs: dict[str, Any]) -> Tensor:
        """Return the features of all rows, `[T, B, F]`, or of the successors of some, `[U, B, F]`, without gradient.

        Args:
            inputs: `obs`, `episode_start` and `prev_state` of sequences, as `SequenceView` makes them, but a state for
                each network; for successors also `last_step` `[U, B]`, the rows that they follow, and `last_obs`,
                `final_obs` and `final_index`.
        """
        state = inputs["prev_state"][self.owner]
        if "last_step" not in inputs:
            return self.run(inputs["obs"], state, episode_start=inputs["episode_start"])["features"]
        _, next_TBF = unroll(self.run, "features", {**inputs, "prev_state": state})
        return next_TBF.gather(0, inputs["last_step"].unsqueeze(-1).expand(-1, -1, next_TBF.shape[-1]))


@MODEL_REGISTRY.register("recurrent_qac")
class RecurrentQAC(QAC):
    """`QAC` whose actor and critics have a memory each, of as many features as the encoder's last layer.

    Args:
        lstm_type: 'lstm', 'gru' or 'normal', see `RecurrentCore`.
        memory: 'gtrxl' takes a transformer with memory instead, see `create_core`.
        **options: see `QAC`.
    """

    @with_arguments_of(QAC)
    def __init__(
        self,
        *args: Any,
        lstm_type: LSTMType = "lstm",
        memory: CoreChoice = None,
        encoder_hidden_size_list: Sequence[int] = (64,),
        **options: Any,
    ) -> None:
        super().__init__(*args, encoder_hidden_size_list=encoder_hidden_size_list, **options)
        for name, size in (("actor", self.actor_features), ("critic", self.size)):
            network = getattr(self, name)
            network.encoder = SequenceEncoder(network.encoder, create_core(size, lstm_type, memory), name)

    def forward(self, inputs: Any, mode: str, **sequence: Any) -> dict[str, Any]:
        """Return the result of the method named `mode`.

        With `mode='compute_actor'`, `inputs` are observations `[T, B, ...]`, and so the outputs `[T, B, D]`; the states
        of both networks are `next_state`. `mode='remember'` returns these alone. `sequence` may contain `prev_state`
        and `episode_start`, see `run_core`.
        """
        if mode not in ("compute_actor", "remember"):
            return super().forward(inputs, mode)
        prev_state = sequence.pop("prev_state", None) or {"actor": None, "critic": None}
        parts = {name: getattr(self, name).encoder.run(inputs, state, **sequence) for name, state in prev_state.items()}
        output = {"next_state": {name: part["next_state"] for name, part in parts.items()}}
        if mode == "remember":
            return output
        action = self.actor.head(parts["actor"]["features"])
        return {"action" if self.action_space == "regression" else "logit": action, **output}
