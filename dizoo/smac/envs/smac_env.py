"""The maps of SMAC (Samvelyan et al. 2019, arXiv:1902.04043), played by SMAClite, which needs no StarCraft II.

SMAClite (Michalski et al. 2023, arXiv:2305.05566) is SMAC in Python. It is not on PyPI; `INSTALL` tells how to get it.

Shapes: M agents, E enemies, A actions, F features of what an agent observes, G features of the global state, D features
of a unit.
"""

from __future__ import annotations

from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from typing import Any, ClassVar

import gymnasium
import numpy as np
from easydict import EasyDict
from gymnasium.spaces import Box, Dict, MultiBinary, MultiDiscrete

from ding_lite.envs.wrappers import TRUE_REWARD
from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY, ConfigError, closest

# Without its dependencies, because it asks for a version of Rtree that newer versions of Python do not have.
INSTALL = (
    "pip install scikit-learn rtree pygame-ce, then pip install --no-deps git+https://github.com/uoe-agents/smaclite"
)
SIGHT = 9.0  # how far an agent sees
OTHERS = 6  # actions that have no target: none, stop, four moves
# SMAC's limits of env steps.
LIMITS = {
    "2s3z": 120, "3s5z": 150, "3s5z_vs_3s6z": 170, "3s_vs_5z": 250, "2s_vs_1sc": 300, "2c_vs_64zg": 400, "MMM": 150,
    "MMM2": 180, "corridor": 400, "bane_vs_bane": 200, "3m": 60, "8m": 120, "25m": 150, "5m_vs_6m": 70, "8m_vs_9m": 120,
    "10m_vs_11m": 150, "27m_vs_30m": 180,
}  # fmt: skip
# Maps that SMAClite lacks: marines, where its 10m_vs_11m and 27m_vs_30m have theirs.
MARINES = {"3m": (3, 3), "8m": (8, 8), "25m": (25, 25), "5m_vs_6m": (5, 6), "8m_vs_9m": (8, 9)}


