"""Types that `create_config` names in DI-engine, and their names here."""

from __future__ import annotations

from typing import Any

from ding_lite.utils.key import show
from ding_lite.utils.registry import ConfigError

# Other names of types and optimizers, and the name used here; with an empty buffer type, policy.priority determines it.
NAMES: dict[str, dict[str, str]] = {
    "env_manager": {
        "base_v2": "base",
        **dict.fromkeys(("async_subprocess", "gym_vector", "subprocess_v2"), "subprocess"),
    },
    "policy": {"cql_discrete": "discrete_cql", "ppg_offpolicy": "ppg", "sqil_sac": "sac"},
    "replay_buffer": dict.fromkeys(("advanced", "deque", "naive"), ""),
    "optimizer": {"SGD": "sgd", "Adam": "adam", "AdamW": "adamw"},
}


def rename_type(part: str, name: Any, path: str, notes: list[str]) -> Any:
    """Return the name that a type of `create_config` has here, see `NAMES`; a note says so if it is another one."""
    if not isinstance(name, str):
        if part == "policy":  # a better message follows
            return name
        raise ConfigError(f"{path}: expected a name, got {show(name)}.")
    short = name.removesuffix("_command") if part == "policy" else name
    own = NAMES[part].get(short, short)
    if own != name:
        meaning = f"'{own}' here" if own else "the policy's own buffer here"
        if name == "naive":  # DI-engine's buffer that ignores priorities; the other types have them there too
            meaning += ", which draws by priority if policy.priority is True"
        notes.append(f"{path} '{name}' is {meaning}.")
    return own
