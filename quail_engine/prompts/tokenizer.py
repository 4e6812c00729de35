"""Text to token ids: byte-level BPE tokenizers, built from a GGUF file's metadata. The only importer of `tokenizers`.

A row's text and a user's template are never scanned for special tokens: the tokenizer that reads them is built without any,
so `<|im_end|>` in a document is ten plain characters. Only the chat markers that a profile writes itself become special ids.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from quail_engine.errors import ModelError
from quail_engine.prompts.request import Ids

_NORMAL, _CONTROL, _USER_DEFINED, _UNUSED = 1, 3, 4, 5  # GGUF token types

_BEFORE_MARKERS = re.compile(r'\s*\{(\s*"(version|truncation|padding)"\s*:\s*("[^"\\]*"|null)\s*,)*\s*"added_tokens"\s*:\s*')

_QWEN2_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def _byte_level(use_regex: bool) -> dict[str, Any]:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


# What a file's `tokenizer.ggml.pre` stands for: (normaliser, pre-tokeniser). The normaliser is not in the file; it is part of
# the original tokenizers, and leaving it out gives other ids for decomposed accents.
_PRE_TOKENIZERS: dict[str, tuple[dict[str, Any] | None, list[dict[str, Any]]]] = {
    "qwen2": (
        {"type": "NFC"},
        [
            {"type": "Split", "pattern": {"Regex": _QWEN2_WORDS}, "behavior": "Isolated", "invert": False},
            _byte_level(use_regex=False),
        ],
    ),
    "smollm": (None, [{"type": "Digits", "individual_digits": True}, _byte_level(use_regex=True)]),
}


def tokenizer_json(metadata: Mapping[str, Any]) -> str:
    """The tokenizer of a GGUF file's metadata, as the text of a `tokenizer.json`.

    Raises ModelError for a tokenizer of a kind that is not known for certain: ids that are nearly right give answers that
    are nearly right, and nobody would notice.
    """
    model, pre = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre")
    if model != "gpt2" or not isinstance(pre, str) or pre not in _PRE_TOKENIZERS:
        known = ", ".join(_PRE_TOKENIZERS)
        raise ModelError(f"The model's tokenizer ({model}, {pre}) is not known; byte-level BPE of these kinds is: {known}.")
    tokens, merges = _strings(metadata, "tokenizer.ggml.tokens"), _strings(metadata, "tokenizer.ggml.merges")
    types = metadata.get("tokenizer.ggml.token_type")
    if not tokens or not merges or not isinstance(types, list) or len(types) != len(tokens):
        raise ModelError("The model's file is damaged: its vocabulary, token types and merges do not fit together.")
    pairs = [merge.split(" ") for merge in merges]
    if any(len(pair) != 2 for pair in pairs):
        raise ModelError("The model's file is damaged: a merge of its tokenizer is not a pair.")
    markers = [i for i, kind in enumerate(types) if kind in (_CONTROL, _USER_DEFINED)]
    normaliser, pre_tokenisers = _PRE_TOKENIZERS[pre]
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added(i, tokens[i], special=types[i] == _CONTROL) for i in markers],
        "normalizer": normaliser,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": pre_tokenisers},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "ignore_merges": False,
            "vocab": {token: i for i, token in enumerate(tokens) if types[i] != _UNUSED},
            "merges": pairs,
        },
    }
    return json.dumps(content, ensure_ascii=False)


def _without_markers(text: str) -> tuple[list[dict[str, Any]], str]:
    """The special tokens of a `tokenizer.json`, and its text without them.

    Megabytes of vocabulary follow them as a rule: so their list alone is read where nothing but plain values stands before it.
    """
    if found := _BEFORE_MARKERS.match(text):
        markers, end = json.JSONDecoder().raw_decode(text, found.end())
        return markers, f"{text[: found.end()]}[]{text[end:]}"
    content = json.loads(text)
    return content["added_tokens"], json.dumps({**content, "added_tokens": []})


def _strings(metadata: Mapping[str, Any], key: str) -> list[str]:
    """A list of strings; empty if the file has none or something else there."""
    value = metadata.get(key)
    return value if isinstance(value, list) and all(isinstance(item, str) for item in value) else []


def _added(number: int, content: str, special: bool) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": number, "content": content, **flags, "special": special}


class Tokenizer:
    """Encodes text for one model."""

    def __init__(self, path: Path) -> None:
        """Loads a `tokenizer.json`. Raises ModelError if it is missing or damaged, or the library is not installed."""
        try:
            import tokenizers
        except ImportError as error:
            raise ModelError("Reading a model's tokenizer needs the extra `local`: pip install 'dbt-quail[local]'.") from error
        try:
            raw = path.read_bytes()
            markers, plain = _without_markers(raw.decode("utf-8"))
            self._marker_ids: dict[str, int] = {marker["content"]: marker["id"] for marker in markers}
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise ModelError(f"The tokenizer {path} cannot be read: {error}.") from error
        try:
            self._bpe = tokenizers.Tokenizer.from_str(plain)
        except Exception as error:  # the library raises nothing more specific
            raise ModelError(f"The tokenizer {path} cannot be read: {error}.") from error
        self.digest = hashlib.sha256(raw).hexdigest()
        longest_first = sorted(self._marker_ids, key=len, reverse=True)
        self._markers = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")") if longest_first else None

    @property
    def markers(self) -> list[str]:
        """The model's special tokens, as they are written."""
        return list(self._marker_ids)

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        """Ids of each text; special tokens in it are plain characters, and the empty text has no ids."""
        return [tuple(encoding.ids) for encoding in self._bpe.encode_batch_fast(list(texts), add_special_tokens=False)]

    def encode_markers(self, text: str) -> Ids:
        """Ids of a text of the profile's own, in which the model's special tokens stand for themselves."""
        pieces = self._markers.split(text) if self._markers else [text]
        return tuple(i for piece in pieces for i in self._piece(piece))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of some ids, special tokens written out; for people to read."""
        return str(self._bpe.decode(list(ids), skip_special_tokens=False))

    def _piece(self, piece: str) -> Ids:
        marker = self._marker_ids.get(piece)
        return self.encode([piece])[0] if marker is None else (marker,)
