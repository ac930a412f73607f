"""docs/config.md says what the sources say, and a source that does not say enough is found."""

import pytest

from ding_lite.config.config import compile_config
from ding_lite.config.schema import config_schema, find_class
from ding_lite.policy import Policy
from ding_lite.utils.key import SECTION, Key, declared_keys
from ding_lite.utils.registry import POLICY_REGISTRY
from tests.algorithms import ALGORITHMS
from tests.docs.test_docs import ROOT, load

reference = load("make_config_reference")


def test_page_is_up_to_date() -> None:
    assert reference.PAGE.read_text() == reference.make_page(), "out of date: run make docs"


def test_every_key_of_the_schema_is_on_the_page() -> None:
    user = compile_config(ROOT / "dizoo/atari/pong_dqn_ddp_config.py")
    page = reference.PAGE.read_text()
    elsewhere = {"env.manager.type", "policy.import_names", "policy.model", "policy.model.type"}
    schema = set(config_schema(user, find_class("policy", user))) - elsewhere - {"policy.model.encoder.type"}
    assert [path for path in sorted(schema) if f"| `{path}` |" not in page] == []


@pytest.mark.parametrize("cls", dict.fromkeys(map(POLICY_REGISTRY.find, sorted(ALGORITHMS))))
def test_a_policys_keys_are_in_its_table_or_in_those_of_policies_that_it_extends(cls: type[Policy]) -> None:
    bases = [base for base in cls.__mro__ if base in {Policy, *POLICY_REGISTRY.values()}]
    listed = {entry.key for base in bases for entry in reference.policy_entries(base)}
    assert {path for path, key in declared_keys(cls).items() if key.type is not SECTION} <= listed


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
