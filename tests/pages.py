"""Reads a page as a browser would, and refuses what a self-contained page must not have."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

_VOID = {"meta", "br", "hr"}
_LOADS = {"script", "link", "img", "iframe", "object", "embed", "form", "base", "video", "audio"}
_KNOWN_ADDRESSES = {"url(#arrow)"}


class Page(HTMLParser):
    """The texts and table cells of a page whose elements are all closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tables: list[list[list[str]]] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == [], f"never closed: {self._open}"
        self.pictures = [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", html, re.DOTALL)]

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag not in _LOADS, f"<{tag}> is not self-contained"
        for name, value in attributes:
            assert not name.startswith("on"), f"{name} is a script"
            assert name not in ("src", "href", "xlink:href", "style"), f"{name} may name another file"
            assert set(re.findall(r"url\([^)]*\)", value or "")) <= _KNOWN_ADDRESSES
        if tag not in _VOID:
            self._open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in _VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        if self._open[-1:] == ["style"]:
            assert not re.search(r"@import|url\(", data), "a style that loads something"
            return
        self.texts.append(data)
        if self._open[-1:] in (["td"], ["th"]):
            self.tables[-1][-1][-1] += data
