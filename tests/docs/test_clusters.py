"""The files for clusters are YAML, and torchrun and our command line understand the commands in them."""

from __future__ import annotations

import os
import re
import shlex

import pytest
from torch.distributed.run import get_args_parser

from ding_lite.cli.parsers import load_command, parse
from tests.docs.test_docs import BLOCK, ROOT

yaml = pytest.importorskip("yaml")
FILES = [
    yaml.safe_load(body) for kind, body in BLOCK.findall((ROOT / "docs/clusters.md").read_text()) if kind == "yaml"
]
KUBERNETES, SKYPILOT = FILES


@pytest.mark.parametrize(
    "words",
    [
        [*KUBERNETES["spec"]["trainer"]["command"], *KUBERNETES["spec"]["trainer"]["args"]],
        shlex.split(re.sub(r"\$\(.*?\)", "machine", SKYPILOT["run"]).replace("\\\n", "")),
    ],
    ids=["kubernetes", "skypilot"],
)
def test_torchrun_and_ding_lite_understand_the_command_of_a_file(words: list[str]) -> None:
    assert words[0] == "torchrun"
    launcher = get_args_parser().parse_args([word.replace("$SKYPILOT_NODE_RANK", "0") for word in words[1:]])
    assert (launcher.module, launcher.training_script) == (True, "ding_lite")
    name, *words = launcher.training_script_args
    args = parse(name, load_command(name), words)
    assert args.divide
    assert args.goes_on
    assert os.path.isfile(ROOT / args.config)


def test_both_files_ask_for_the_same_machines() -> None:
    trainer = KUBERNETES["spec"]["trainer"]
    assert trainer["numNodes"] == SKYPILOT["num_nodes"]
    assert f"--nproc_per_node={trainer['numProcPerNode']} " in SKYPILOT["run"]
