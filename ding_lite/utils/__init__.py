"""Registry, distributed, experiment files, logging: what every layer above may use.

Names are resolved on first use, so that environment worker processes, which need only the registry, never load torch.
"""

from __future__ import annotations

import importlib
from typing import Any

_EXPORTS = {
    "registry": (
        "BUFFER_REGISTRY",
        "ENV_REGISTRY",
        "MODEL_REGISTRY",
        "POLICY_REGISTRY",
        "ConfigError",
        "Registry",
        "UserError",
        "closest",
    ),
    "distributed": (
        "FlatParameters",
        "all_gather_object",
        "allreduce_data",
        "broadcast_module",
        "broadcast_object_list",
        "to_ddp_config",
    ),
    "checkpoint": ("CheckpointError", "load_checkpoint", "save_checkpoint"),
    "checkpoint_store": ("CheckpointStore",),
    "experiment": ("open_exp_dir",),
    "interrupt": ("InterruptGuard",),
    "launch": ("DDPContext", "get_local_rank", "get_rank", "get_world_size"),
    "logger": ("ExperimentLogger",),
    "progress": ("Progress",),
    "tree": ("tree_map",),
    "seed": ("random_state", "set_random_state", "set_seed"),
}
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names}
__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
