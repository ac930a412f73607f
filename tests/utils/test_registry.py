"""Names to classes, and messages of one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ding_lite.utils.registry import ConfigError, Registry, UserError, load_extra, place_of


@pytest.fixture
def animals() -> Registry:
    registry = Registry("animal")
    registry.register("cat")(type("Cat", (), {"__module__": "zoo"}))
    return registry


def test_an_unknown_name_names_the_closest_one(animals: Registry) -> None:
    with pytest.raises(ConfigError) as error:
        animals.find("cats")
    assert str(error.value) == "Unknown animal type 'cats'. Did you mean 'cat'? Registered: cat."
    with pytest.raises(ConfigError, match=r"^Unknown animal type '\['cat'\]'\."):
        animals.find(["cat"])  # type: ignore[arg-type]  # what a config says may be anything


def test_a_name_that_none_is_similar_to_may_be_of_a_module_that_was_not_imported() -> None:
    with pytest.raises(ConfigError) as error:
        Registry("animal", "zoo.import_names").find("cat")
    expected = "Unknown animal type 'cat'. Registered: none. zoo.import_names lists the modules that register more."
    assert str(error.value) == expected


def test_a_name_belongs_to_one_class_which_may_be_defined_again(animals: Registry) -> None:
    again = type("Cat", (), {"__module__": "zoo"})
    assert animals.register("cat")(again) is animals.find("cat") is again
    with pytest.raises(ConfigError) as error:
        animals.register("cat")(type("Lion", (), {"__module__": "zoo"}))
    assert str(error.value) == "animal 'cat' is the name of zoo.Cat: choose another one for zoo.Lion."


def test_a_message_is_one_line_of_limited_length() -> None:
    """Of every error whose class has no `__str__` of its own, whatever it quotes: other tests need not look at that."""
    assert str(UserError("two\nlines \x1b")) == "two\\nlines \\x1b"
    text = str(ConfigError("a" * 200 + "b" * 300))
    # 400 characters at most: the first 300, " ... ", the last 95
    assert text == "a" * 200 + "b" * 100 + " ... " + "b" * 95


def test_a_message_begins_with_the_place_of_the_error() -> None:
    with pytest.raises(ZeroDivisionError) as error:
        exec(compile("\n\n1 / 0", "config.py", "exec"), {})
    assert place_of(error.value) == "config.py, line 3: "
    with pytest.raises(SyntaxError) as wrong:
        compile("\n1 +", "config.py", "exec")
    assert place_of(wrong.value) == "config.py, line 2: "


@pytest.mark.parametrize(
    ("text", "module", "message"),
    [
        ("", "nosuch", r"This needs the extra 'video' \(No module named 'nosuch'\): pip install 'ding_lite\[video\]'"),
        ("\nimport nosuch", "own", r"This: 'own' cannot be imported: .*own\.py, line 2: No module named 'nosuch'\.$"),
        ("import video", "own", r"This needs the extra 'video' \(No module named 'video'\)"),
        (
            "from math import tree",
            "own",
            r"This: 'own' cannot be imported: .*own\.py, line 1: cannot import name 'tree'",
        ),
        ("", "numpy.nosuch", r"This: the installed package 'numpy' has no module 'numpy\.nosuch'\.$"),
    ],
)
def test_only_a_module_that_an_extra_installs_is_a_missing_extra(
    text: str, module: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=f"^{message}"):
        load_extra(module, "video")
    sys.modules.pop("own", None)


def test_a_file_of_the_package_is_imported_when_its_name_is_looked_up() -> None:
    code = """
import subprocess
import sys
from ding_lite.utils.registry import POLICY_REGISTRY as policies, ConfigError
assert "dqn" in policies and "cat" not in policies and len(policies) == len([*policies]) > 40
assert "ding_lite.policy.value.dqn" not in sys.modules
assert policies.find("dqn").__name__ == "DQNPolicy"
assert "ding_lite.policy.value.iqn" not in sys.modules
try:
    policies.register("iqn")(type("Impostor", (), {"__module__": "zoo"}))
except ConfigError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], timeout=60, capture_output=True, text=True)
    message = "policy 'iqn' is the name of ding_lite.policy.value.iqn.IQNPolicy: choose another one for zoo.Impostor."
    assert run.stdout == f"{message}\n", run.stderr
