"""A vector environment in whose `info` the values of a key may have different types or shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv


class MixedInfos(VectorEnv):
    """gymnasium's batching of infos, for values of a key that have different types or shapes.

    gymnasium's array has the type and shape of the first value. It becomes an array of objects if another value does
    not fit.
    """

    def _add_info(self, vector_infos: dict[str, Any], env_info: dict[str, Any], env_num: int) -> dict[str, Any]:
        if not env_info:
            return vector_infos
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
