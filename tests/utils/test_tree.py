"""Nested dicts of arrays."""

from __future__ import annotations

from ding_lite.utils.tree import dotted_items, tree_leaves, tree_map


def test_a_function_is_applied_to_the_leaves_of_several_trees_with_the_same_keys() -> None:
    first, second = {"a": 1, "b": {"c": 2}}, {"a": 10, "b": {"c": 20}}
    assert tree_map(lambda left, right: left + right, first, second) == {"a": 11, "b": {"c": 22}}
    assert first == {"a": 1, "b": {"c": 2}}


def test_what_is_no_dict_is_a_leaf() -> None:
    assert tree_map(len, [1, 2]) == 2
    assert list(tree_leaves([1, 2])) == [[1, 2]]
    assert list(tree_leaves({"a": 1, "b": {"c": (2,), "d": {}}})) == [1, (2,)]


def test_dotted_keys_lead_to_the_leaves_and_an_empty_dict_is_one() -> None:
    tree = {"a": 1, "b": {"c": [2], "d": {}}, "e": {"f": {"g": None}}}
    assert dict(dotted_items(tree)) == {"a": 1, "b.c": [2], "b.d": {}, "e.f.g": None}
