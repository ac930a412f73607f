"""Environments that step one after the other in this process, and the batching of their infos.

N is the number of environments.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
from gymnasium.vector import SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import iterate

from ding_lite.envs.seeded_env import step_or_restart
from ding_lite.utils.tree import write_row


class MixedInfos(VectorEnv):
    """gymnasium's batching of infos, for values of a key that have different types or shapes.

    gymnasium's array has the type and shape of the first value. It becomes an array of objects if another value does
    not fit.
    """

    def _add_info(self, vector_infos: dict[str, Any], env_info: dict[str, Any], env_num: int) -> dict[str, Any]:
        try:
            return super()._add_info(vector_infos, env_info, env_num)
        except (TypeError, ValueError, OverflowError):
            for key, value in env_info.items():  # one at a time: the error skipped the keys after its own
                try:
                    super()._add_info(vector_infos, {key: value}, env_num)
                except (TypeError, ValueError, OverflowError):
                    objects = np.full(self.num_envs, None, object)
                    for i in np.flatnonzero(vector_infos.get(f"_{key}", ())).tolist():
                        objects[i] = vector_infos[key][i]
                    vector_infos[key] = objects
                    super()._add_info(vector_infos, {key: value}, env_num)
            return vector_infos


class SameProcessVectorEnv(MixedInfos, SyncVectorEnv):
    """gymnasium's vector environment of the manager 'base', with a faster step of the mode SAME_STEP."""

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take one step in every environment; see the contract in `vector_env`."""
        rows: list[Any] = []
        infos: dict[str, Any] = {}
        for i, (env, action) in enumerate(zip(self.envs, iterate(self.action_space, actions), strict=True)):
            obs, *flags, info = step_or_restart(env, action)
            write_row(self._observations, i, obs)
            self._env_obs[i] = obs  # gymnasium's `reset` of other environments writes this array again
            rows.append(flags)
            infos = self._add_info(infos, info, i) if info else infos
        reward_N, terminated_N, truncated_N = map(np.array, zip(*rows, strict=True))
        return self._observations, reward_N, terminated_N, truncated_N, infos

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of each environment to a value of its own, as in separate processes."""
        values = values if isinstance(values, list | tuple) else [values] * self.num_envs
        super().set_attr(name, [deepcopy(value) for value in values])
