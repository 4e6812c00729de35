"""The drawing of a reliability curve, and the page of a model's layouts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from quail_engine import page
from quail_engine.quality.figures import Bin
from quail_engine.quality.measure import Measured

_SIDE, _MARGIN = 260, 40


def layouts_page(title: str, found: Sequence[Measured]) -> str:
    """A page of HTML with a reliability curve for each layout of each labelled set."""
    return page.document(title, _parts(found))


def _parts(found: Sequence[Measured]) -> Iterator[str]:
    yield page.paragraph("Probability across, accuracy up; a layout that can be believed lies on the diagonal.")
    for name, group in groupby(found, key=lambda each: each.set):
        yield page.heading(name)
        yield '<div class="side">'
        for each in group:
            told = f"{each.layout}: {each.share:.2f} of {each.n} right, calibration error {each.calibration_error:.2f}"
            yield f"<div>{page.heading(told, 3)}{curve(each.bins)}</div>"
        yield "</div>"


def curve(bins: Sequence[Bin]) -> str:
    """Accuracy over confidence with intervals; on the diagonal confidence is what it says."""

    def x(value: float) -> float:
        return _MARGIN + value * _SIDE

    def y(value: float) -> float:
        return 10 + (1 - value) * _SIDE

    parts = []
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(f'<path class="grid" d="M{x(tick):g} {y(0):g}V{y(1):g}M{x(0):g} {y(tick):g}H{x(1):g}"/>')
        parts.append(page.words(x(tick), y(0) + 18, f"{tick:g}", "dim", "middle"))
        parts.append(page.words(x(0) - 6, y(tick) + 4, f"{tick:g}", "dim", "end"))
    parts.append(f'<path class="edge" stroke-dasharray="4 4" d="M{x(0):g} {y(0):g}L{x(1):g} {y(1):g}"/>')
    line = "L".join(f"{x(each.confidence):.1f} {y(each.share):.1f}" for each in bins)
    parts.append(f'<path class="curve" d="M{line}"/>')
    for each in bins:
        low, high = each.interval
        parts.append(f'<path class="curve" d="M{x(each.confidence):.1f} {y(low):.1f}V{y(high):.1f}"/>')
        told = f"{each.n:,} rows, confidence {each.confidence:.3f}, accuracy {each.share:.3f} ({low:.3f} to {high:.3f})"
        circle = f'<circle class="bar" cx="{x(each.confidence):.1f}" cy="{y(each.share):.1f}" r="5">'
        parts.append(f"{circle}<title>{told}</title></circle>")
    return page.drawing(_MARGIN + _SIDE + 20, _SIDE + 40, "Reliability curve", parts)
