"""Data sets for offline learning: turns columns of env steps from a file into batches of n-step transitions.

Shapes: R rows of the file, M rows at which a transition can start, B transitions of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from torch import Tensor

from ding_lite.envs.actions import ActionUnits, bounds_of
from ding_lite.envs.masks import mask_side
from ding_lite.envs.returned import EnvError, fit
from ding_lite.envs.spaces import observation_forms
from ding_lite.offline.files import PADDING, UNFINISHED, Columns, DatasetError, count_rows, flatten, open_columns
from ding_lite.rl_utils.common import discounts, nstep_sums
from ding_lite.torch_utils.data import Batch
from ding_lite.utils.tree import MASK, tree_leaves, tree_map

TRANSITION = ("obs", "action", "reward", "next_obs", "done")
NAMES = {  # the names that files may use for a column; the first is ours and DI-engine's
    "obs": ("obs", "observations", "observation"),
    "action": ("action", "actions"),
    "reward": ("reward", "rewards"),
    "next_obs": ("next_obs", "next_observations"),
    "done": ("done", "terminals", "terminations", "terminated", "dones"),
    "traj_flag": ("traj_flag", "timeouts", "truncations", "truncated"),
}
ROUNDING = 5e-4  # how far an action may exceed the bounds of a Box, relative to its width
ROWS_AT_ONCE = 2**16  # rows read at once in a pass over the whole data set
FLAGS = ("done", "traj_flag", PADDING, UNFINISHED)
REWARD_SHIFTS = {"iql_antmaze": (1.0, 1.0), "cql_antmaze": (0.5, 4.0), "antmaze": (0.25, 2.0)}  # (r - first) * second


class OfflineDataset(torch.utils.data.Dataset[Any]):
    """A data set of n-step transitions, gathered from columns with one vectorised copy per column.

    A transition is a dict with `obs`, `action` and, if the columns exist: `reward`, the discounted sum of up to `nstep`
    rewards, which ends where the trajectory is cut; `done`, whether the last summed step was terminal; `next_obs` after
    that step, meaningless if `done`; `value_gamma`, the discount of its value; and all other columns, unchanged.

    A row without a known next observation cannot start a transition, and sums end before it. A terminal row needs none.
    Give a `DataLoader` over it `collate_fn=lambda batch: batch`, because `__getitems__` already collates.

    Args:
        columns: nested arrays or tensors `[R, ...]`. `done` means terminated: there is no bootstrap. A trajectory ends
            where `done` or `traj_flag` is True. Without `next_obs`, the `obs` of the next row is used; then the next
            observation of the last row of a trajectory is unknown, unless a row of `padding` holds it.
        nstep: largest number of rewards that are summed.
        gamma: discount per env step.
        source: the data set's name in messages.
        ignore_done: bootstrap at terminal states too. Terminal rows then need a known next observation.
        action_units: the units of the actions, 'env' or 'policy'; empty: unknown.
        reward_norm: how rewards change before they are summed. 'normalize': their mean is 0 and their variance 1;
            'iql_locomotion': the returns of finished trajectories differ by at most 1000 (Kostrikov et al. 2021,
            arXiv:2110.06169); 'ones': each is 1; or one of `REWARD_SHIFTS`; empty: not at all.
        one_step: add `reward_1`, `done_1` and `next_obs_1`, what the first step alone has led to.

    Attributes:
        columns: the columns, as tensors.

    Raises:
        DatasetError: columns have different lengths, there are no rows or no transitions, or numbers are not finite.
    """

    def __init__(
        self,
        columns: dict[str, Any],
        nstep: int = 1,
        gamma: float = 0.99,
        source: str = "columns",
        ignore_done: bool = False,
        action_units: str = "",
        reward_norm: str = "",
        one_step: bool = False,
    ) -> None:
        self.source, self._action_units, self._reward_norm = source, action_units, reward_norm
        self._one_step = one_step
        self._has_successors = True  # whether the next observations of all steps are known
        self.columns = columns = {key: self._to_tensors(key, value) for key, value in columns.items()}
        self._check_columns()
        self._now = {key: value for key, value in columns.items() if key not in ("next_obs", *FLAGS)}
        self._next = columns.get("next_obs")
        self._next_row: Tensor | None = None
        self._convert: Callable[[Any], Any] | None = None  # observations of the file to those of the policy
        self._start: Tensor | None = None
        if PADDING in columns:
            self._start = (~columns[PADDING]).nonzero().squeeze(1)
        if "done" in columns:
            self._connect(nstep, gamma, ignore_done)
        if not len(self):
            raise DatasetError(
                f"Data set '{source}' holds {count_rows(columns)} rows, but no transition starts in them."
            )

    def _connect(self, nstep: int, gamma: float, ignore_done: bool) -> None:
        """Find the rows where transitions start and end, and sum the rewards."""
        done_R = self.columns["done"]
        ends_R = self._ends(exactly=nstep > 1 or self._reward_norm == "iql_locomotion")
        cut_R, unknown_R = ends_R, torch.zeros_like(ends_R)  # unknown: rows whose next observation the file lacks
        if "next_obs" not in self.columns:
            unknown_R = ends_R & ~torch.cat([self._flag(PADDING)[1:], ~ends_R[-1:]])
            needed_R = unknown_R if ignore_done else unknown_R & ~done_R
            self._start = (~needed_R).nonzero().squeeze(1) if needed_R.any() else None
            cut_R = ends_R | torch.cat([needed_R[1:], ends_R[-1:]])
            self._has_successors = not (unknown_R & ~self._flag(PADDING)).any()
        self._now["done"] = done_R
        if "reward" not in self.columns:
            return
        rewards_R = self._rewards(ends_R)
        last_R, self._now["reward"], self._now["value_gamma"] = _sum_rewards(rewards_R, cut_R, nstep, gamma)
        self._now["done"] = done_R[last_R]
        if self._one_step:
            self._now |= {"reward_1": rewards_R, "done_1": done_R}
            self._unknown_R = unknown_R
        if "next_obs" not in self.columns:
            self._next, self._next_row = self.columns["obs"], torch.where(unknown_R[last_R], last_R, last_R + 1)
        elif nstep > 1:
            self._next_row = last_R

    def _rewards(self, ends_R: Tensor) -> Tensor:
        """Return the rewards that are learned from, `[R]`; `ends_R` masks the last rows of trajectories."""
        reward_R, kind = self.columns["reward"], self._reward_norm
        if not kind:
            return reward_R
        if kind == "ones":
            return torch.ones_like(reward_R)
        if kind in REWARD_SHIFTS:
            shift, factor = REWARD_SHIFTS[kind]
            return (reward_R - shift) * factor
        step_R = ~self._flag(PADDING)
        if kind == "normalize":
            known = reward_R[step_R].double()
            shift, spread = known.mean().item(), known.std(correction=0).item()
        else:
            last_R = _last_rows(ends_R)
            return_R = torch.zeros(len(last_R), dtype=torch.float64).index_add_(0, last_R, reward_R.double())
            returns = return_R[last_R[step_R & self._finished(last_R)].unique()]
            shift, spread = 0.0, (returns.max() - returns.min()).item() / 1000.0
        if spread == 0.0:
            raise self._fault("reward", f"different values for policy.collect.reward_norm='{kind}'", "equal ones")
        return (reward_R - shift) / spread

    def _ends(self, exactly: bool) -> Tensor:
        """Return a mask `[R]` of the rows that are the last of their trajectory in the file.

        If not `exactly`, an end that only the next row's observation shows may be missing.
        """
        columns, ends_R = self.columns, self._flag("done") | self._flag("traj_flag") | self._flag(PADDING)
        ends_R[-1] = True
        if exactly and "next_obs" in columns and "traj_flag" not in columns:  # observations show the cuts
            for obs, next_obs in zip(tree_leaves(columns["obs"]), tree_leaves(columns["next_obs"]), strict=True):
                ends_R[:-1] |= (obs[1:] != next_obs[:-1])[:, None].flatten(1).any(1)
        return ends_R

    def _finished(self, last_R: Tensor) -> Tensor:
        """Return a mask `[R]` of the rows of finished trajectories; `last_R` are the last rows of their trajectories.

        A trajectory that the recording cut is not finished: the column `unfinished` is true, or the file ends without
        a flag. What is not recorded of it would be missing in its return.
        """
        open_R = self._flag(UNFINISHED).clone()
        open_R[-1] |= ~(self._flag("done") | self._flag("traj_flag"))[-1]
        finished_R = ~open_R[last_R]
        if not finished_R.any():
            raise DatasetError(
                f"Data set '{self.source}' holds {count_rows(self.columns)} rows, but no trajectory ends in them, so "
                "that no return is known: expected 'done' or 'traj_flag' in the last row of a trajectory."
            )
        return finished_R

    def trajectories(self) -> tuple[Tensor, Tensor]:
        """Return the lengths and the returns of the trajectories, in their order in the file, each `[E]`."""
        padding_R, ends_R = self._flag(PADDING), self._ends(exactly=True)
        ends_R[:-1] |= padding_R[1:]
        number_R = ends_R.cumsum(0) - ends_R.long()
        kept_R = ~padding_R
        number_R = number_R[kept_R].unique_consecutive(return_inverse=True)[1]
        return_E = torch.zeros(int(number_R.max()) + 1, dtype=torch.float64)
        return number_R.bincount(), return_E.index_add_(0, number_R, self.columns["reward"][kept_R].double())

    def episode_steps(self) -> Tensor:
        """Return the number of env steps since the start of its trajectory, of each transition, `[M]`."""
        row_R = torch.arange(count_rows(self.columns))
        first_R = torch.cat([row_R[:1] == 0, self._ends(exactly=True)[:-1]])
        step_R = row_R - torch.where(first_R, row_R, 0).cummax(0).values
        return step_R if self._start is None else step_R[self._start]

    def _flag(self, name: str) -> Tensor:
        """Return one of the `FLAGS`, `[R]`, which is False everywhere without a column."""
        return self.columns.get(name, torch.zeros(count_rows(self.columns), dtype=torch.bool))

    def __len__(self) -> int:
        return count_rows(self.columns) if self._start is None else len(self._start)

    @property
    def left_out(self) -> int:
        """The number of env steps that start no sample, because something is not known of what followed them."""
        return int((~self._flag(PADDING)).sum()) - len(self)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return tree_map(lambda leaf: leaf[0], self.gather(torch.tensor([index])))

    def __getitems__(self, indices: Sequence[int] | Tensor) -> dict[str, Any]:
        return self.gather(torch.as_tensor(indices))

    def gather(self, index_B: Tensor, out: dict[str, Any] | None = None) -> Batch:
        """Return the transitions `[B, ...]` of these numbers; write them to the tensors `out`, if given."""
        row_B = index_B if self._start is None else self._start[index_B]
        batch = {key: self._take(key, column, row_B, out and out[key]) for key, column in self._now.items()}
        if self._next is not None and self._one_step:
            after_B = row_B if "next_obs" in self.columns else row_B + ~self._unknown_R[row_B]
            batch["next_obs_1"] = self._take("next_obs", self._next, after_B, out and out["next_obs_1"])
        if self._next is not None:
            row_B = row_B if self._next_row is None else self._next_row[row_B]
            batch["next_obs"] = self._take("next_obs", self._next, row_B, out and out["next_obs"])
        return batch

    def _take(self, key: str, column: Any, row_B: Tensor, out: Any = None) -> Any:
        """Return rows of a column, as the policy sees them, and write them to `out`, if it is given."""
        if self._convert is None or key not in ("obs", "next_obs"):
            return _take(column, row_B, out)
        rows = self._converted(_take(column, row_B))
        return rows if out is None else tree_map(lambda into, leaf: into.copy_(leaf), out, rows)

    def _converted(self, obs: Any) -> Any:
        if self._convert is None:
            return obs
        return tree_map(torch.from_numpy, self._convert(tree_map(lambda leaf: leaf.numpy(), obs)))

    def observations(self) -> Iterator[Any]:
        """Yield the observations of all rows except padding, in parts `[R, ...]`, as the policy sees them."""
        kept_R = ~self._flag(PADDING)
        for start in range(0, len(kept_R), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            yield self._converted(tree_map(lambda column: column[part][kept_R[part]], self.columns["obs"]))  # noqa: B023

    def fit(
        self,
        observation_space: gymnasium.Space[Any],
        units: ActionUnits,
        env_space: gymnasium.Space[Any] | None = None,
        layout: str = "",
        ignore_done: bool = False,
    ) -> None:
        """Compare the columns with an environment's spaces, and convert the actions to the policy's units.

        Observations as the environment returns them, such as labels, are converted in each batch: `observation_space`
        is that of the policy, `env_space` that of the environment, or None if it is unknown, and `layout` its
        `env.image_layout`. `ignore_done` says whether the policy bootstraps at terminal states too.

        Raises:
            DatasetError: shapes or keys differ, an observation or an action is not in its space, or the units of the
                actions are unknown and it matters which they are; or what followed terminal states is needed and
                unknown.
        """
        if ignore_done and not self._has_successors:
            raise DatasetError(
                "policy.learn.ignore_done=True bootstraps from the observation after a terminal step, but the data set "
                f"'{self.source}' has no column next_obs: add it, or set ignore_done=False."
            )
        forms = observation_forms(observation_space, env_space, layout, units.env_space)
        obs = self.columns.get("obs")
        space, convert = next((form for form in forms if _has_form(obs, form[0])), (observation_space, None))
        for key in ("obs", "next_obs"):
            if key in self.columns:
                self._check_space(key, self.columns[key], space)
                self.columns[key] = self._in_space(key, self.columns[key], space)
        if "obs" in self.columns:
            self._now["obs"] = self.columns["obs"]
            self._next = None if self._next is None else self.columns.get("next_obs", self.columns["obs"])
        self._convert = None if space is observation_space else convert
        if "action" not in self.columns:
            return
        action, given = self.columns["action"], self._action_units
        if not (given or units.same):
            message = (
                f"Data set '{self.source}' does not say whether its actions are in the environment's units, "
                f"{units.env_space}, or in the policy's, {units.space}: set policy.collect.action_units to 'env' or "
                "'policy'."
            )
            raise DatasetError(" ".join(message.split()))  # a long space has several lines
        space = units.space if given == "policy" else units.env_space
        if space.shape == (1,) and action.ndim == 1 and not action.is_floating_point():
            action = action[:, None]
        self._check_space("action", action, space)
        if given != "policy" and not units.same:
            converted = units.to_policy(tree_map(lambda leaf: leaf.numpy(), action))
            action = tree_map(torch.from_numpy, converted)
        self._now["action"] = self.columns["action"] = action
        self._check_mask(action, units.env_space if self._convert else None)

    def _in_space(self, key: str, column: Any, space: gymnasium.Space[Any]) -> Any:
        """Return a column of observations in the types of its space; raise `DatasetError` if a value is not in it."""
        if isinstance(space, Dict):
            return {**column, **{name: self._in_space(f"{key}/{name}", column[name], space[name]) for name in space}}
        if np.dtype(space.dtype).kind == "f":  # numbers without limits
            return column.float()
        try:
            array = fit(column.numpy(), space, f"Data set '{self.source}', key '{key}'", column.shape[:1])
        except EnvError as error:
            raise DatasetError(str(error)) from error
        return column if f"{array.dtype.kind}{array.itemsize}" in WIDE else torch.from_numpy(array)

    def _check_space(self, key: str, column: Any, space: gymnasium.Space[Any]) -> None:
        if isinstance(space, Dict) != isinstance(column, dict):
            expected, got = ("several", "a single one") if isinstance(space, Dict) else ("a single one", "several")
            raise self._fault(key, f"{expected} for the environment's {space}", f"{got}: {_describe(column)}")
        if isinstance(space, Dict):
            for name, part in space.items():
                if name not in column:
                    raise self._fault(f"{key}/{name}", f"a column for the environment's {part}", _describe(column))
                self._check_space(f"{key}/{name}", column[name], part)
            return
        if tuple(column.shape[1:]) != (space.shape or ()):
            raise self._fault(
                key, f"{list(space.shape or ())} in each row, as the environment has it", str(list(column.shape[1:]))
            )
        if key.startswith("action") and isinstance(space, Box | Discrete | MultiDiscrete | MultiBinary):
            self._check_actions(key, column, space)

    def _check_actions(self, key: str, column: Tensor, space: Box | Discrete | MultiDiscrete | MultiBinary) -> None:
        """Raise `DatasetError` if an action is not in the space; a rounding error beyond a Box's bounds is allowed."""
        low, high = (end.astype(np.float64) for end in bounds_of(space))
        slack: Any = 0.0
        if isinstance(space, Box):
            slack = ROUNDING * np.where(space.bounded_below & space.bounded_above, high - low, 1.0)
        elif column.is_floating_point():
            raise self._fault(key, f"whole numbers for {space}", str(column.dtype))
        column = column[~self._flag(PADDING)]
        least, most = (reduce(column, 0).numpy() for reduce in (torch.amin, torch.amax))
        if (least < low - slack).any() or (most > high + slack).any():
            advice = " If they are in the environment's units, set policy.collect.action_units='env'."
            got = f"{least.min()} to {most.max()}"
            raise self._fault(key, f"actions of {space}", got, advice * (self._action_units == "policy"))

    def _check_mask(self, action: Any, env_actions: gymnasium.Space[Any] | None) -> None:
        """Raise `DatasetError` if an action was played that the `action_mask` of its observation forbids."""
        obs = self.columns.get("obs")
        if not isinstance(obs, dict) or MASK not in obs or isinstance(action, dict) or action.is_floating_point():
            return
        mask = obs[MASK]
        if env_actions is not None:  # the masks of several choices may be joined
            mask = torch.from_numpy(mask_side(MultiBinary(mask.shape[1:]), env_actions)[1](mask.numpy()))
        row_M = (~self._flag(PADDING)).nonzero().squeeze(1)
        allowed = mask[row_M].gather(-1, action[row_M][..., None]).squeeze(-1) != 0
        forbidden_M = ~allowed.view(len(row_M), -1).all(-1)
        if forbidden_M.any():
            row = int(row_M[forbidden_M][0])
            got = f"{action[row].tolist()} with the mask {mask[row].tolist()} in row {row}"
            raise self._fault("action", f"actions that the '{MASK}' allows", got)

    def _check_columns(self) -> None:
        """Raise `DatasetError` for different lengths, flags and rewards that are not vectors, and NaN."""
        rows = count_rows(self.columns)
        if rows == 0:
            raise DatasetError(f"Data set '{self.source}' is empty: its columns have no rows.")
        for key, leaf in flatten(self.columns):
            if len(leaf) != rows:
                first = next(flatten(self.columns))[0]
                raise self._fault(key, f"{rows} rows, as '{first}' has", f"{len(leaf)}")
            if key in ("reward", *FLAGS) and leaf.ndim != 1:
                raise self._fault(key, f"shape [{rows}]", str(list(leaf.shape)))
        if "next_obs" in self.columns:
            expected, got = (_describe(self.columns[key]) for key in ("obs", "next_obs"))
            if got != expected:
                raise self._fault("next_obs", f"what 'obs' has, {expected}", got)

    def _to_tensors(self, key: str, value: Any) -> Any:
        """Return nested arrays as tensors: floats as float32, flags as bool, actions as int64, others unchanged."""
        if isinstance(value, dict):
            return {name: self._to_tensors(f"{key}/{name}", part) for name, part in value.items()}
        mapped = isinstance(value, np.memmap)
        array = np.asarray(value)
        if array.dtype.kind not in "fiub":
            raise self._fault(key, "numbers", f"type {array.dtype}")
        if array.ndim == 0:
            raise self._fault(key, "one entry for each step", "a single number")
        if key in FLAGS and (wrong := (array != 0) & (array != 1)).any():
            row = int(np.argwhere(wrong)[0, 0])
            raise self._fault(key, "True or False, or 1 or 0", f"{array[row]!s} in row {row}")
        if key in FLAGS:
            array = array.astype(np.bool_, copy=False)
        elif array.dtype.kind == "f" or key == "reward":
            array = array.astype(np.float32, copy=False)
        elif key.startswith("action") or array.dtype.kind + str(array.itemsize) in WIDE:
            array = array.astype(np.int64, copy=False)
        if array.shape[1:] == (1,) and (key in ("reward", *FLAGS) or (key == "action" and array.dtype.kind != "f")):
            array = array[:, 0]
        looked_at = array.dtype.kind == "f" and not (mapped and "obs" in key)  # mapped observations may be huge
        if looked_at and not (finite := np.isfinite(array)).all():
            row = int(np.argwhere(~finite)[0, 0])
            raise self._fault(key, "finite numbers", f"nan or infinity, first in row {row}")
        return torch.from_numpy(np.ascontiguousarray(array))

    def _fault(self, key: str, expected: str, got: str, advice: str = "") -> DatasetError:
        message = f"Data set '{self.source}', key '{key}': expected {expected}, got {got}.{advice}"
        return DatasetError(" ".join(message.split()))


