"""A gated transformer with memory as a network's recurrent core, GTrXL (Parisotto et al. 2019, arXiv:1910.06764).

Each layer attends to the current row and to the M rows of the same episode before it, with the relative positions of
Transformer-XL (Dai et al. 2019, arXiv:1901.02860). The recurrent state is what the layers got in these M rows, so that
sequences run over many rows in one call, and environments step by step, with the same result. With layers' inputs x,
a gate g and a normalisation LN of each,

    y = g(x, relu(attention(LN([memory, x])))),   output = g(y, relu(MLP(LN(y)))),
    g(x, y) = (1 - z) x + z tanh(W_g y + U_g (r x)),   r = sigmoid(W_r y + U_r x),   z = sigmoid(W_z y + U_z x - b).

A positive b lets a new layer pass its input on.

Shapes: T rows of a sequence, B sequences, F features of a row, H features of a layer, L layers, M remembered rows, J =
M + T rows that can be attended to, A attention heads, D = H / A, O = M + 1 distances, K places.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ding_lite.utils.registry import ConfigError

State = dict[str, Tensor]


class Gate(nn.Module):
    """The gate g of the module's docstring, that of a GRU."""

    def __init__(self, size: int, bias: float) -> None:
        super().__init__()
        self.of_y, self.of_x = nn.Linear(size, 3 * size, bias=False), nn.Linear(size, 2 * size, bias=False)
        self.of_rx = nn.Linear(size, size, bias=False)
        self.bias = nn.Parameter(torch.full((size,), float(bias)))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return g(x, y)."""
        (y_r, y_z, y_g), (x_r, x_z) = self.of_y(y).chunk(3, -1), self.of_x(x).chunk(2, -1)
        new = torch.tanh(y_g + self.of_rx(torch.sigmoid(y_r + x_r) * x))
        return torch.lerp(x, new, torch.sigmoid(y_z + x_z - self.bias))


class Layer(nn.Module):
    """One layer: attention and two dense layers, each after a normalisation and before a gate."""

    def __init__(self, size: int, head_num: int, gate_bias: float) -> None:
        super().__init__()
        self._split = (head_num, size // head_num)
        self.norm_attention, self.norm_mlp = nn.LayerNorm(size), nn.LayerNorm(size)
        self.query, self.key_value = nn.Linear(size, size, bias=False), nn.Linear(size, 2 * size, bias=False)
        self.distance, self.output = nn.Linear(size, size, bias=False), nn.Linear(size, size)
        self.key_bias, self.distance_bias = (nn.Parameter(torch.zeros(self._split)) for _ in range(2))
        self.mlp = nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Linear(size, size), nn.ReLU())
        self.gate_attention, self.gate_mlp = Gate(size, gate_bias), Gate(size, gate_bias)

    def forward(self, x_BJH: Tensor, wave_OH: Tensor, distance_TJ: Tensor, allowed_BTJ: Tensor) -> Tensor:
        """Return the outputs `[B, T, H]` of the last T rows of the inputs, memory first.

        `wave_OH` encodes each distance between two rows, `distance_TJ` is that of rows t and j, clamped to 0..M, and
        `allowed_BTJ` says whether row t attends to row j.
        """
        norm_BJH, x_BTH = self.norm_attention(x_BJH), x_BJH[:, -len(distance_TJ) :]
        key_BJAD, value_BJAD = (part.unflatten(-1, self._split) for part in self.key_value(norm_BJH).chunk(2, -1))
        query_BTAD = self.query(norm_BJH[:, -len(distance_TJ) :]).unflatten(-1, self._split)
        near_OAD = self.distance(wave_OH).unflatten(-1, self._split)
        score_BATO = torch.einsum("btad,oad->bato", query_BTAD + self.distance_bias, near_OAD)
        score_BATJ = torch.einsum("btad,bjad->batj", query_BTAD + self.key_bias, key_BJAD)
        score_BATJ = score_BATJ + score_BATO.gather(-1, distance_TJ.expand_as(score_BATJ))
        score_BATJ = (score_BATJ * self._split[1] ** -0.5).masked_fill(~allowed_BTJ[:, None], -torch.inf)
        heard_BTH = torch.einsum("batj,bjad->btad", score_BATJ.softmax(-1), value_BJAD).flatten(2)
        y_BTH = self.gate_attention(x_BTH, torch.relu(self.output(heard_BTH)))
        return self.gate_mlp(y_BTH, self.mlp(self.norm_mlp(y_BTH)))


class GTrXL(nn.Module):
    """Maps sequences of features to outputs that also depend on earlier rows of the same episode.

    It takes the place of a `RecurrentCore`. Its state is a dict of `memory` `[B, M L H]`, and `length` `[B, 1]`, how
    many of the M rows belong to the episode.

    Args:
        input_size: F.
        hidden_size: H, a multiple of `head_num`.
        memory_len: M. Replay stores the memory of every env step: M L H numbers.
        layer_num: L.
        head_num: A.
        gate_bias: b of the gates at the start.
    """

    def __init__(
        self, input_size: int, hidden_size: int, memory_len: int, layer_num: int, head_num: int, gate_bias: float
    ) -> None:
        super().__init__()
        if hidden_size % (2 * head_num):
            raise ConfigError(
                f"policy.model.memory: expected features in multiples of {2 * head_num} for {head_num} heads, got "
                f"{hidden_size}: change the last of encoder_hidden_size_list, or head_num."
            )
        self.hidden_size, self._memory_len, self._layer_num = hidden_size, memory_len, layer_num
        self.enter = nn.Linear(input_size, hidden_size)
        self.layers = nn.ModuleList(Layer(hidden_size, head_num, gate_bias) for _ in range(layer_num))

    def forward(
        self,
        x_TBF: Tensor,
        prev_state: State | None = None,
        episode_start_TB: Tensor | None = None,
        place_K: Tensor | None = None,
    ) -> tuple[Tensor, State, State | None]:
        """Run over T rows, in the type of its parameters; see `RecurrentCore.forward` for arguments and results."""
        with torch.autocast(x_TBF.device.type, enabled=False):
            x_BTH = self.enter(x_TBF.to(self.enter.weight.dtype).transpose(0, 1))
            (batch, rows), size = x_BTH.shape[:2], self._memory_len
            if prev_state is None:
                numbers = size * self._layer_num * self.hidden_size
                prev_state = {"memory": x_BTH.new_zeros(batch, numbers), "length": x_BTH.new_zeros(batch, 1)}
            memory_BMLH = prev_state["memory"].view(batch, size, self._layer_num, -1)
            # an episode's number in the sequence, 0 for the one before; -1 for memory that is empty
            episode_BT = torch.zeros(batch, rows, dtype=torch.int64, device=x_BTH.device)
            if episode_start_TB is not None:
                episode_BT = episode_start_TB.t().cumsum(1)
            row_J = torch.arange(size + rows, device=x_BTH.device)
            filled_BM = row_J[:size] >= size - prev_state["length"]
            episode_BJ = torch.cat([filled_BM.long() - 1, episode_BT], 1)
            distance_TJ = row_J[size:, None] - row_J
            near_TJ = (distance_TJ >= 0) & (distance_TJ <= size)
            allowed_BTJ = (episode_BJ[:, None] == episode_BT[:, :, None]) & near_TJ
            wave_OH, layers = _waves(size + 1, x_BTH), []
            for number, layer in enumerate(self.layers):
                layers.append(torch.cat([memory_BMLH[:, :, number], x_BTH], 1))
                x_BTH = layer(layers[-1], wave_OH, distance_TJ.clamp(0, size), allowed_BTJ)
            x_BJLH = torch.stack(layers, 2)
            length_BT = (allowed_BTJ & (distance_TJ < size)).sum(-1).to(x_BTH.dtype)

            def state_after(row: Tensor, of: Tensor) -> State:
                seen = x_BJLH[of[:, None], row[:, None] + row_J[1 : size + 1]]
                return {"memory": seen.flatten(1), "length": length_BT[of, row, None]}

            of_B = torch.arange(batch, device=x_BTH.device)
            state = state_after(torch.full_like(of_B, rows - 1), of_B)
            state_K = None if place_K is None else state_after(place_K // batch, place_K % batch)
            return x_BTH.transpose(0, 1), state, state_K


def _waves(number: int, like: Tensor) -> Tensor:
    """Return sines and cosines of the distances 0 to `number` - 1 (Vaswani et al. 2017), `[O, H]`."""
    size = like.shape[-1]
    rate = 1e4 ** (-torch.arange(0, size, 2, device=like.device, dtype=like.dtype) / size)
    angle = torch.arange(number, device=like.device, dtype=like.dtype)[:, None] * rate
    return torch.cat([angle.sin(), angle.cos()], -1)