@ENV_REGISTRY.register("smac")
class SMACEnv(gymnasium.Env):
    """A team of units, an agent each, against the game's own; as in DI-engine, the return is 1 for a victory, else 0.

    `agent_state` `[M, F]` is what SMAC shows to an agent, its last action and its number. `global_state` is SMAC's,
    `[G]`, or with `special_global_state` all living units as each agent sees them, `[M, G]`. The reward that is learned
    from is SMAC's: damage, kills and the victory, at most 20 in sum. SMAC's limit of env steps truncates.

    Raises:
        ConfigError: SMAClite is not installed, or there is no such map.
    """

    config: ClassVar = dict(
        map_name=Key("3s5z", "name of the map"),
        agent_num=Key(None, "not read: the map sets it", type=int),
        special_global_state=Key(False, "global_state is `[M, G]`: the whole state, as each agent sees it"),
        death_mask=Key(False, "such a state of a dead agent holds nothing but its number"),
        difficulty=Key(7, "strength of the enemy, which SMAClite has only one of", choices=(7,)),
        reward_only_positive=Key(True, "losses cost nothing", choices=(True,)),
        mirror_opponent=Key(False, "the enemy is not a policy", choices=(False,)),
    )

    def __init__(self, cfg_env: EasyDict) -> None:
        name = cfg_env.map_name
        try:
            from smaclite.env import SMACliteEnv  # noqa: PLC0415  # an optional package
            from smaclite.env.maps.map import MapPreset  # noqa: PLC0415
        except ImportError as error:
            raise ConfigError(f"env.type='smac' needs SMAClite ({error}): {INSTALL}.") from error
        if name not in LIMITS:
            raise ConfigError(
                f"env.map_name: expected one of {', '.join(LIMITS)}, got {name!r}.{closest(name, LIMITS)}"
            )
        maps = {preset.value.name: preset.value for preset in MapPreset}
        field = maps["10m_vs_11m"] if name in MARINES else maps[name]
        if name in MARINES:
            sizes = MARINES[name]
            groups = zip(field.groups, sizes, strict=True)
            units = [replace(group, units=[(group.units[0][0], size)]) for group, size in groups]
            field = replace(field, name=name, groups=units, num_allied_units=sizes[0], num_enemy_units=sizes[1])
        with redirect_stdout(StringIO()):  # it prints a line
            self._game: Any = SMACliteEnv(map_info=field, **cfg_env.kwargs)
        self._limit, self._steps, self._won = LIMITS[name], 0, 0.0
        self._special, self._death_mask = cfg_env.special_global_state, cfg_env.death_mask
        self.metadata = {"max_episode_steps": self._limit}
        num, options = self._game.n_agents, self._game.n_actions
        self.action_space = MultiDiscrete([options] * num)
        seen, _ = self._game.reset(seed=0)
        shapes = {key: part.shape for key, part in self._observe(seen).items()}
        self.observation_space = Dict(
            agent_state=Box(-np.inf, np.inf, shapes["agent_state"], np.float32),
            global_state=Box(-np.inf, np.inf, shapes["global_state"], np.float32),
            action_mask=MultiBinary((num, options)),
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Start a battle."""
        super().reset(seed=seed)
        self._steps = 0
        self._game.last_actions[:] = 0  # the game itself keeps those of the battle before
        seen, _ = self._game.reset(seed=int(self.np_random.integers(2**31)))
        return self._observe(seen), {TRUE_REWARD: self._won}  # of the newest step, see `TrueRewards`

    def step(self, action: np.ndarray) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """Play one action of each agent."""
        self._steps += 1
        seen, reward, over, _, info = self._game.step(action.tolist())
        self._won = float(info["battle_won"])
        truncated = not over and self._steps >= self._limit
        return self._observe(seen), float(reward), over, truncated, {TRUE_REWARD: self._won}

    def close(self) -> None:
        """Close the window, if there is one."""
        self._game.close()

    def _observe(self, seen: tuple[np.ndarray, ...]) -> dict[str, np.ndarray]:
        game = self._game
        mask_MA, state_G = np.array(game.get_avail_actions(), np.int8), game.get_state()
        ally_MD, rest = np.split(state_G, [game.n_agents * game.ally_state_feat_size])
        enemy_ED = rest[: game.n_enemies * game.enemy_state_feat_size].reshape(game.n_enemies, -1)
        ally_MD = ally_MD.reshape(game.n_agents, -1)
        alive_M1 = ally_MD[:, :1] > 0
        last_MA = game.last_actions.reshape(game.n_agents, -1)
        state_MF = np.concatenate([np.stack(seen), last_MA * alive_M1, np.eye(game.n_agents)], 1, dtype=np.float32)
        if self._special:
            state_G = self._as_seen(ally_MD, enemy_ED, last_MA, mask_MA)
        return {"agent_state": state_MF, "global_state": state_G.astype(np.float32), "action_mask": mask_MA}

    def _as_seen(
        self, ally_MD: np.ndarray, enemy_ED: np.ndarray, last_MA: np.ndarray, mask_MA: np.ndarray
    ) -> np.ndarray:
        """Return DI-engine's `special_global_state` `[M, G]`: other agents, enemies, itself and its number.

        Args:
            ally_MD: health, weapon's cooldown, position (2), shield and kind of each agent; zeros of a dead one.
            enemy_ED: the same of the enemies, without cooldown.
            last_MA: the last actions, as zeros and ones.
            mask_MA: the actions that are possible.
        """
        num, size = len(ally_MD), np.array([self._game.map_info.width, self._game.map_info.height])
        own_shield, other_shield = self._game.map_info.ally_has_shields, self._game.map_info.enemy_has_shields
        alive_M = ally_MD[:, 0] > 0

        def sight(place_K2: np.ndarray) -> np.ndarray:
            """Return whether an agent sees a unit, its distance and its relative position, `[M, K, 4]`."""
            way = (place_K2 - ally_MD[:, None, 2:4]) * size / SIGHT
            far = np.linalg.norm(way, axis=-1, keepdims=True)
            return np.concatenate([far < 1, far, way], -1) * alive_M[:, None, None]

        health, place, kind = ally_MD[:, [0, *[4] * own_shield]], ally_MD[:, 2:4], ally_MD[:, 4 + own_shield :]
        each = np.concatenate([health, place, kind, last_MA], 1)
        shown = np.concatenate([ally_MD[:, 1:2], each], 1) * alive_M[:, None]
        allies = np.concatenate([sight(place) * alive_M[:, None], np.tile(shown, (num, 1, 1))], -1)
        allies = allies[~np.eye(num, dtype=bool)].reshape(num, -1)
        place, alive_E1 = enemy_ED[:, 1:3], enemy_ED[:, :1] > 0
        seen = sight(place)
        shown = np.concatenate([enemy_ED[:, [0, *[3] * other_shield]], enemy_ED[:, 3 + other_shield :], place], 1)
        target = mask_MA[:, OTHERS : OTHERS + len(enemy_ED), None]
        enemies = np.concatenate([target, seen[..., 1:], seen[..., :1], np.tile(shown, (num, 1, 1))], -1) * alive_E1
        itself = np.concatenate([np.tile([1, 0, 0, 0], (num, 1)), each], 1)
        rows = np.concatenate([allies, enemies.reshape(num, -1), itself], 1)
        if self._death_mask:
            rows = rows * alive_M[:, None]
        return np.concatenate([rows, np.eye(num)], 1)
