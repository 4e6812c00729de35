"""How many questions the planner leaves out, by operator tree and selectivity, on the mock engine.

    QUAIL_DATA=data python -m bench.requests

The naive plan asks operator by operator in the order of the text, after the relational conditions: each about the different
inputs of the rows that the operators before it left, and without an early stop. Questions have no phrase, so that the mock's
answers are spread evenly, and their thresholds make each TRUE for the share of inputs that heads its column.
"""

from __future__ import annotations

import math
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import duckdb

import quail_engine

SELECTIVITIES = (0.5, 0.2, 0.05)
_MOCK_MARGIN = 4.0  # the mock's margins are spread evenly from minus this to this


@dataclass(frozen=True)
class Operator:
    question: str
    arguments: tuple[str, ...]
    selectivity: float | None = None  # None: that of the column

    def sql(self, selectivity: float) -> str:
        share = selectivity if self.selectivity is None else self.selectivity
        threshold = 1 / (1 + math.exp(-_MOCK_MARGIN * (1 - 2 * share)))
        places = " ".join(f"{{{i}}}" for i in range(len(self.arguments)))
        prompt = f"PROMPT('{self.question} {places}', {', '.join(self.arguments)})"
        return f"AI_FILTER({prompt}, {{'threshold': {threshold!r}}})"


@dataclass(frozen=True)
class Tree:
    name: str
    relations: tuple[str, ...]
    query: str  # `{0}` … are the operators
    operators: tuple[Operator, ...]
    linked: str = "true"  # the relational conditions


REPORT, TERM, PRODUCT = "r.text", "a.term", "b.term"
STAR = (
    Operator("Does it mention", (REPORT, TERM)),
    Operator("Is it caused by", (REPORT, PRODUCT)),
    Operator("Is it serious?", (REPORT,)),
    Operator("Is it of the heart?", (TERM,)),
    Operator("Is it of the skin?", (PRODUCT,)),
)
CHAIN = tuple(Operator(f"Is it {word}?", ("m.text",)) for word in ("urgent", "angry", "about a card"))
MIXED = tuple(Operator(o.question, o.arguments, share) for o, share in zip(CHAIN, (0.5, 0.2, 0.05), strict=True))

TREES = (
    Tree("three filters: 0.5, 0.2, 0.05", ("messages m",), "from messages m where {0} and {1} and {2}", MIXED),
    Tree("filter → join", ("reports r", "terms a"), "from reports r join terms a on {0} where {1}", (STAR[0], STAR[2])),
    Tree(
        "filters on both sides → join",
        ("reports r", "terms a"),
        "select 1 from reports r join terms a on {0} where {1} and {2}",
        (STAR[0], STAR[2], STAR[3]),
    ),
    Tree(
        "star: three filters, two joins",
        ("reports r", "terms a", "terms b"),
        "select 1 from reports r join terms a on {0} join terms b on {1} where {2} and {3} and {4}",
        STAR,
    ),
    Tree("LIMIT 10 of 10,000 rows", ("messages m",), "select id from messages m where {0} limit 10", CHAIN[:1]),
    Tree(
        "LIMIT 10 through a join, two filters",
        ("messages m", "senders s"),
        "select m.id from messages m join senders s on s.id = m.sender where {0} and {1} limit 10",
        (CHAIN[0], Operator("Is it known?", ("s.name",))),
        "s.id = m.sender",
    ),
    Tree(
        "EXISTS among 500 partners",
        ("senders s", "(from messages where id <= 500) m"),
        "select s.id from senders s where exists (select 1 from messages m where m.id <= 500 and {0})",
        (Operator("Would they write", ("s.name", "m.text")),),
    ),
)


def load(connection: duckdb.DuckDBPyConnection, data: Path) -> None:
    """10,000 messages of 50 senders; 300 reports, and 60 terms."""
    files = " union ".join(f"select text from '{data}/{name}.parquet'" for name in ("clinc150", "sms_spam", "banking77"))
    connection.execute(
        f"""
        create table messages as
            select row_number() over (order by text) as id, id % 50 as sender, text
            from ({files} order by hash(text) limit 10000);
        create table senders as select i as id, 'sender ' || i as name from range(50) r(i);
        create table reports as select report_text as text from '{data}/vaers_reports.parquet' order by report_id limit 300;
        create table terms as
            select reaction as term from '{data}/vaers_terms.parquet' order by n_reports desc, reaction limit 60;
        """
    )


def naive(tree: Tree, selectivity: float, oracle: duckdb.DuckDBPyConnection) -> int:
    """Requests of the naive plan."""
    asked, known = 0, []
    for number, operator in enumerate(tree.operators):
        names = {argument.split(".")[0] for argument in operator.arguments}
        own = ", ".join(relation for relation in tree.relations if relation.split()[-1] in names)
        texts = ", ".join(f"{argument} as a{i}" for i, argument in enumerate(operator.arguments))
        answers = f"select distinct {texts}, {operator.sql(selectivity)} as yes from {own}"
        oracle.execute(f"create or replace temp table answers{number} as {answers}")
        source = ", ".join([*tree.relations, *(f"answers{i}" for i in range(number))])
        where = " and ".join([tree.linked, *known])
        texts = ", ".join(operator.arguments)
        asked += oracle.execute(f"select count(*) from (select distinct {texts} from {source} where {where})").fetchall()[0][0]
        known += [f"answers{number}.yes", *(f"answers{number}.a{i} = {text}" for i, text in enumerate(operator.arguments))]
    return asked


def planned(tree: Tree, selectivity: float, connection: duckdb.DuckDBPyConnection) -> int:
    """Requests that were asked, with those of samples, by a session that knows no answer."""
    with quail_engine.connect(connection, engine="mock", max_requests=10**9) as con:
        con.sql(tree.query.format(*(operator.sql(selectivity) for operator in tree.operators)))
        return con.report.asked


def main() -> int:
    data = Path(os.environ["QUAIL_DATA"])
    lines = ["| tree | " + " | ".join(f"{share}" for share in SELECTIVITIES) + " |", "|---|" + "---|" * len(SELECTIVITIES)]
    with duckdb.connect() as connection, quail_engine.oracle() as oracle:
        load(connection, data)
        load(oracle, data)
        for tree in TREES:
            cells = []
            for share in SELECTIVITIES:
                before, after = naive(tree, share, oracle), planned(tree, share, connection)
                cells.append(f"{before:,} → {after:,} ({before / after:.1f}x)")
            lines.append(f"| {tree.name} | {' | '.join(cells)} |")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
