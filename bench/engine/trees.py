"""The operator trees that are measured: statements over the labelled data sets in the folder `QUAIL_DATA`.

`{n}` in a statement is the number of rows at the chosen scale. Every statement reads its tables from there with
`read_parquet`, so that a copy of the data sets is all it needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Tree:
    name: str
    sql: str
    rows: int  # at scale 1
    least: int = 10  # rows at any scale

    def statement(self, scale: float, data: Path) -> str:
        n = max(self.least, round(self.rows * scale))
        return self.sql.replace("{n}", str(n)).replace("{data}", str(data))


_MOVIES = "(SELECT text FROM read_parquet('{data}/sentiment_sentences.parquet') LIMIT {n})"
_TICKETS = "(SELECT text FROM read_parquet('{data}/it_tickets.parquet') LIMIT {n})"
# Twelve reports one after the other, some 1,600 characters.
_REPORTS = """(SELECT string_agg(report_text, ' ' ORDER BY report_id) AS text FROM
     (SELECT report_id, report_text, row_number() OVER (ORDER BY report_id) // 12 AS part
      FROM read_parquet('{data}/vaers_reports.parquet')) GROUP BY part ORDER BY part LIMIT {n})"""
_TERMS = "(SELECT reaction AS term FROM read_parquet('{data}/vaers_terms.parquet') ORDER BY n_reports DESC LIMIT 60)"
_FEW_TERMS = _TERMS.replace("LIMIT 60", "LIMIT 15")
_CLAIMS = "(SELECT DISTINCT claim FROM read_parquet('{data}/fever_pairs.parquet') ORDER BY 1 LIMIT {n})"
_EVIDENCE = "(SELECT DISTINCT evidence FROM read_parquet('{data}/fever_pairs.parquet') ORDER BY 1 LIMIT 20)"
_BANKING = "(SELECT text FROM read_parquet('{data}/banking77.parquet') LIMIT {n})"
_SHOTS = ", ".join(
    f"{{'input': '{text}', 'answer': '{answer}'}}"
    for text, answer in (
        ("I lost my wallet yesterday and all the cards that were in it. Please block them.", "true"),
        ("What exchange rate do you use when I pay abroad in another currency?", "false"),
        ("The machine kept my card and gave no money.", "true"),
        ("How long does a transfer to another bank take to arrive?", "false"),
        ("My new card has not come yet, it should have been here last week.", "true"),
        ("Please change the address on my account.", "false"),
    )
)
_INTENTS = ["card lost", "card payment", "exchange rate", "transfer", "top up", "verify identity", "refund", "cash withdrawal"]
_CONDITIONS = [
    f"AI_FILTER('Is it {what}?', text)" for what in ("about hardware", "urgent", "a request", "written by a manager")
]
_MENTIONS = "AI_JOIN(PROMPT('Report {0} mentions the reaction {1}', r.text, a.term))"
_CAUSED = "AI_JOIN(PROMPT('In report {0} a vaccine caused {1}', r.text, b.term))"
_BEFORE = "AI_JOIN(PROMPT('The patient of report {0} had {1} before', r.text, c.term))"

TREES = (
    Tree("short filter", f"""SELECT count(*) FROM {_BANKING}
        WHERE AI_FILTER('Does the customer ask about a card?', text)""", 2_000),
    Tree("few shots", f"""SELECT count(*) FROM {_BANKING}
        WHERE AI_FILTER('Does the customer ask about a card?', text, {{'examples': [{_SHOTS}]}})""", 2_000),
    *(Tree(f"chain of {count}", f"SELECT count(*) FROM {_TICKETS} WHERE {' AND '.join(_CONDITIONS[:count])}", 400)
      for count in (1, 2, 3, 4)),
    Tree("long filter", f"SELECT count(*) FROM {_REPORTS} WHERE AI_FILTER('Did the patient see a doctor?', text)", 200),
    Tree("second question", f"""SELECT AI_FILTER('Did the patient see a doctor?', text), AI_FILTER('Was it a fever?', text)
        FROM {_REPORTS}""", 100),
    Tree("join", f"""SELECT count(*) FROM {_REPORTS} r JOIN {_TERMS} t
        ON AI_JOIN(PROMPT('Report {{0}} mentions the reaction {{1}}', r.text, t.term))""", 40),
    Tree("filter, join", f"""SELECT count(*) FROM {_REPORTS} r JOIN {_TERMS} t
        ON AI_JOIN(PROMPT('Report {{0}} mentions the reaction {{1}}', r.text, t.term))
        WHERE AI_FILTER('Was the patient a woman?', r.text)""", 40),
    Tree("two joins", f"""WITH t AS {_FEW_TERMS} SELECT count(*) FROM {_REPORTS} r
        JOIN t a ON {_MENTIONS} JOIN t b ON {_CAUSED}""", 20),
    Tree("three joins", f"""WITH t AS {_FEW_TERMS} SELECT count(*) FROM {_REPORTS} r
        JOIN t a ON {_MENTIONS} JOIN t b ON {_CAUSED} JOIN t c ON {_BEFORE}""", 20),
    Tree("claims and evidence", f"""SELECT count(*) FROM {_CLAIMS} c JOIN {_EVIDENCE} e
        ON AI_JOIN(PROMPT('The evidence {{0}} supports the claim {{1}}', e.evidence, c.claim))
        WHERE AI_FILTER('Is it about a person?', c.claim) AND AI_FILTER('Is it about a person?', e.evidence)""", 60),
    Tree("same sentiment", f"""WITH m AS {_MOVIES} SELECT count(*) FROM m a JOIN m b ON a.text < b.text
        AND AI_JOIN(PROMPT('{{0}} and {{1}} have the same sentiment', a.text, b.text))""", 30),
    Tree("both aliases", f"""WITH m AS {_MOVIES} SELECT count(*) FROM m a JOIN m b ON a.text < b.text
        AND AI_JOIN(PROMPT('{{0}} and {{1}} are about the same thing', a.text, b.text))
        WHERE AI_FILTER('Is it about food?', a.text) AND AI_FILTER('Is it about food?', b.text)""", 30),
    Tree("classify", f"SELECT AI_CLASSIFY(text, {_INTENTS!r}) AS c, count(*) FROM {_BANKING} GROUP BY 1", 600),
    Tree("growing traces", """SELECT count(*) FROM (SELECT transcript[:step * 1200] AS text FROM
        (SELECT transcript FROM read_parquet('{data}/agent_traces.parquet') LIMIT 3), range(1, {n}) r(step))
        WHERE AI_FILTER('Did the agent cancel a reservation?', text)""", 8, least=4),
)  # fmt: skip
