"""Vector environments in gymnasium's SAME_STEP mode, built from a config.

No module here imports torch, because the processes of environments import them. A mistake in the
config raises `ConfigError`; an environment that fails during a run, `EnvError`. Messages are one line.
"""

from typing import TYPE_CHECKING

from ding_lite.lazy import lazy_names

if TYPE_CHECKING:
    from ding_lite.envs.builders import make_gymnasium as make_gymnasium
    from ding_lite.envs.episode_monitor import EpisodeMonitor as EpisodeMonitor
    from ding_lite.envs.keys import ENV_DEFAULTS as ENV_DEFAULTS
    from ding_lite.envs.last_step import LastStep as LastStep
    from ding_lite.envs.returned import EnvError as EnvError
    from ding_lite.envs.spaces import EnvSpec as EnvSpec
    from ding_lite.envs.vector_env import check_env as check_env
    from ding_lite.envs.vector_env import create_vector_env as create_vector_env
    from ding_lite.utils.seed import derive_seeds as derive_seeds
else:
    __all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
