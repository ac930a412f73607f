"""The parameters of the networks that DI-engine trains by its own config files; run with the interpreter of its own.

    $PEER_DI_ENGINE_PYTHON tests/benchmarks/peer_networks.py DIZOO

DIZOO is the folder `dizoo` of DI-engine. A dict is printed, as JSON: by the path of each file below DIZOO the name of
its policy, and the number of its model's parameters, or what prevents that. `di_engine_networks` compares it with ours.
"""

from __future__ import annotations

import json
import runpy
import sys
import warnings
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any


def count_parameters(path: Path) -> tuple[str, int]:
    """Return the name of a config file's policy, and the number of its model's parameters."""
    from ding.model import DecisionTransformer
    from ding.utils import POLICY_REGISTRY, deep_merge_dicts, import_module

    variables = runpy.run_path(str(path))
    main, create = variables["main_config"], variables["create_config"]
    with suppress(ImportError):  # some of these modules do not exist
        import_module(create["policy"].get("import_names", []))
    name = create["policy"]["type"]
    policy_cls = POLICY_REGISTRY.get(name)
    policy = object.__new__(policy_cls)  # without its optimizers
    policy._cfg = deep_merge_dicts(policy_cls.default_config(), main["policy"])
    model_cfg = policy._cfg.model
    # the programs for 'dt' create the model themselves: the module that the policy names does not exist
    model = DecisionTransformer(**model_cfg) if name == "dt" else policy._create_model(policy._cfg, None)
    return name.removesuffix("_command"), sum(parameter.numel() for parameter in model.parameters())


def main() -> None:
    """Print what all files give."""
    warnings.simplefilter("ignore")
    dizoo = Path(sys.argv[1]).resolve()
    sys.path.append(str(dizoo.parent))
    import numpy as np

    if not hasattr(np, "bool8"):  # gym 0.25 still asks for it
        np.bool8 = np.bool_  # type: ignore[attr-defined]
    import ding.policy  # noqa: F401  # registers all policies

    told: dict[str, Any] = {}
    with redirect_stdout(sys.stderr):
        for path in sorted(dizoo.rglob("*_config.py")):
            try:
                told[str(path.relative_to(dizoo))] = count_parameters(path)
            except Exception as error:  # whatever is wrong with one file, the others are counted
                told[str(path.relative_to(dizoo))] = f"{type(error).__name__}: {error}"
    print(json.dumps(told))


if __name__ == "__main__":
    main()
