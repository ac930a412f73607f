"""Record demonstrations of MiniGrid's MultiRoom, played on the shortest way to the goal.

    python -m dizoo.minigrid.record_multiroom CONFIG DATA.npz [EPISODES]

The observations are those of the config's environment. The way is found in the whole grid, which no agent sees.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import Any

import numpy as np

from ding_lite.config import compile_config, read_pair
from dizoo.minigrid.envs.minigrid_env import MiniGridEnv

LEFT, RIGHT, FORWARD, TOGGLE = 0, 1, 2, 5  # actions of MiniGrid
STEPS = ((1, 0), (0, 1), (-1, 0), (0, -1))  # of the four directions


def find_way(room: Any) -> list[int]:
    """Return the actions from where the agent is to the goal."""
    start = (*room.agent_pos, room.agent_dir)
    ways, queue = {start: list[int]()}, deque([start])
    while queue:
        x, y, direction = place = queue.popleft()
        if (cell := room.grid.get(x, y)) is not None and cell.type == "goal":
            return ways[place]
        moves = [((x, y, (direction - 1) % 4), [LEFT]), ((x, y, (direction + 1) % 4), [RIGHT])]
        x, y = x + STEPS[direction][0], y + STEPS[direction][1]
        cell = room.grid.get(x, y)
        if cell is None or cell.type in ("goal", "door"):
            closed = cell is not None and cell.type == "door" and not cell.is_open
            moves.append(((x, y, direction), [TOGGLE] * closed + [FORWARD]))
        for following, actions in moves:
            if following not in ways:
                ways[following] = ways[place] + actions
                queue.append(following)
    raise ValueError("no way leads to the goal")


def record(config: str, data_path: str, episodes: int = 10) -> None:
    """Write the steps of these episodes, with the columns of `collect_demo_data`."""
    env, rows = MiniGridEnv(compile_config(read_pair(config)).env), list[tuple[Any, ...]]()
    for seed in range(episodes):
        obs, _ = env.reset(seed=seed)
        for action in find_way(env.unwrapped):
            following, reward, terminated, truncated, _ = env.step(action)
            rows.append((obs, action, reward, following, terminated, terminated or truncated))
            obs = following
        assert terminated, "the way does not end at the goal"
    names = ("obs", "action", "reward", "next_obs", "done", "traj_flag")
    columns: dict[str, Any] = {
        name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)
    }
    columns["reward"] = columns["reward"].astype(np.float32)
    np.savez(data_path, **columns)
    print(f"{len(rows)} steps, mean return {columns['reward'].sum() / episodes:.2f}")


if __name__ == "__main__":
    record(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
