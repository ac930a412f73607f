"""A report in one self-contained HTML file: curves, tables, configs and videos, for a phone and for a desktop."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ding_lite.results.cleaning import best_return
from ding_lite.results.compare import Comparison, describe_columns, difference_table, result_table
from ding_lite.results.groups import Group, full_value
from ding_lite.results.plot import PlotOptions, render_plot
from ding_lite.results.run import RETURN, Run
from ding_lite.results.table import Table, show_number
from ding_lite.utils.checkpoint.origin import read_origins
from ding_lite.utils.directory_lock import find_trap_inside

VIDEOS = {".mp4": "video/mp4", ".webm": "video/webm", ".gif": "image/gif"}
LARGEST_VIDEO = 20_000_000  # bytes; a larger one is only named
CURVE_NOTE = "Lines are averages over runs, drawn where all runs have values; bands are 95 % bootstrap intervals."
STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; margin: 0 auto; padding: 1rem;
  max-width: 70rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.2; }
h2 { font-size: 1.2rem; border-bottom: 1px solid #ccc; padding-top: 1rem; }
h3 { font-size: 1rem; }
img, video { display: block; max-width: 100%; height: auto; }
figure { margin: 0; width: 32rem; max-width: 100%; }
figure > img { width: 100%; }
figcaption, .note { color: #444; font-size: .875rem; }
.videos { display: flex; flex-wrap: wrap; gap: 1rem; }
.videos figure { width: 20rem; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid #ddd; }
.right { text-align: right; }
pre { overflow-x: auto; background: #f5f5f5; padding: .75rem; font-size: .8125rem; overflow-wrap: normal; }
summary { cursor: pointer; padding: .5rem 0; }
@media (max-width: 48rem) {
  thead { display: none; }
  table, tbody, tr, td { display: block; width: 100%; }
  tr { border-bottom: 1px solid #bbb; padding: .5rem 0; }
  td, td.right { border: 0; padding: 0; text-align: left; display: flex; gap: .75rem; }
  td:empty { display: none; }
  td::before { content: attr(data-label); flex: 0 0 8rem; color: #444; }
}
@media print { details > * { display: block; } }
"""
HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>{style}</style>
</head>
<body>"""


def render_report(
    groups: Sequence[Group], comparison: Comparison, plot: PlotOptions, title: str, videos: int = 1
) -> str:
    """Return a report as HTML, with a heading and the newest `videos` of each run."""
    runs = [run for group in groups for run in group.runs]
    envs = ", ".join(dict.fromkeys(run.env for run in runs))
    summary = html.escape(f"{len(runs)} runs in {len(groups)} groups, on {envs}.")
    parts = [f"<h1>{html.escape(title)}</h1>", f"<p>{summary}</p>"]
    for env in comparison.envs():
        inside = [group for group in groups if group.env == env]
        parts += [
            f"<h2>{html.escape(env)}</h2>",
            _curves(inside, env, plot, list(dict.fromkeys(group.name for group in groups))),
            _html_table(result_table(comparison, env)),
        ]
        differences = difference_table(comparison, env)
        parts += ["<h3>What differs</h3>", _html_table(differences)] if differences else []
    parts += [f"<h2>Reading the tables</h2>\n<p>{html.escape(describe_columns(comparison))}</p>", "<h2>Runs</h2>"]
    for group in groups:
        parts += _describe_group(group, videos)
    head = HEAD.format(title=html.escape(title), style=STYLE)
    return "\n".join([head, *parts, "</body>", "</html>", ""])


def find_videos(run: Run, count: int) -> list[Path]:
    """Return the newest videos of a run, the newest one first; none if another user has a link among them."""
    folder = run.path / "video"  # a link could lead to any file of this user, which the report would show to others
    found = [] if find_trap_inside(folder) else folder.rglob("*")
    videos = [path for path in found if path.suffix in VIDEOS and path.is_file()]
    return sorted(videos, key=lambda path: (path.stat().st_mtime, path.name), reverse=True)[:count]


def _curves(groups: Sequence[Group], env: str, plot: PlotOptions, all_names: Sequence[str]) -> str:
    """Return the picture of an environment, or a note if nothing of it was recorded."""
    if not any(run.keys & set(plot.metrics) for group in groups for run in group.runs):
        return '<p class="note">Nothing to draw has been recorded yet.</p>'
    picture = base64.b64encode(render_plot(groups, "svg", replace(plot, title=""), all_names)).decode()
    names = ", ".join(group.name for group in groups)
    return (
        f'<figure><img src="data:image/svg+xml;base64,{picture}" alt="Learning curves on {html.escape(env)}: '
        f'{html.escape(names)}"><figcaption>{CURVE_NOTE}</figcaption></figure>'
    )


def _html_table(table: Table) -> str:
    """Return a table whose cells know their column's name, which a phone shows beside them."""
    names = [html.escape(name) for name in table.header]
    kinds = [' class="right"' if column in table.right else "" for column in range(len(names))]
    head = "".join(f"<th{kind}>{name}</th>" for kind, name in zip(kinds, names, strict=True))
    rows = [
        "".join(
            f'<td{kind} data-label="{name}">{html.escape(cell)}</td>'
            for kind, name, cell in zip(kinds, names, row, strict=True)
        )
        for row in table.rows
    ]
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _describe_group(group: Group, videos: int) -> Iterator[str]:
    """Yield the runs of a group, their videos, and the config of the first one."""
    yield f"<h3>{html.escape(group.name)} on {html.escape(group.env)}</h3>"
    cells = []
    for run in group.runs:
        steps = run.column(RETURN)[0]
        last = f"{steps[-1]:,.0f}" if len(steps) else "-"
        cells.append([run.name, full_value(run.seed), run.ending, show_number(best_return(run)), last])
    yield _html_table(Table(["run", "seed", "ended", "best return", "env steps"], cells, frozenset({1, 3, 4})))
    shown = [_video(run, path) for run in group.runs for path in find_videos(run, videos)]
    if shown:
        yield f'<div class="videos">{"".join(shown)}</div>'
    first = group.runs[0]
    for title, facts in (("Config", first.config), *(("Origin", origin) for origin in read_origins(first.path))):
        text = "\n".join(f"{key} = {full_value(value)}" for key, value in facts.items())
        what = html.escape(f"{title} of {first.name}")
        yield f"<details><summary>{what}</summary>\n<pre>{html.escape(text)}</pre></details>"


def _video(run: Run, path: Path) -> str:
    caption = html.escape(f"{run.name}: {path.name}")
    if path.stat().st_size > LARGEST_VIDEO:
        where = html.escape(str(path))
        return f"<p>{caption} is larger than {LARGEST_VIDEO / 1e6:.0f} MB and stays in {where}.</p>"
    source = f"data:{VIDEOS[path.suffix]};base64,{base64.b64encode(path.read_bytes()).decode()}"
    shown = (
        f'<img src="{source}" alt="{caption}">' if path.suffix == ".gif" else f'<video controls src="{source}"></video>'
    )
    return f"<figure>{shown}<figcaption>{caption}</figcaption></figure>"
