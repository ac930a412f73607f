"""The game Moving-v0 of gym-hybrid: drive to a target and stop there, with hybrid actions."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from easydict import EasyDict
from gymnasium.spaces import Box, Dict, Discrete

from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY

ACCELERATE, TURN, BRAKE = range(3)  # action types; the first two have an argument each
MAX_ACCELERATION, MAX_TURN, BRAKING = 0.5, np.pi / 2, 0.1  # change of the speed; radians; change of the speed
STEP_TIME, MAX_STEPS = 0.005, 200
FIELD_SIZE, TARGET_RADIUS, PENALTY = 1.0, 0.1, 0.001


@ENV_REGISTRY.register("gym_hybrid")
class GymHybridEnv(gymnasium.Env):
    """A vehicle in a square from -1 to 1 accelerates (by 0 to 0.5), turns (by -90 to 90 degrees) or brakes.

    Each step is worth the distance by which the vehicle has come closer to the target, minus 0.001. Standing still
    within 0.1 of the target is worth 1 more and ends the episode. Leaving the square, or running out of time after 200
    steps, ends it with a reward of -1. Both are terminal states, because the observation contains the time. The best
    return is about 1 plus the distance at the start, on average about 2.

    An observation has 10 numbers: position (2), speed, cosine and sine of the direction, position of the target (2),
    distance to it, 1 within its radius or else 0, and the share of the time that has passed.
    """

    config: ClassVar = dict(
        env_id=Key("Moving-v0", "the game", choices=("Moving-v0",)),
    )

    def __init__(self, cfg_env: EasyDict) -> None:
        self.observation_space = Box(-np.inf, np.inf, (10,), np.float32)
        arguments = Box(np.array([0.0, -1.0], np.float32), np.array([1.0, 1.0], np.float32))
        self.action_space = Dict({"action_type": Discrete(3), "action_args": arguments})

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Place a vehicle at rest, and a target, at random."""
        super().reset(seed=seed)
        limit = FIELD_SIZE - TARGET_RADIUS
        self._target = self.np_random.uniform(-limit, limit, 2)
        self._place = self.np_random.uniform(-FIELD_SIZE, FIELD_SIZE, 2)
        self._angle = self.np_random.uniform(0.0, 2 * np.pi)
        self._speed, self._steps = 0.0, 0
        return self._observation(), {}

    def step(self, action: dict[str, Any]) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Apply an action, then move for one time step."""
        before = self._distance()
        kind, arguments = int(action["action_type"]), action["action_args"]
        if kind == ACCELERATE:
            self._speed += MAX_ACCELERATION * float(arguments[ACCELERATE])
        elif kind == TURN:
            self._angle = (self._angle + MAX_TURN * float(arguments[TURN])) % (2 * np.pi)
        else:
            self._speed = max(self._speed - BRAKING, 0.0)
        self._place = self._place + STEP_TIME * self._speed * self._direction()
        self._steps += 1
        arrived = self._distance() < TARGET_RADIUS and self._speed == 0.0
        if not arrived and (np.abs(self._place).max() > FIELD_SIZE or self._steps >= MAX_STEPS):
            return self._observation(), -1.0, True, False, {}
        reward = before - self._distance() - PENALTY + arrived
        return self._observation(), reward, arrived, False, {}

    def _direction(self) -> np.ndarray:
        return np.array([np.cos(self._angle), np.sin(self._angle)])

    def _distance(self) -> float:
        return float(np.linalg.norm(self._place - self._target))

    def _observation(self) -> np.ndarray:
        distance = self._distance()
        last = (distance, float(distance < TARGET_RADIUS), self._steps / MAX_STEPS)
        return np.array([*self._place, self._speed, *self._direction(), *self._target, *last], np.float32)
