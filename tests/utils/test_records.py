"""Records are read line by line while a run writes them."""

from __future__ import annotations

from pathlib import Path

from ding_lite.utils.records import RecordReader


def test_only_complete_lines_are_read_and_damaged_ones_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    reader = RecordReader(path)
    assert (reader.read(), reader.count) == ([], 0)
    path.write_bytes(b'{"a": 1}\n{"a": 2}\n{"a"')
    assert (reader.read(), reader.count) == ([{"a": 1}, {"a": 2}], 2)
    assert (reader.read(2), reader.count) == ([], 2)
    with path.open("ab") as end:
        end.write(b': 3}\n{"a": {"a": 4}\n[]\n{"a": 5}\n')
    assert (reader.read(2), reader.count) == ([{"a": 3}, {"a": 5}], 6)


def test_lines_that_are_known_are_left_out_however_late_they_come(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"a": 1}\n')
    reader = RecordReader(path)
    assert reader.read(3) == []
    with path.open("a") as end:
        end.write('{"a": 2}\n{"a": 3}\n{"a": 4}\n')
    assert reader.read(3) == [{"a": 4}]


def test_a_file_that_was_cut_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"a": 1}\n{"a": 2}\n')
    reader = RecordReader(path)
    assert [len(reader.read()), reader.cut] == [2, False]
    path.write_text('{"a": 3}\n')
    assert (reader.read(), reader.count, reader.cut) == ([{"a": 3}], 1, True)
    assert [reader.read(), reader.cut] == [[], False]
