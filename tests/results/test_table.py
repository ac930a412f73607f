from __future__ import annotations

import csv
import io
import math

from ding_lite.results.statistics import Estimate
from ding_lite.results.table import TIED, Table, show_estimate, show_number, show_probability, show_size

NAMES = Table(["group", "best return"], [["dqn", f"199 [196,{TIED}200]"], ["c51", "-"]], frozenset({1}))


def test_a_table_that_fits_is_not_folded() -> None:
    assert NAMES.text(80).splitlines() == ["group     best return", "dqn    199 [196, 200]", "c51                 -"]


def test_a_wide_table_is_folded_between_words_only() -> None:
    assert NAMES.text(18).splitlines() == [
        "group  best return",
        "dqn            199",
        "        [196, 200]",
        "c51              -",
    ]


def test_what_cannot_be_folded_becomes_a_block_of_lines_for_each_row() -> None:
    assert NAMES.text(14).splitlines() == [
        *("dqn", "  best return  1", "               9", "               9"),
        *[f"               {char}".rstrip() for char in "[196, 200]"],
        *("c51", "  best return  -"),
    ]
    assert NAMES.text(16 + 9).splitlines()[0] == "group     best return"


def test_markdown_and_csv() -> None:
    table = Table(["key", "value"], [["a|b", f"1,{TIED}2"]], frozenset({1}))
    assert table.markdown().splitlines() == ["| key | value |", "| --- | ---: |", "| a\\|b | 1, 2 |"]
    assert table.csv().splitlines() == ["key,value", 'a|b,"1, 2"']


def test_a_spreadsheet_takes_no_cell_of_a_csv_file_for_a_formula() -> None:
    texts = ["=HYPERLINK(1)", "+cmd", "-1+2", "@sum", "\tx", "-", "-1.5e-3", "-inf", "+3", "a=b"]
    cells = list(csv.reader(io.StringIO(Table(["=key"], [[text] for text in texts]).csv())))
    assert [cell for (cell,) in cells] == [
        *("'=key", "'=HYPERLINK(1)", "'+cmd", "'-1+2", "'@sum", "\\tx", "-", "-1.5e-3", "-inf", "+3", "a=b")
    ]


def test_numbers_are_short() -> None:
    assert [show_number(value) for value in (199.84, -0.01234, 12345.6, None, math.nan)] == [
        *("199.8", "-0.01234", "12,346", "-", "-")
    ]
    assert show_estimate(Estimate(199.84, 196.31, 200)) == f"199.8 [196,{TIED}200]"
    assert show_estimate(Estimate(5.0, math.nan, math.nan)) == "5"
    assert show_probability(Estimate(0.5, 0.123, 0.9)) == f"0.50 [0.12,{TIED}0.90]"
    assert [show_probability(Estimate(value, math.nan, math.nan)) for value in (1.0, math.nan)] == ["1.00", "-"]
    assert [show_size(size) for size in (900, 1_240_000, 7.1e9)] == ["0.9 kB", "1.2 MB", "7.1 GB"]


def test_foreign_text_stays_one_line_that_neither_a_terminal_nor_markdown_obeys() -> None:
    table = Table(["na\x1b[2Jme"], [["a\n| b\u202e"], ["<img src=x onerror=alert(1)> [d](http://e) `f` \\"]])
    assert table.text(80).splitlines() == [
        r"na\x1b[2Jme",
        r"a\n| b\u202e",
        "<img src=x onerror=alert(1)> [d](http://e) `f` \\",
    ]
    assert table.markdown().splitlines() == [
        "| na&#92;x1b[2Jme |",
        "| --- |",
        r"| a&#92;n\| b&#92;u202e |",
        r"| &lt;img src=x onerror=alert(1)&gt; [d]\(http://e) \`f\` &#92; |",
    ]