class SequenceDataset(OfflineDataset):
    """A data set of pieces of trajectories `[B, K, ...]`, which start at any step and end at most with the trajectory.

    A piece has `obs`, `action`, and `[B, K]`: `rtg`, the sum of the rewards from the step to the end of its trajectory,
    in the data set's units; `timestep`, the step's number in its trajectory, from 0; and `valid`, False after the end
    of the trajectory, where the last step is repeated. An unfinished trajectory, whose return is unknown, is left out.

    `length` is K, the others are arguments of `OfflineDataset`; without `traj_flag`, `next_obs` shows where
    trajectories end.
    """

    def __init__(self, columns: dict[str, Any], length: int, source: str = "columns", action_units: str = "") -> None:
        super().__init__(columns, source=source, action_units=action_units)
        columns, row_R = self.columns, torch.arange(len(self.columns["done"]))
        padding_R, ends_R = self._flag(PADDING), self._ends(exactly=True)
        ends_R[:-1] |= padding_R[1:]
        first_R = torch.where(torch.cat([torch.ones(1, dtype=torch.bool), ends_R[:-1]]), row_R, 0).cummax(0).values
        self._last_R = _last_rows(ends_R)
        self._start = (self._finished(self._last_R) & ~padding_R).nonzero().squeeze(1)
        reward_R = columns["reward"].double()
        total_R = reward_R.cumsum(0)
        self._now = {key: columns[key] for key in ("obs", "action")}
        self._now["rtg"] = (total_R[self._last_R] - total_R + reward_R).float()
        self._now["timestep"] = row_R - first_R
        self._step_K = torch.arange(length)

    def gather(self, index_B: Tensor, out: dict[str, Any] | None = None) -> Batch:
        assert self._start is not None
        row_B = self._start[index_B]
        row_BK, last_B1 = row_B[:, None] + self._step_K, self._last_R[row_B, None]
        row, shape = row_BK.minimum(last_B1).flatten(), row_BK.shape
        flat = out and {key: tree_map(lambda leaf: leaf.flatten(0, 1), out[key]) for key in self._now}
        batch = {key: self._take(key, column, row, flat and flat[key]) for key, column in self._now.items()}
        batch = tree_map(lambda leaf: leaf.unflatten(0, shape), batch)
        return batch | {"valid": torch.le(row_BK, last_B1, out=out["valid"] if out else None)}


