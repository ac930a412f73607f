"""Tables as text that fits the terminal, as markdown and as CSV."""

from __future__ import annotations

import csv
import html
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from ding_lite.results.statistics import Estimate
from ding_lite.utils.printable import printable

GAP = "  "  # between two columns
TALL = 4  # lines of a folded cell that still read well
TIED = "\N{NO-BREAK SPACE}"  # a space at which a line must not be broken


@dataclass(frozen=True)
class Table:
    """Cells of text under a header."""

    header: Sequence[str]  # names of the columns
    rows: Sequence[Sequence[str]]  # as many cells as the header has
    right: frozenset[int] = frozenset()  # numbers of the columns that are right-aligned
    # whether the first column holds names that a user may copy. They are not folded: if the table is too wide, each has
    # its own line, above the rest of its row
    named: bool = False

    def __post_init__(self) -> None:
        """Make the cells safe for a terminal, and single lines: names and values may be somebody else's."""
        object.__setattr__(self, "header", [printable(name, TIED) for name in self.header])
        object.__setattr__(self, "rows", [[printable(cell, TIED) for cell in row] for row in self.rows])

    def text(self, width: int) -> str:
        """Return lines of at most `width` characters, if possible.

        The widest columns are folded. If words would have to be broken, or a cell would have more than `TALL` lines,
        each row becomes a block of lines instead.
        """
        widths = [max(map(len, column)) for column in zip(self.header, *self.rows, strict=True)]
        fits = sum(widths) + len(GAP) * (len(widths) - 1) <= width
        rows = self._lines_below_names(width) if self.named and not fits else self._lines(width)
        if rows is None:
            return self._blocks(width)
        return "\n".join(line for lines in rows for line in lines).replace(TIED, " ")

    def _lines_below_names(self, width: int) -> list[list[str]] | None:
        """Return the lines of the header and of each row, with the first cell above the others; None as `_lines`."""
        rest = Table(self.header[1:], [row[1:] for row in self.rows], frozenset(place - 1 for place in self.right))
        rows = rest._lines(width - len(GAP))
        if rows is None:
            return None
        cells = (self.header, *self.rows)
        return [[row[0], *(GAP + line for line in lines)] for row, lines in zip(cells, rows, strict=True)]

    def _lines(self, width: int) -> list[list[str]] | None:
        """Return the lines of the header and of each row; None if they would not read well, see `text`."""
        cells = [self.header, *self.rows]
        columns = list(zip(*cells, strict=True))
        widths = [max(map(len, column)) for column in columns]
        least = [max(len(piece) for cell in column for piece in _pieces(cell)) for column in columns]
        if sum(least) + len(GAP) * (len(least) - 1) > width:
            return None
        while sum(widths) + len(GAP) * (len(widths) - 1) > width:
            spare = [size if size > low else 0 for size, low in zip(widths, least, strict=True)]
            widths[spare.index(max(spare))] -= 1
        rows, sides = [], [">" if column in self.right else "<" for column in range(len(widths))]
        for row in cells:
            lines = list(zip_longest(*map(_fold, row, widths), fillvalue=""))
            if len(lines) > TALL:
                return None
            padded = (
                [f"{text:{side}{size}}" for text, side, size in zip(line, sides, widths, strict=True)] for line in lines
            )
            rows.append([GAP.join(line).rstrip() for line in padded])
        return rows

    def markdown(self) -> str:
        rule = ["---:" if column in self.right else "---" for column in range(len(self.header))]
        lines = [[as_markdown(cell) for cell in row] for row in (self.header, rule, *self.rows)]
        return "\n".join(f"| {' | '.join(row)} |" for row in lines).replace(TIED, " ")

    def csv(self) -> str:
        """Return comma-separated values, none of which a spreadsheet takes for a formula."""
        file = io.StringIO()
        csv.writer(file, lineterminator="\n").writerows(map(_as_text, row) for row in (self.header, *self.rows))
        return file.getvalue().rstrip("\n").replace(TIED, " ")

    def _blocks(self, width: int) -> str:
        """Return each row as lines of a name and a value, below its first cell."""
        size = max(map(len, self.header[1:]), default=0)
        lines = []
        for first, *row in self.rows:
            lines += _fold(first, width)
            for name, cell in zip(self.header[1:], row, strict=True):
                for place, part in enumerate(_fold(cell, max(width - size - 2 * len(GAP), 1))):
                    lines.append(f"{GAP}{'' if place else name:<{size}}{GAP}{part}".rstrip())
        return "\n".join(lines).replace(TIED, " ")


def as_markdown(text: str) -> str:
    """Return text that Markdown shows as it is: no HTML, no link, no code, no end of a table's cell or of a line."""
    text = html.escape(printable(text, TIED), quote=False).replace("\\", "&#92;")
    return re.sub(r"[|`]|(?<=\])\(", r"\\\g<0>", text)


def _as_text(cell: str) -> str:
    """Return a cell with an apostrophe before what would begin a formula; numbers and a lone sign stay."""
    if len(cell) < 2 or cell[0] not in "=+-@":
        return cell
    try:
        float(cell)
        return cell
    except ValueError:
        return f"'{cell}"


def show_number(value: float | None, digits: int = 4) -> str:
    """Return a number with some digits; `-` for None and NaN."""
    if value is None or math.isnan(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{digits}g}"


def show_probability(estimate: Estimate) -> str:
    """Return a probability and its interval with two decimals."""
    if math.isnan(estimate.low):
        return "-" if math.isnan(estimate.value) else f"{estimate.value:.2f}"
    return f"{estimate.value:.2f} [{estimate.low:.2f},{TIED}{estimate.high:.2f}]"


def show_estimate(estimate: Estimate) -> str:
    """Return an average and its interval, in which no line is broken."""
    if math.isnan(estimate.low):
        return show_number(estimate.value)
    return f"{show_number(estimate.value)} [{show_number(estimate.low, 3)},{TIED}{show_number(estimate.high, 3)}]"


def show_size(size: float) -> str:
    """Return a number of bytes in kB, MB or GB, which are powers of a thousand."""
    unit, name = next(((unit, name) for unit, name in ((1e9, "GB"), (1e6, "MB")) if size >= unit), (1e3, "kB"))
    return f"{size / unit:.1f} {name}"


def fold_text(text: str, width: int) -> str:
    """Return text in lines of at most `width` characters, if no word is longer."""
    return "\n".join(_fold(text, width))


def _fold(cell: str, width: int) -> list[str]:
    """Return a cell as lines; a piece that is too long is broken anywhere."""
    pieces = _pieces(cell) if len(cell) > width else [cell]
    lines = [""]
    for piece in (part[begin : begin + width] for part in pieces for begin in range(0, max(len(part), 1), width)):
        if len((lines[-1] + piece).rstrip(" ")) <= width:
            lines[-1] += piece
        else:
            lines.append(piece)
    return [line.rstrip(" ") for line in lines]


def _pieces(cell: str) -> list[str]:
    """Return the parts of a cell between which a line may be broken: after spaces and `_ / =`, and before `.word`."""
    return re.findall(r"[^ ]+? *(?:(?<=[_/=])|(?<= )(?! )|(?=\.[a-z])|$)", cell) or [""]
