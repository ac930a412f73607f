"""Vector environments in gymnasium's SAME_STEP mode, built from a config."""

from ding_lite.envs.builders import make_gymnasium
from ding_lite.envs.episode_monitor import EpisodeMonitor
from ding_lite.envs.keys import ENV_DEFAULTS
from ding_lite.envs.returned import EnvError
from ding_lite.envs.seeded_env import derive_seeds
from ding_lite.envs.spaces import EnvSpec
from ding_lite.envs.vector_env import check_env, create_vector_env

__all__ = [
    "ENV_DEFAULTS",
    "EnvError",
    "EnvSpec",
    "EpisodeMonitor",
    "check_env",
    "create_vector_env",
    "derive_seeds",
    "make_gymnasium",
]
