"""docs/dizoo.md says what the config files of dizoo say."""

from __future__ import annotations

import pytest

from tests.docs.test_docs import load

listing = load("make_dizoo_list")


def test_the_page_is_up_to_date() -> None:
    assert listing.PAGE.read_text() == listing.make_page(), "out of date: run make docs"


@pytest.mark.parametrize(
    ("docstring", "result"),
    [
        (
            "SAC on Ant-v5.\n\nIt is quick. Result: 5 of 7 goals,\nwith v5. On v4, 6.",
            "5 of 7 goals, with v5. On v4, 6.",
        ),
        ("SAC on Ant-v5, up to 0.5. Values of DI-engine,\nnot trained here.", "Values of DI-engine, not trained here."),
    ],
)
def test_the_result_of_a_file_is_in_its_last_words(docstring: str, result: str) -> None:
    assert listing.read_result(docstring) == result
