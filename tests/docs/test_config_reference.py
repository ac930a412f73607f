"""docs/config.md says what the sources say, and a source that does not say enough is found."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from ding_lite.config.config import compile_config
from ding_lite.config.schema import config_schema
from ding_lite.policy import Policy
from ding_lite.utils.key import SECTION, Key, declared_keys
from ding_lite.utils.registry import POLICY_REGISTRY

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("make_config_reference", ROOT / "docs" / "make_config_reference.py")
assert _spec is not None
assert _spec.loader is not None
reference = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(reference)


def test_page_is_up_to_date() -> None:
    result = subprocess.run(
        [sys.executable, "docs/make_config_reference.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr


def test_check_notices_a_page_that_is_out_of_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "config.md"
    monkeypatch.setattr(reference, "PAGE", page)
    monkeypatch.setattr(reference, "make_page", lambda: "new\n")
    monkeypatch.setattr(sys, "argv", ["make_config_reference.py", "--check"])
    for old in (None, "old\n"):
        if old is not None:
            page.write_text(old)
        with pytest.raises(SystemExit, match="out of date: run `make docs`"):
            reference.main()
    monkeypatch.setattr(sys, "argv", ["make_config_reference.py"])
    reference.main()
    assert page.read_text() == "new\n"


def test_every_key_of_the_schema_is_on_the_page() -> None:
    user = compile_config(ROOT / "dizoo/atari/pong_dqn_ddp_config.py")
    page = reference.PAGE.read_text()
    elsewhere = {"env.manager.type", "policy.import_names", "policy.model", "policy.model.type"}
    schema = set(config_schema(user)) - elsewhere - {"policy.model.encoder.type"}
    assert [path for path in sorted(schema) if f"| `{path}` |" not in page] == []


OWN = [cls for cls in dict.fromkeys(POLICY_REGISTRY.values()) if cls.__module__.startswith("ding_lite.")]


@pytest.mark.parametrize("cls", OWN)
def test_a_policys_keys_are_in_its_table_or_in_those_of_policies_that_it_extends(cls: type[Policy]) -> None:
    bases = [base for base in cls.__mro__ if base in {Policy, *POLICY_REGISTRY.values()}]
    listed = {entry.key for base in bases for entry in reference.policy_entries(base)}
    assert {path for path, key in declared_keys(cls).items() if key.type is not SECTION} <= listed


class Base:
    config = dict(rate=Key(0.1, "how fast", low=0), nested=dict(size=Key(None, "how many; None: all", type=int)))


class Thing(Base):
    config = dict(
        rate=0.5,
        nested=dict(names=Key(["a"], "which")),
        kind=Key("x", "what", choices=("x", "y")),
        share=Key(0.5, "of all", above=0, high=1),
        free=Key({}, "anything"),
    )


def test_a_class_lists_what_it_declares_and_what_it_changes() -> None:
    assert reference.class_entries(Thing) == [
        ("rate", "float, >= 0", "0.5", "how fast"),
        ("nested.names", "list", "['a']", "which"),
        ("kind", "'x' or 'y'", "'x'", "what"),
        ("share", "float, > 0, <= 1", "0.5", "of all"),
        ("free", "dict", "{}", "anything"),
    ]
    assert ("nested.size", "int or None", "None", "how many; None: all") in reference.class_entries(Base)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (3, "Half.config: 'size' has no meaning: declare it as Key"),
        (Key(None, "how many"), "Half.config: 'size' is None by default: give its Key a type"),
    ],
)
def test_a_key_without_meaning_or_type_is_an_error(value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        reference.key_entries("Half", {"size": value})


def test_a_model_parameter_that_the_docstring_leaves_out_is_an_error() -> None:
    class Model:
        """A model.

        Args:
            width: how wide,
                in units.
        """

        def __init__(self, width: int, depth: int = 2) -> None:
            pass

    with pytest.raises(ValueError, match="Args do not describe 'depth'"):
        reference.model_entries(Model)
    Model.__doc__ = f"{Model.__doc__}    depth: how deep.\n"
    described = [(entry.key, entry.default, entry.meaning) for entry in reference.model_entries(Model)]
    assert described == [("width", "", "how wide, in units"), ("depth", "2", "how deep")]
