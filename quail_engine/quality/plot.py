"""A reliability plot as SVG: how often what the model holds for probable is true."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from quail_engine.quality.figures import BINS, Bin

_SIDE, _MARGIN, _TITLE = 180, 36, 22  # of a panel, in pixels
_COLUMNS = 3


def reliability_svg(panels: Sequence[tuple[str, tuple[Bin, ...]]]) -> str:
    """A panel for each (title, bins): points at (mean probability, share that is true), as large as their bin has rows."""
    width, height = _SIDE + 2 * _MARGIN, _SIDE + 2 * _MARGIN + _TITLE
    rows = -(-len(panels) // _COLUMNS)
    columns = min(len(panels), _COLUMNS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {columns * width} {rows * height}" '
        f'width="{columns * width}" height="{rows * height}" font-family="sans-serif" font-size="11">'
    ]
    for i, (title, bins) in enumerate(panels):
        x, y = i % _COLUMNS * width + _MARGIN, i // _COLUMNS * height + _MARGIN
        parts += [f'<g transform="translate({x},{y})">', *_panel(title, bins), "</g>"]
    return "\n".join([*parts, "</svg>\n"])


def _panel(title: str, bins: tuple[Bin, ...]) -> list[str]:
    rows = sum(b.n for b in bins)
    points = [(b.predicted * _SIDE, (1 - b.observed) * _SIDE, b) for b in bins]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in points)
    ticks = range(0, BINS + 1, 5)
    return [
        f'<text y="-8">{escape(title)}</text>',
        f'<rect width="{_SIDE}" height="{_SIDE}" fill="none" stroke="#999"/>',
        f'<line y1="{_SIDE}" x2="{_SIDE}" y2="0" stroke="#bbb" stroke-dasharray="4"/>',
        *(f'<text x="{t * _SIDE / BINS}" y="{_SIDE + 14}" text-anchor="middle">{t / BINS:g}</text>' for t in ticks),
        *(f'<text x="-6" y="{_SIDE - t * _SIDE / BINS + 4}" text-anchor="end">{t / BINS:g}</text>' for t in ticks),
        f'<text x="{_SIDE / 2}" y="{_SIDE + 28}" text-anchor="middle">probability (n = {rows})</text>',
        f'<polyline points="{line}" fill="none" stroke="#36c"/>',
        *(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{2 + 8 * (b.n / rows) ** 0.5:.1f}" fill="#36c" fill-opacity="0.5">'
            f"<title>{b.n} rows: said {b.predicted:.2f}, true {b.observed:.2f}</title></circle>"
            for x, y, b in points
        ),
    ]
