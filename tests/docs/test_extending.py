"""The code of docs/extending.md and of the ensemble's page, run as it stands: each example trains on two processes."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

from ding_lite.cli import main as cli
from ding_lite.policy import Policy
from ding_lite.utils.registry import POLICY_REGISTRY
from tests.distributed.launcher import run_ranks, say
from tests.docs.test_docs import ROOT, blocks
from tests.policy.helpers import make_batch, make_cfg, parameter_hash

PAGE = ROOT / "docs" / "extending.md"
SECTIONS = {
    match["title"]: match["text"]
    for match in re.finditer(r"^## (?P<title>.*)\n(?P<text>(?:(?!^## ).*\n?)*)", PAGE.read_text(), re.M)
}
ENSEMBLE = ROOT / "docs" / "tutorials" / "ensemble_of_critics.md"
EXAMPLES = {**{title: (PAGE, text) for title, text in SECTIONS.items()}, "Ensemble": (ENSEMBLE, ENSEMBLE.read_text())}
# Mean evaluation returns that chance does not reach. CartPole at random: 22. The point, 1 away in the mean, left there
# for 20 steps: -20. Pendulum at random: -1,200.
ABOVE_CHANCE = {
    "Another loss for DQN": 35,
    "PPO on mirrored samples": 50,
    "A policy from scratch": 35,
    "An algorithm with another model": -400,
    "An environment": -8,
    "A model": 35,
    "An encoder": 35,
    "A reward model": 35,
    "Ensemble": -900,
}
TORCHRUN = ["torchrun", "--nproc_per_node=2", "-m", "ding_lite"]


def write_files(page: Path, folder: Path, within: str | None = None) -> list[str]:
    """Write the python blocks of a page, or of a part of its text, under the names in their first lines."""
    names = []
    for text in blocks(page, "python"):
        if within is None or text in within:
            name = text.partition("\n")[0].removeprefix("# ")
            assert re.fullmatch(r"\w+\.py", name), f"{page.name}: a block begins with '{name}', not with '# name.py'"
            (folder / name).write_text(text)
            names.append(name)
    return names


def train(words: list[str], folder: Path, timeout: float = 280) -> tuple[dict[str, Any], list[str]]:
    """Run `ding_lite` with these words on two ranks; return result.json and the hash of each rank's model."""
    done = run_ranks(["-m", "tests.docs.test_extending", *words], timeout=timeout, cwd=folder)
    (result,) = folder.glob("*/result.json")
    return json.loads(result.read_text()), re.findall(r"^model of a rank: (\w+)$", done.stdout, re.M)


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("title", EXAMPLES)
def test_an_example_trains_on_two_processes_to_equal_models(title: str, whole: bool, tmp_path: Path) -> None:
    page, text = EXAMPLES[title]
    names = write_files(page, tmp_path, text)
    (command,) = re.findall(r"^```sh\n(.*)\n```$", text, re.M)
    words = shlex.split(command)
    assert words[:4] == TORCHRUN
    assert len(names) >= 2  # the example, its config, and variants of it
    assert names[1] in words
    (limit,) = (int(word.partition("=")[2]) for word in words if word.startswith("max_env_step="))
    shorter = {"Ensemble": 440, "An algorithm with another model": 560}  # a first batch of each rank, and some more
    limit = limit if whole else shorter.get(title, 320)
    result, hashes = train([*words[4:], f"max_env_step={limit}"], tmp_path)
    assert result["stop_reason"] == "max_env_step"
    assert result["envstep"] >= limit
    assert result["train_iter"] > 0
    assert not whole or result["eval_return_best"] > ABOVE_CHANCE[title]
    assert len(hashes) == 2
    assert hashes[0] == hashes[1]


def test_the_first_loss_is_a_function_of_its_batch_with_noisy_layers_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(POLICY_REGISTRY, "data", dict(POLICY_REGISTRY.data))
    write_files(PAGE, tmp_path, SECTIONS["Another loss for DQN"])
    policy = run_path(str(tmp_path / "huber_dqn.py"))["HuberDQNPolicy"](make_cfg("noisy_net=True", kind="huber_dqn"))
    batch = policy._ready(make_batch(8))
    assert policy._loss(batch)[0] == policy._loss(batch)[0]
    assert policy._loss(batch)[0] != policy._loss(batch | {"noise": policy._draw_noise(batch)})[0]


def test_every_section_of_the_page_is_an_example() -> None:
    assert list(EXAMPLES) == list(ABOVE_CHANCE)
    assert sum(text.count("```python") for text in SECTIONS.values()) == len(blocks(PAGE, "python"))


def main() -> None:
    """Run the command line, and say what the model has become: what each rank does."""
    policies: list[Policy] = []
    original = Policy.__init__

    def remember(self: Policy, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        policies.append(self)

    Policy.__init__ = remember  # type: ignore[method-assign]
    cli.main(sys.argv[1:])
    (policy,) = policies
    say(f"model of a rank: {parameter_hash(policy.model)}")


if __name__ == "__main__":
    main()
