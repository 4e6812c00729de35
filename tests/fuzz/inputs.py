"""Inputs that are nearly right: bytes and statements, changed in a few places. And a clock that ends a hang."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("QUAIL_FUZZ", "200"))
_SECONDS = 120.0  # an input that takes longer hangs

fuzzed = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=EXAMPLES <= 200,  # the default run is the same every time; `make fuzz` goes on looking
    database=None,
    suppress_health_check=list(HealthCheck),
)


@contextmanager
def no_hang() -> Iterator[None]:
    def ring(number: int, frame: object) -> None:
        raise TimeoutError(f"this input took more than {_SECONDS:.0f} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, _SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


_NUMBERS = [0, 1, 2, 7, 8, 9, 10, 12, 127, 255, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, (1 << 63) - 1, (1 << 64) - 1]


@st.composite
def damaged(draw: st.DrawFn, whole: bytes, spots: int | None = None) -> bytes:
    """The bytes with one to six changes, most of them in the first `spots` bytes, where a header lies."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(1, 6))):
        limit = len(data) if spots is None or draw(st.integers(0, 9)) == 0 else min(spots, len(data))
        at = draw(st.integers(0, max(0, limit - 1)))
        match draw(st.sampled_from(["byte", "number", "long", "cut", "drop", "insert", "repeat"])):
            case "byte":
                data[at : at + 1] = bytes([draw(st.integers(0, 255))])
            case "number":
                data[at : at + 4] = (draw(st.sampled_from(_NUMBERS)) & 0xFFFFFFFF).to_bytes(4, "little")
            case "long":
                data[at : at + 8] = draw(st.sampled_from(_NUMBERS)).to_bytes(8, "little")
            case "cut":
                del data[at:]
            case "drop":
                del data[at : at + draw(st.integers(1, 64))]
            case "insert":
                data[at:at] = draw(st.binary(max_size=16))
            case "repeat":
                data[at:at] = data[at : at + draw(st.integers(1, 64))]
    return bytes(data)


_CALLS = [
    "AI_FILTER(PROMPT('is {0} like {1}?', a, b))",
    "AI_FILTER('is it ''red''?', a)",
    "AI_SCORE(PROMPT('{{x}} {0}', a), {'threshold': 0.6, 'anchor': 0})",
    "AI_CLASSIFY(a, ['x', 'y'], {'output_mode': 'multi'})",
    "AI_CLASSIFY(PROMPT('{0}', b), [{'label': 'x', 'description': 'd'}, {'label': 'y'}])",
    "AI_CLASSIFY_SCORES(a, ['x', 'y'])",
    "AI_JOIN(PROMPT('{0} {1}', t.a, u.b))",
    "AI_FILTER('red ' || a || ' or ' || b)",
]
_STATEMENTS = [
    "select id, {} as x from t where {} and id > 1 order by 2 limit 3",
    "create or replace table n as select * from t join u on t.id = u.id and {}",
    "with c as (select * from t where {}) select count(*) filter (where {}) from c, u group by all having {}",
    "select * from t where exists (select 1 from u where u.id = t.id and {}) or not {}",
    "insert into t select id, a, b from u where coalesce({}, {}) qualify row_number() over (order by {}) = 1",
    "update t set a = case when {} then a else b end where {}",
    "delete from t where id in (select id from u where {});",
    "select 1; select * from (select * from t union all select * from u where {}) -- {}\n; describe select {} from t",
    "copy (select * from t anti join u on {}) to 'x.csv' (header)",
    "merge into t using (select * from u where {}) s on t.id = s.id when matched then delete",
    "explain select distinct on ({}) * exclude (a) from t pivot (count(*) for b in ('x'))",
]
_TEXT = r"""
( ) , ; . ' " { } [ ] * = < > :: -> $$ -- /* */ ? : @ % ^ ~ ! | || && \ select from where and or not case when then else end
null is in between like exists as with recursive join left semi anti on using group by having order limit offset qualify
over partition union all except intersect distinct AI_FILTER( AI_JOIN( AI_CLASSIFY( PROMPT( ai_score (1,2) x.y t u a b 'it'
'{0}' '{' 1 -1 1e9 0x1f true lambda create table view insert into update set delete values pivot unnest struct map list $1
"""
_WORDS = [*_TEXT.split(), "E'\\n'", "é", "\n", "\t", "\0", "\u00a0", "\u202e"]


@st.composite
def statements(draw: st.DrawFn) -> str:
    """A statement with AI calls and up to eight words put in, taken out or doubled; now and then only words."""
    if draw(st.integers(0, 9)) == 0:
        return " ".join(draw(st.lists(st.sampled_from(_WORDS), max_size=30)))
    text = draw(st.sampled_from(_STATEMENTS))
    while "{}" in text:
        text = text.replace("{}", draw(st.sampled_from(_CALLS)), 1)
    for _ in range(draw(st.integers(0, 8))):
        at, length = draw(st.integers(0, len(text))), draw(st.integers(0, 12))
        match draw(st.integers(0, 3)):
            case 0:
                text = text[:at] + draw(st.sampled_from(_WORDS)) + text[at:]
            case 1:
                text = text[:at] + text[at + length :]
            case 2:
                text = text[:at] + text[at : at + length] * 2 + text[at + length :]
            case _:
                text = text[:at] + " " + draw(st.sampled_from(_WORDS)) + " " + text[at + length :]
    return text


templates = st.text(alphabet="{}{}{}012 3a_-'\"\\\n٣é", max_size=40) | st.integers(0, 6000).map(lambda n: "{" + "1" * n + "}")