WIDE = ("u2", "u4", "u8")  # types that torch hardly supports


def _last_rows(ends_R: Tensor) -> Tensor:
    """Return the last row of each row's trajectory, `[R]`; `ends_R` masks the last rows."""
    return torch.where(ends_R, torch.arange(len(ends_R)), len(ends_R)).flip(0).cummin(0).values.flip(0)


def _sum_rewards(reward_R: Tensor, cut_R: Tensor, nstep: int, gamma: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return for each row the last summed row, the sum of gamma^k r_k, and gamma^(number of rewards), each `[R]`.

    At most `nstep` rewards are summed, and none after a row where `cut_R` is True, as it is in the last row.
    """
    nstep = min(nstep, len(reward_R))
    beyond = reward_R.new_zeros(nstep - 1)  # rows after the last one, so that there are n of each
    reward_KR, cut_KR = (torch.cat([row_R, beyond.to(row_R)]).unfold(0, nstep, 1).T for row_R in (reward_R, cut_R))
    discount_K = discounts(gamma, nstep, dtype=torch.float64).float()
    total_R, steps_R = nstep_sums(reward_KR, cut_KR, discount_K)
    return torch.arange(len(reward_R)) + steps_R - 1, total_R, discount_K[steps_R]


def read_dataset(
    path: str,
    data_type: str = "",
    required: Sequence[str] = TRANSITION,
    nstep: int = 1,
    gamma: float = 0.99,
    ignore_done: bool = False,
    action_units: str = "",
    reward_norm: str = "",
    length: int | None = None,
    one_step: bool = False,
) -> OfflineDataset:
    """Read a data set: HDF5, .npz, a directory of .npy files (mapped into memory), or Minari.

    `required` are the columns to read, by our names; `NAMES` lists the names that files may use. Without `data_type`,
    one of 'hdf5', 'npz', 'npy' and 'minari', it is derived from the path. The others are arguments of `OfflineDataset`;
    without `action_units`, the data set's attribute of this name says them. Those of `collect_demo_data` have it, and
    Minari's actions are always in the environment's units.

    With a `length`, it is a `SequenceDataset` of pieces of so many steps, whose rewards are neither summed nor changed.

    Raises:
        DatasetError: see `OfflineDataset`; or the file is missing, is damaged, or lacks a column.
    """
    with open_columns(path, data_type) as file:
        names, sums = _nest(file.names), "reward" in required
        wanted = [name for name in required if name != "next_obs" or _find(names, name)]
        columns = {name: _read(file, names, name, path) for name in wanted}
        if sums and (flag := _find(names, "traj_flag")):
            columns["traj_flag"] = tree_map(file.read, flag)
        if sums and "next_obs" in required and "next_obs" not in columns and "traj_flag" not in columns:
            raise DatasetError(
                f"Data set '{path}' has neither 'next_obs' nor 'traj_flag' nor 'timeouts', so the ends of its "
                f"trajectories are unknown: add one of them (all False if only terminal states end them). {_has(file)}"
            )
        columns |= {flag: file.read(flag) for flag in (PADDING, UNFINISHED) if flag in file.names}
        units = action_units or file.action_units
        if length is not None:
            return SequenceDataset(columns, length, path, units)
        return OfflineDataset(columns, nstep, gamma, path, ignore_done, units, reward_norm, one_step)


def _read(file: Columns, names: dict[str, Any], name: str, path: str) -> Any:
    if not (found := _find(names, name)):
        others = " or ".join(f"'{other}'" for other in NAMES.get(name, ())[1:])
        raise DatasetError(f"Data set '{path}' lacks '{name}'{f' (or {others})' if others else ''}. {_has(file)}")
    return tree_map(file.read, found)


def _has(file: Columns) -> str:
    return f"It has {', '.join(sorted(file.names)) or 'no columns at all'}."


def _find(names: dict[str, Any], name: str) -> Any:
    """Return the file's name of a column, or the nested names of its parts; None if the file does not have it."""
    return next((names[candidate] for candidate in NAMES.get(name, (name,)) if candidate in names), None)


def _nest(names: list[str]) -> dict[str, Any]:
    """Return names such as `obs/camera` as nested dicts, whose leaves are the names. A name `obs` has precedence."""
    nested: dict[str, Any] = {}
    for name in sorted(names, key=lambda name: -name.count("/")):
        *sections, leaf = name.split("/")
        into = nested
        for section in sections:
            into = into.setdefault(section, {})
        into[leaf] = name
    return nested


def _has_form(column: Any, space: gymnasium.Space[Any]) -> bool:
    """Return whether a column has the shapes of a space, and no floats where it has none."""
    if isinstance(space, Dict):
        return isinstance(column, dict) and all(
            name in column and _has_form(column[name], space[name]) for name in space
        )
    if not isinstance(column, Tensor) or tuple(column.shape[1:]) != (space.shape or ()):
        return False
    return not column.is_floating_point() or np.dtype(space.dtype).kind == "f"


def _take(column: Any, row_B: Tensor, out: Any = None) -> Any:
    if out is None:
        return tree_map(lambda leaf: leaf.index_select(0, row_B), column)
    return tree_map(lambda leaf, into: torch.index_select(leaf, 0, row_B, out=into), column, out)


def _describe(column: Any) -> str:
    leaves = sorted(flatten(column)) if isinstance(column, dict) else [("", column)]
    return ", ".join(f"{name} {list(leaf.shape[1:])}".strip() for name, leaf in leaves)
