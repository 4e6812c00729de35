"""A connection on the mock, with four tickets."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from quail_engine import Connection, Event, Session, Settings, Warned

TICKETS = """
create table tickets as select * from (values
    (1, 'north', 'alpha beta', ['alpha', 'beta'], '{"labels": ["alpha", "beta"]}'::json),
    (2, 'north', 'beta', ['alpha', 'beta'], '{"labels": ["beta"]}'::json),
    (3, 'south', 'a beta, unanswerable', ['beta', 'gamma'], '{"labels": []}'::json),
    (4, 'south', null, ['alpha', 'beta'], null)
) v(id, region, body, cats, tags)
"""


@pytest.fixture
def warned() -> list[str]:
    return []


@pytest.fixture
def con(warned: list[str]) -> Iterator[Connection]:
    """Of `tickets`, number 3 cannot be answered and number 4 has no text. `warned` gathers what the session says."""

    def listen(event: Event) -> None:
        if isinstance(event, Warned):
            warned.append(event.text)

    settings = Settings.of({"engine": "mock", "mock_fail": "unanswerable", "max_error_ratio": 1})
    with Connection(duckdb.connect(), Session(settings, listener=listen), owned=True) as connection:
        connection.sql(TICKETS, dialect="duckdb")
        yield connection
