"""Sphinx builds the site from the pages of this folder: `make site`.

The pages are plain Markdown, and their links work in any viewer of the repository. The site differs in three ways:

* A link to a file outside this folder leads to the repository, or, without DOCS_REPOSITORY, becomes plain text.
* `CHANGELOG.md` and `CONTRIBUTING.md` of the repository's root are pages of the site.
* A notebook is shown as a page, without outputs.
* `README.md` of a folder lists the folder's other pages in the sidebar.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))

project = "ding_lite"
author = "the authors of ding_lite"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown", ".ipynb": "markdown"}
exclude_patterns = ["_build", "**/.ipynb_checkpoints"]
root_doc = "index"
highlight_language = "text"

myst_enable_extensions = ["dollarmath"]  # an equation between lines of $$
html_math_renderer = "mathml"  # see show_equation
myst_heading_anchors = 4  # the anchors that code hosts give to headings
myst_links_external_new_tab = False

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_class_signature = "mixed"
autodoc_default_options = {"members": True}
napoleon_use_ivar = True  # autodoc lists a class's attributes already
napoleon_use_rtype = False
strip_signature_backslash = True  # keeps the last character of a name such as return_
add_module_names = False
default_role = "code"  # `name` in a docstring is code, as in Markdown

html_theme = "furo"
html_title = "ding_lite"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
linkcheck_timeout = 30
linkcheck_anchors = False  # code hosts make anchors by script

REPOSITORY = os.environ.get("DOCS_REPOSITORY", "").rstrip("/")  # such as https://HOST/OWNER/ding_lite/blob/main
OF_ROOT = {"site/changelog": "CHANGELOG.md", "site/contributing": "CONTRIBUTING.md"}
PAGES = {ROOT / name: HERE / f"{page}.md" for page, name in OF_ROOT.items()} | {ROOT / "README.md": HERE / "index.md"}
LINK = re.compile(r"(?<!!)\[((?:[^][]|\[[^][]*\])*)\]\(([^)\s]+)\)")
SECTION = re.compile(r"(Args|Attributes|Returns|Raises|Yields):")
BAR = re.compile(r"\|(?=(?:[^`]*`[^`]*`)*[^`]*$)")  # outside of `code`
OBJECT = re.compile(r"<(?:function|class) '?(?:[\w<>]+\.)*<?(\w+)>?(?: at 0x\w+)?'?>")  # of `repr`
FENCED = re.compile(r"^(```.*?^```$)", re.M | re.S)


def read_source(app: Any, docname: str, source: list[str]) -> None:
    """Change the text of a page before it is parsed."""
    text, place = source[0], HERE / f"{docname}.md"
    if docname in OF_ROOT:
        place = ROOT / OF_ROOT[docname]
        text = place.read_text()
    elif (HERE / f"{docname}.ipynb").exists():
        text = show_notebook(text)
    elif docname.endswith("/README"):
        text += "\n```{toctree}\n:hidden:\n:glob:\n\n*\n```\n"
    here = HERE / Path(docname).parent
    parts = FENCED.split(text)  # code is between the texts
    parts[::2] = [LINK.sub(lambda link: change_link(link, place, here), part) for part in parts[::2]]
    source[0] = "".join(parts)


def change_link(link: re.Match[str], place: Path, here: Path) -> str:
    """Return a link for the site.

    Args:
        link: matched by `LINK`.
        place: the file that contains it.
        here: the folder of its page in the site.
    """
    text, target = link.groups()
    if re.match(r"[a-z]+:|#", target):
        return link[0]
    name, mark, anchor = target.partition("#")
    path = (place.parent / name).resolve()
    path = PAGES.get(path, path)
    if path.is_relative_to(HERE) and path.suffix in source_suffix:
        return f"[{text}]({os.path.relpath(path, here)}{mark}{anchor})"
    return f"[{text}]({REPOSITORY}/{path.relative_to(ROOT).as_posix()}{mark}{anchor})" if REPOSITORY else text


def show_notebook(text: str) -> str:
    """Return a notebook's cells as Markdown."""
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(text)["cells"]]
    return "\n\n".join(source if kind == "markdown" else f"```python\n{source}\n```" for kind, source in cells)


def show_equation(writer: Any, node: Any) -> None:
    """Write an equation in MathML, which browsers show without a script."""
    from docutils import nodes  # noqa: PLC0415  (an extra installs it)
    from docutils.utils.math.latex2mathml import tex2mathml  # noqa: PLC0415

    writer.body.append(tex2mathml(node.astext(), as_block=isinstance(node, nodes.math_block)))
    raise nodes.SkipNode


def read_docstring(_app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """Change a docstring's text into reStructuredText: an indented block is an equation, and `|` is a bar."""
    out: list[str] = []
    section = inside = False
    for line in lines:
        indented = line.startswith("    ")
        if line and not indented:
            section, inside = bool(SECTION.fullmatch(line)), False
        elif indented and not section and not inside and out and not out[-1]:
            inside = True
            out += ["::", ""]
        out.append(line if inside else BAR.sub(r"\\|", line))
    lines[:] = out


def read_signature(
    _app: Any, _what: str, _name: str, _object: Any, _options: Any, args: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Show functions and classes that are default values by their names."""
    return args and OBJECT.sub(r"\1", args), returns


def skip_member(_app: Any, _what: str, _name: str, member: Any, _skip: bool, _options: Any) -> bool | None:
    """Leave out the fields of named tuples, whose docstrings say only their places."""
    return True if (getattr(member, "__doc__", None) or "").startswith("Alias for field number") else None


def add_lazy_names(*names: str) -> None:
    """Set the names that packages import on first use, so that autodoc finds them."""
    for name in names:
        package = __import__(name, fromlist=["*"])
        package.__dict__.update({public: getattr(package, public) for public in getattr(package, "__all__", ())})


def setup(app: Any) -> None:
    """Connect the functions above to Sphinx."""
    add_lazy_names("ding_lite", *(f"ding_lite.{path.parent.name}" for path in ROOT.glob("ding_lite/*/__init__.py")))
    app.add_html_math_renderer("mathml", (show_equation, None), (show_equation, None))
    app.connect("source-read", read_source)
    app.connect("autodoc-process-docstring", read_docstring, priority=400)  # before napoleon
    app.connect("autodoc-process-signature", read_signature)
    app.connect("autodoc-skip-member", skip_member)
