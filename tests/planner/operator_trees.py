# ruff: noqa: E501 - SQL is easier to read on one line
"""The shapes of AI queries that benchmarks of this field ask, over a few reports, articles and sites. The hints are true."""

from __future__ import annotations

SCHEMA = """
create table reports as select i as id, i % 6 as site,
    'report ' || i || ' of the ' || ['liver', 'heart', 'brain', 'lung', 'skin'][1 + i % 5]
    || case when i % 2 = 0 then ' adult' else '' end || case when i % 4 < 1 then ' severe' else '' end
    || case when i % 10 = 3 then ' fatal' else '' end || case when i % 3 < 2 then ' drug' else '' end as body
    from range(60) r(i);
create table articles as select i as id, i % 6 as site,
    'article ' || i || ' about the ' || ['liver', 'heart', 'brain', 'lung', 'skin'][1 + i % 5] || ['', ' trial'][1 + i % 2] as body
    from range(20) r(i);
create table sites as select i as site, 'site ' || i || ' for the ' || ['liver', 'heart', 'brain', 'lung', 'skin'][1 + i % 5]
    || case when i < 1 then ' abroad' else ' near' end as name from range(6) r(i);
"""


def contains(phrase: str, column: str, selectivity: float) -> str:
    return f"AI_FILTER('Contains ''{phrase}''?', {column}, {{'selectivity': {selectivity}}})"


def shares(one: str, other: str, selectivity: float) -> str:
    return f"AI_JOIN(PROMPT('{{0}} shares a word with {{1}}', {one}, {other}), {{'selectivity': {selectivity}}})"


ADULT, SEVERE, FATAL, DRUG = (
    contains(*asked)
    for asked in [("adult", "r.body", 0.5), ("severe", "r.body", 0.25), ("fatal", "r.body", 0.1), ("drug", "r.body", 0.67)]
)
TRIAL, ABROAD = contains("trial", "a.body", 0.5), contains("abroad", "s.name", 0.17)
ABOUT = shares("r.body", "a.body", 0.2)
BOTH = "reports r join articles a on"
AT_SITE = shares("r.body", "s.name", 0.2)

TREES = {
    "filter_chain_1": f"select id from reports r where {ADULT}",
    "filter_chain_2": f"select id from reports r where {ADULT} and {SEVERE}",
    "filter_chain_3": f"select id from reports r where {ADULT} and {SEVERE} and {DRUG}",
    "filter_chain_4": f"select id from reports r where {ADULT} and {SEVERE} and {DRUG} and {FATAL}",
    "join": f"select r.id, a.id from {BOTH} {ABOUT}",
    "filter_then_join": f"select r.id, a.id from {BOTH} {ABOUT} where {FATAL}",
    "filters_on_both_sides": f"select r.id, a.id from {BOTH} {ABOUT} where {FATAL} and {TRIAL}",
    "two_joins_on_one_anchor": f"select r.id, a.id, s.site from {BOTH} {ABOUT} join sites s on r.site = s.site and {AT_SITE}",
    "star": f"select r.id, a.id, s.site from {BOTH} {ABOUT} join sites s on r.site = s.site and {AT_SITE} where {DRUG} and {TRIAL} and {ABROAD}",
    "dimension_before_facts": f"select r.id from reports r join sites s on r.site = s.site where {DRUG} and {ABROAD}",
    "self_join_chain": "select count(*) as n from reports r1 join articles a1 on r1.site = a1.site and "
    + shares("r1.body", "a1.body", 0.2)
    + " join reports r2 on r2.site = a1.site and r2.id > r1.id and "
    + shares("a1.body", "r2.body", 0.2)
    + " join articles a2 on a2.site = r2.site and a2.id > a1.id and "
    + shares("r2.body", "a2.body", 0.2)
    + f" where {contains('fatal', 'r2.body', 0.1)}",
    "classify_filter_then_join": f"select r.id, a.id from (select * from reports where AI_CLASSIFY(body, ['liver', 'heart', 'brain']) = 'liver') r join articles a on {ABOUT}",
    "exists": f"select id from articles a where exists (select 1 from reports r where r.site = a.site and {SEVERE})",
    "group_by_class": "select AI_CLASSIFY(body, ['liver', 'heart', 'brain', 'lung', 'skin']) as organ, count(*) as n from reports group by organ",
}
