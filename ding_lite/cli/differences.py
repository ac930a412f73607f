"""Which keys of a compiled config differ from the defaults."""

from __future__ import annotations

from typing import Any

from easydict import EasyDict

from ding_lite.entry.setup import prepare_run
from ding_lite.utils.tree import dotted_items

PARTS = ("env", "policy", "reward_model")
TYPES = ("policy.model.type", "policy.other.replay_buffer.type", "policy.model.encoder.type")


def changed_keys(cfg: EasyDict) -> dict[str, tuple[Any, Any]]:
    """Return the default and the value of each key that differs from the default.

    Defaults are those of a config that names the same environment, policy and reward model, and nothing else.

    Args:
        cfg: the compiled config of `prepare_run`.
    """
    create: dict[str, Any] = {
        part: {key: cfg[part][key] for key in ("type", "import_names")} for part in PARTS if part in cfg
    }
    create["env_manager"] = {"type": cfg.env.manager.type}
    values = _values(cfg)
    overrides = [f"{path}={values[path]}" for path in TYPES if values.get(path)]
    plain = prepare_run(({"env": {"env_id": cfg.env.env_id}}, create), overrides=overrides, all_ranks=False).cfg
    defaults = _values(plain)
    return {path: (defaults.get(path), value) for path, value in values.items() if defaults.get(path) != value}


def _values(cfg: EasyDict) -> dict[str, Any]:
    return {path: value for path, value in dotted_items(cfg) if path != "notes"}
