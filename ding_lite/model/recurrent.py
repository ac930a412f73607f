"""The recurrent core of a network: an LSTM or a GRU that runs over sequences with episodes inside; a Q-network with it.

A state is a dict of tensors `[B, H]`: `h` and, for an LSTM, `c`. B is its first dimension, as in all columns, so
workers store the state of each environment like any other output of a policy.

Shapes: T rows of a sequence, B sequences, F features of a row, H features of the state, G inputs of gates, K places.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from ding_lite.model.arguments import ActionShape, ObsShape, check_choice, single_size, with_arguments_of
from ding_lite.model.gtrxl import GTrXL, State
from ding_lite.model.masks import obey_mask
from ding_lite.model.q_learning import DiscreteHead, DuelingHead, ValueNetwork
from ding_lite.torch_utils.data import Batch
from ding_lite.torch_utils.switches import is_traced
from ding_lite.utils.registry import MODEL_REGISTRY, ConfigError
from ding_lite.utils.tree import tree_leaves, tree_map

GTRXL: dict[str, Any] = dict(memory_len=32, layer_num=2, head_num=2, gate_bias=2.0)  # options, and usual values
LSTMType = Literal["normal", "pytorch", "lstm", "gru"]
CoreChoice = str | Mapping[str, Any] | None
# On a GPU, torch copies weights that are views of a larger tensor, as those of a trained network are, for each call.
warnings.filterwarnings("ignore", "RNN module weights are not part of single contiguous chunk of memory", UserWarning)


class LSTM(nn.LSTM):
    """torch's LSTM (Hochreiter & Schmidhuber 1997) of one layer, for a whole sequence or for single steps."""

    names = ("h", "c")
    weight_ih_l0: nn.Parameter
    weight_hh_l0: nn.Parameter
    bias_ih_l0: nn.Parameter
    bias_hh_l0: nn.Parameter

    def whole(self, x_TBF: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the outputs `[T, B, H]` and the state after the last row."""
        y_TBH, state = self(x_TBF, (h[None], c[None]))
        return y_TBH, tuple(part[0] for part in state)

    def project(self, x_TBF: Tensor) -> Tensor:
        """Return what the rows contribute to the gates, `[T, B, G]`."""
        return functional.linear(x_TBF, self.weight_ih_l0, self.bias_ih_l0 + self.bias_hh_l0)

    def step(self, z_BG: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        """Return the state after one row."""
        i, f, u, o = torch.addmm(z_BG, h, self.weight_hh_l0.t()).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(u)
        return torch.sigmoid(o) * torch.tanh(c), c


class GRU(nn.GRU):
    """torch's GRU (Cho et al. 2014, arXiv:1406.1078) of one layer, for a whole sequence or for single steps."""

    names = ("h",)
    weight_ih_l0: nn.Parameter
    weight_hh_l0: nn.Parameter
    bias_ih_l0: nn.Parameter
    bias_hh_l0: nn.Parameter

    def whole(self, x_TBF: Tensor, h: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        y_TBH, state = self(x_TBF, h[None])
        return y_TBH, (state[0],)

    def project(self, x_TBF: Tensor) -> Tensor:
        return functional.linear(x_TBF, self.weight_ih_l0, self.bias_ih_l0)

    def step(self, z_BG: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        own_BG = functional.linear(h, self.weight_hh_l0, self.bias_hh_l0)
        (r, z, n), (own_r, own_z, own_n) = z_BG.chunk(3, -1), own_BG.chunk(3, -1)
        new = torch.tanh(n + torch.sigmoid(r + own_r) * own_n)
        return (torch.lerp(new, h, torch.sigmoid(z + own_z)),)


class NormalizedLSTM(nn.Module):
    """An LSTM whose gates get normalised contributions of row and state (Ba et al. 2016, arXiv:1607.06450, eq. 20)."""

    names = ("h", "c")

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        bound = hidden_size**-0.5
        self.wx = nn.Parameter(torch.empty(4 * hidden_size, input_size).uniform_(-bound, bound))
        self.wh = nn.Parameter(torch.empty(4 * hidden_size, hidden_size).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(4 * hidden_size).uniform_(-bound, bound))
        self.norm_x, self.norm_h = nn.LayerNorm(4 * hidden_size), nn.LayerNorm(4 * hidden_size)

    def project(self, x_TBF: Tensor) -> Tensor:
        return self.norm_x(functional.linear(x_TBF, self.wx)) + self.bias

    def step(self, z_BG: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        i, f, o, u = (z_BG + self.norm_h(functional.linear(h, self.wh))).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(u)
        return torch.sigmoid(o) * torch.tanh(c), c


CELLS: dict[str, Callable[[int, int], Any]] = {
    "normal": NormalizedLSTM, "pytorch": LSTM, "lstm": LSTM, "gru": GRU,
}  # fmt: skip


class RecurrentCore(nn.Module):
    """Maps sequences of features to outputs that also depend on the earlier rows of the same episode.

    Args:
        input_size: F.
        hidden_size: H.
        lstm_type: 'normal', an LSTM with layer normalisation; 'pytorch' or 'lstm', torch's LSTM; 'gru', torch's GRU.
    """

    def __init__(self, input_size: int, hidden_size: int, lstm_type: LSTMType = "pytorch") -> None:
        super().__init__()
        check_choice("lstm_type", lstm_type, list(CELLS))
        self.hidden_size = hidden_size
        self.cell = CELLS[lstm_type](input_size, hidden_size)

    def forward(
        self,
        x_TBF: Tensor,
        prev_state: State | None = None,
        episode_start_TB: Tensor | None = None,
        place_K: Tensor | None = None,
    ) -> tuple[Tensor, State, State | None]:
        """Run over T rows, see `run_core`. It computes in the type of its parameters, even under autocast.

        If no episode starts after the first row, torch runs over the whole sequence in one call. Otherwise, and where
        torch traces, it takes single steps. On a GPU this decision waits for `episode_start_TB`.

        Returns:
            The outputs `[T, B, H]`, the state `[B, H]` after the last row, and the states `[K, H]` after those at
            `place_K`.
        """
        with torch.autocast(x_TBF.device.type, enabled=False):
            x_TBF = x_TBF.to(next(self.parameters()).dtype)
            if prev_state is None:
                zeros = x_TBF.new_zeros(x_TBF.shape[1], self.hidden_size)
                prev_state = dict.fromkeys(self.cell.names, zeros)
            parts = tuple(prev_state[name] for name in self.cell.names)
            if place_K is not None or self._needs_steps(episode_start_TB):
                return self._run_steps(x_TBF, parts, episode_start_TB, place_K)
            if episode_start_TB is not None:
                parts = _reset(parts, episode_start_TB[0])
            y_TBH, parts = self.cell.whole(x_TBF, *parts)
            return y_TBH, dict(zip(self.cell.names, parts, strict=True)), None

    def _needs_steps(self, episode_start_TB: Tensor | None) -> bool:
        if is_traced() or isinstance(self.cell, NormalizedLSTM):
            return True
        return episode_start_TB is not None and len(episode_start_TB) > 1 and bool(episode_start_TB[1:].any())

    def _run_steps(
        self, x_TBF: Tensor, parts: tuple[Tensor, ...], episode_start_TB: Tensor | None, place_K: Tensor | None
    ) -> tuple[Tensor, State, State | None]:
        after: list[tuple[Tensor, ...]] = []
        for t, z_BG in enumerate(self.cell.project(x_TBF)):
            if episode_start_TB is not None:
                parts = _reset(parts, episode_start_TB[t])
            parts = self.cell.step(z_BG, *parts)
            after.append(parts)
        columns = dict(zip(self.cell.names, zip(*after, strict=True), strict=True))
        state = {name: column[-1] for name, column in columns.items()}
        y_TBH, state_K = torch.stack(columns["h"]), None
        if place_K is not None:
            state_K = {name: torch.stack(column).flatten(0, 1)[place_K] for name, column in columns.items()}
        return y_TBH, state, state_K


def create_core(size: int, lstm_type: LSTMType | None, memory: CoreChoice) -> RecurrentCore | GTrXL:
    """Return the recurrent core of a network, with `size` features of a row and of the output.

    `memory` is 'gtrxl', or a dict of `type` and options of `GTrXL`; None: a `RecurrentCore`, by default 'normal'.
    """
    if memory is None:
        return RecurrentCore(size, size, lstm_type or "normal")
    options: dict[str, Any] = {"type": memory} if isinstance(memory, str) else dict(memory)
    name = options.pop("type", None)
    known = all(
        key in GTRXL and isinstance(value, int | type(GTRXL[key])) and value > 0 for key, value in options.items()
    )
    if name != "gtrxl" or not known:
        raise ConfigError(
            f"policy.model.memory: expected 'gtrxl', or a dict with that type and any of {GTRXL}, got {memory!r}."
        )
    return GTrXL(size, size, **(GTRXL | options))


def run_core(
    encoder: nn.Module,
    core: RecurrentCore | GTrXL,
    obs: Any,
    prev_state: State | None = None,
    episode_start: Tensor | None = None,
    final_index: Tensor | None = None,
) -> tuple[Tensor, Tensor, dict[str, State]]:
    """Run the encoder and the core of a network over sequences of observations `[T, B, ...]`.

    Args:
        encoder: maps observations `[M, ...]` to features.
        core: the recurrent core.
        obs: the observations.
        prev_state: the state `[B, ...]` before the first row; None: zeros.
        episode_start: `[T, B]`, true where an episode starts, and the state becomes zero; None: nowhere.
        final_index: `[K]`, places `t * B + b` of rows after which the state is needed; None: none.

    Returns:
        The outputs of the core and the features of the encoder, both `[T, B, ...]`, and the states by name:
        `next_state` `[B, ...]` after the last row and, with `final_index`, `final_state` `[K, ...]` after these rows.
    """
    rows = next(tree_leaves(obs)).shape[:2]
    x_TBF = encoder(tree_map(lambda leaf: leaf.flatten(0, 1), obs)).unflatten(0, rows)
    y_TBH, next_state, final_state = core(
        x_TBF, prev_state=prev_state, episode_start_TB=episode_start, place_K=final_index
    )
    states = {"next_state": next_state}
    return y_TBH, x_TBF, states if final_state is None else states | {"final_state": final_state}


def _reset(parts: tuple[Tensor, ...], start_B: Tensor) -> tuple[Tensor, ...]:
    return tuple(part.masked_fill(start_B[:, None], 0.0) for part in parts)


def unroll(run: Callable[..., dict[str, Any]], key: str, batch: Batch) -> tuple[dict[str, Any], Tensor]:
    """Run a recurrent network over sequences, and over the observation that followed each row.

    Where a trajectory was truncated, the row's successor is not the next row, which starts an episode, but the true
    final observation. It belongs to the episode of the row, so its state is the one after the row.

    Args:
        run: runs the network, with the arguments of `run_core` from `obs` on.
        key: the output to return for the successors.
        batch: sequences, see `worker/replay/sequence.py`. Negative places in `final_index`, of rows before the first
            one, are left out.

    Returns:
        The outputs of the rows `[T, B, ...]`, and the output `key` of their successors, `[T, B, ...]`, detached.
    """
    obs = tree_map(lambda rows, last: torch.cat([rows, last[None]]), batch["obs"], batch["last_obs"])
    start = functional.pad(batch["episode_start"], (0, 0, 0, 1))
    place_K = batch.get("final_index")
    options = {} if place_K is None else {"final_index": place_K.clamp(min=0)}
    output = run(obs, prev_state=batch["prev_state"], episode_start=start, **options)
    output.pop("next_state")
    final_state = output.pop("final_state", None)
    following = output[key].detach()
    next_ = following[1:]
    if place_K is not None:
        with torch.no_grad():
            final = run(tree_map(lambda leaf: leaf[None], batch["final_obs"]), prev_state=final_state)[key][0]
        size = next_.shape[0] * next_.shape[1]
        spare = torch.cat([next_, following[:1]]).flatten(0, 1)  # the last row takes what is left out
        place_K = torch.where(place_K < 0, size, place_K)
        next_ = spare.index_copy(0, place_K, final)[:size].view_as(next_)
    return tree_map(lambda leaf: leaf[:-1], output), next_


@MODEL_REGISTRY.register("drqn")
class DRQN(ValueNetwork):
    """Q of discrete actions, given all observations of the episode so far (Hausknecht & Stone 2015, arXiv:1507.06527).

    The last of `encoder_hidden_size_list` is also the size of the recurrent state.

    Args:
        action_shape: number of actions.
        dueling: compute Q from a value and advantages, see `DuelingHead`.
        lstm_type: 'normal', 'pytorch' or 'gru', see `RecurrentCore`.
        memory: 'gtrxl' takes a transformer with memory instead, see `create_core`.
        res_link: add the encoder's features to those of the recurrent core.
        **options: see `ValueNetwork`.
    """

    @with_arguments_of(ValueNetwork, without=("noise",))
    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        encoder_hidden_size_list: Sequence[int] = (128, 128, 64),
        dueling: bool = True,
        *args: Any,
        lstm_type: LSTMType = "normal",
        memory: CoreChoice = None,
        res_link: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(obs_shape, encoder_hidden_size_list, *args, **options)
        size = encoder_hidden_size_list[-1]
        self._res_link = res_link
        self.core = create_core(size, lstm_type, memory)
        head = DuelingHead if dueling else DiscreteHead
        self.head = head(output_size=single_size(action_shape), **self.head_options)

    def forward(self, obs: Tensor, **sequence: Any) -> dict[str, Any]:
        """Return `logit` `[T, B, A]`, the action values, and states, for observations `[T, B, ...]`, see `run_core`."""
        y_TBH, x_TBF, states = run_core(self.encoder, self.core, obs, **sequence)
        logit_TBA = self._values(y_TBH + x_TBF if self._res_link else y_TBH, obs)
        return {"logit": obey_mask(logit_TBA, obs), **states}
