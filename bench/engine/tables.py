"""Records as a Markdown table and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import log
from typing import Any

_COLUMNS = (
    ("tree", "tree"), ("requests", "asked"), ("tokens", "logical_tokens"), ("fresh", "fresh_tokens"), ("least", "least_tokens"),
    ("KV regret", "kv_regret"), ("seconds", "seconds"), ("rows/s", "rows_per_second"), ("requests/s", "asked_per_second"),
    ("fresh tokens/s", "tokens_per_second"), ("of floor", "floor_share"),
    ("peak MB", "peak_mb"), ("unshared", "unshared"), ("transformers", "transformers"), ("with head", "transformers_head"),
    ("logits apart", "logits_apart"), ("other answers", "other_answers"),
)  # fmt: skip
_OTHERS = ("unshared", "transformers", "transformers_head")


def table(lines: Sequence[dict[str, Any]]) -> str:
    """A row a tree. What others take is told in times of ours. Where tokens alone were counted, there are no other columns."""
    columns = [(title, key) for title, key in _COLUMNS if all(key in line for line in lines)]
    rows = ["| " + " | ".join(title for title, _ in columns) + " |", "|" + "---|" * len(columns)]
    for line in lines:
        cells = [_cell(line, key) for _, key in columns]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def _cell(line: dict[str, Any], key: str) -> str:
    value = line[key]
    if key in _OTHERS:
        return f"{value / line['seconds']:.2f}x"
    if key in ("floor_share", "kv_regret"):
        return f"{value:.1%}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def picture(lines: Sequence[dict[str, Any]]) -> str:
    """Bars as an SVG: how many times as long the others take, on a logarithmic scale from 1 to 64."""
    bars, height = [], 22
    for i, (line, key) in enumerate((line, key) for line in lines for key in _OTHERS):
        times = line[key] / line["seconds"]
        width = max(0.0, min(1.0, log(max(times, 1e-9), 64))) * 420
        y, shade = i * height + 4, {"unshared": "#8aa", "transformers": "#c85", "transformers_head": "#58c"}[key]
        bars.append(f'<text x="4" y="{y + 13}">{escape(line["tree"])}: {escape(key.replace("_", " with "))}</text>')
        bars.append(f'<rect x="260" y="{y}" width="{width:.1f}" height="16" fill="{shade}"/>')
        bars.append(f'<text x="{264 + width:.1f}" y="{y + 13}">{times:.1f}x</text>')
    size = f'width="740" height="{len(lines) * len(_OTHERS) * height + 8}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">{"".join(bars)}</svg>\n'
