"""One self-contained HTML page: no script, no file beside it, light and dark as the reader's system is.

Whatever comes from rows, prompts or SQL is text, and is escaped where it is put in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --dim: #5d6878; --paper: #ffffff; --panel: #f4f6f9; --line: #cfd6e0;
  --accent: #2563a8; --good: #1d7a46; --bad: #b3372b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --dim: #9aa5b4; --paper: #14181f; --panel: #1d232c;
  --line: #39424f; --accent: #6aa7e8; --good: #5cc48a; --bad: #ef8073; } }
body { margin: 2rem auto; max-width: 74rem; padding: 0 1rem; color: var(--ink); background: var(--paper);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.15rem; margin-top: 2rem; } h3 { font-size: 1rem; margin-bottom: .3rem; }
table { border-collapse: collapse; margin: .6rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th { color: var(--dim); font-weight: 600; } td.n, th.n { text-align: right; white-space: nowrap; }
code, pre { font: 13px/1.45 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
pre { background: var(--panel); padding: .6rem .8rem; border-radius: 6px; }
.dim { color: var(--dim); } .good { color: var(--good); } .bad { color: var(--bad); }
.side { display: flex; flex-wrap: wrap; gap: 2rem; align-items: flex-start; }
svg { max-width: 100%; height: auto; } svg text { fill: var(--ink); font: 13px system-ui, sans-serif; }
svg .dim { fill: var(--dim); } svg .box { fill: var(--panel); stroke: var(--line); } svg .bar { fill: var(--accent); }
svg .edge { stroke: var(--dim); fill: none; } svg .head { fill: var(--dim); } svg .grid { stroke: var(--line); }
svg .strong { font-weight: 600; } svg .curve { stroke: var(--accent); stroke-width: 2; fill: none; }
"""


def document(title: str, parts: Iterable[str]) -> str:
    """A whole page; `parts` are HTML."""
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{escape(title)}</h1>",
            *parts,
            "</body>\n</html>\n",
        ]
    )


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> str:
    """Texts in a table; the first `texts` columns are words, the others numbers."""

    def cells(tag: str, row: Sequence[str]) -> str:
        marks = ("" if i < texts else ' class="n"' for i in range(len(row)))
        return "".join(f"<{tag}{mark}>{escape(cell)}</{tag}>" for mark, cell in zip(marks, row, strict=True))

    body = "\n".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table>\n<thead><tr>{cells('th', columns)}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def paragraph(text: str, kind: str = "") -> str:
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def heading(text: str, level: int = 2) -> str:
    return f"<h{level}>{escape(text)}</h{level}>"


def code(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def drawing(width: int, height: int, label: str, parts: Iterable[str]) -> str:
    """A picture in the page; `parts` are SVG, `label` says what it shows to those who do not see it."""
    inside = "\n".join(parts)
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return f'<svg {size} role="img" aria-label="{escape(label)}">\n{inside}\n</svg>'


def words(x: float, y: float, text: str, kind: str = "", anchor: str = "start", whole: str = "") -> str:
    """Text in a picture; `whole` is shown where the pointer rests on it."""
    told = f"<title>{escape(whole)}</title>" if whole else ""
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{told}{escape(text)}</text>'
