"""Whether DI-engine's config files train networks of the same size here, after their package has another name.

    PEER_DI_ENGINE_PYTHON=... python -m tests.benchmarks.di_engine_networks DIZOO

DIZOO is the folder `dizoo` of DI-engine. Nothing is trained, and no environment is needed: the shapes are those that
the files give. Numbers of parameters must be equal, or the policy must have a row in the section "Networks that differ"
of docs/from_di_engine.md; a row that no file needs is an error too. What the section says of all policies is not
counted: the number of the agent (compared with `model.agent_id=False`) and the embeddings of ST-DIM.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from ding_lite.config import compile_config, read_pair
from ding_lite.config.schema import REQUIRED, model_options
from ding_lite.utils.registry import POLICY_REGISTRY, UserError
from tests.benchmarks.di_engine_configs import NO_ENVIRONMENT, rename_package, with_cartpole

PAGE = Path(__file__).resolve().parents[2] / "docs" / "from_di_engine.md"


def count_parameters(path: Path) -> int:
    """Return the number of parameters of a config file's model.

    Raises:
        UserError: it does not compile, or its shapes are not given.
    """
    main, create = read_pair(path)
    try:
        cfg = compile_config((main, create))
    except UserError as error:
        if not str(error).startswith(NO_ENVIRONMENT):
            raise
        cfg = compile_config(with_cartpole(main, create))
    policy_cls = POLICY_REGISTRY.find(cfg.policy.type)
    options, model = model_options(policy_cls, cfg, {}), cfg.policy.model
    given = main["policy"].get("model", {})
    # what the environment would say
    stated = {
        "agent_num": main["policy"].get("agent_num"),
        "action_space": "continuous" if given.get("continuous") else "discrete",
    }
    for name, value in stated.items():
        option = options.get(f"policy.model.{name}")
        if option is not None and option.default is REQUIRED:
            model.setdefault(name, value)
    if "policy.model.agent_id" in options:
        model.agent_id = False
    policy: Any = object.__new__(policy_cls)  # without its optimizers
    policy._cfg = cfg.policy
    network = policy._create_model()
    return sum(part.numel() for name, part in network.named_parameters() if not name.startswith("aux_model."))


def count_all(dizoo: Path) -> dict[str, int | str]:
    """Return the number of parameters of every file's model, or what is wrong with the file."""
    told: dict[str, int | str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(dizoo.rglob("*_config.py")):
            name = str(path.relative_to(dizoo))
            try:
                told[name] = count_parameters(rename_package(path, Path(folder, name)))
            except (UserError, TypeError) as error:  # TypeError: a shape is missing
                told[name] = str(error)
    return told


def listed_policies() -> set[str]:
    """Return the policies whose networks differ, by docs/from_di_engine.md."""
    section = PAGE.read_text(encoding="utf-8").partition("## Networks that differ")[2].partition("\n## ")[0]
    return set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`[^|]*) \|", section, re.M))))


def main() -> None:
    """Print the files whose networks differ, and how many are equal; status 1 if one differs that is not listed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dizoo", type=Path)
    dizoo, interpreter = parser.parse_args().dizoo, os.environ.get("PEER_DI_ENGINE_PYTHON")
    if not dizoo.is_dir() or not interpreter:
        parser.error("give the folder dizoo of DI-engine, and set PEER_DI_ENGINE_PYTHON to its interpreter.")
    warnings.simplefilter("ignore")
    peer = str(Path(__file__).with_name("peer_networks.py"))
    with tempfile.TemporaryDirectory() as folder:
        command = [interpreter, peer, str(dizoo.resolve())]
        done = subprocess.run(command, stdout=subprocess.PIPE, cwd=folder, check=True, text=True)
    theirs, ours, listed = json.loads(done.stdout.splitlines()[-1]), count_all(dizoo), listed_policies()
    found: Counter[str] = Counter()
    differing = set()
    for name, own in ours.items():
        if isinstance(own, str) or isinstance(theirs[name], str):
            found["compiles here, but a side builds no model"] += isinstance(own, int)
            continue
        policy, number = theirs[name]
        if own == number:
            found["equal"] += 1
            continue
        differing.add(policy)
        found["listed" if policy in listed else "NOT LISTED"] += 1
        print(f"{name}: {policy} has {number} parameters, {own} here{'' if policy in listed else ': NOT LISTED'}")
    for policy in sorted(listed - differing):
        print(f"{policy} is listed, but no file's network differs")
    print(dict(found))
    sys.exit(bool(found["NOT LISTED"] or listed - differing))


if __name__ == "__main__":
    main()
