"""`quail_sample`: every model reads the same share of the rows, so that joins still match, and says what all would cost."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture
from dbt_common.exceptions import DbtRuntimeError


@pytest.fixture(scope="class")
def models() -> dict[str, str]:
    table = "{{ config(materialized='table') }} "
    return {
        "customers.sql": "{{ config(materialized='table', meta={'quail_key': 'id'}) }} select i as id from range(200) r(i)",
        "tickets.sql": "{{ config(materialized='table', meta={'quail_key': 'customer'}) }}"
        " select i as id, (i % 200)::varchar as customer, 'text ' || i as body from range(600) r(i)",
        "whole.sql": "{{ config(materialized='table') }} select i as id from range(10) r(i)",
        "asked.sql": table + "select t.id, t.customer, AI_FILTER('urgent?', t.body) a from {{ ref('tickets') }} t",
        "joined.sql": table + "select c.id, count(t.id) as n from {{ ref('customers') }} c"
        " left join {{ ref('asked') }} t on t.customer = c.id::varchar group by all",
        "unsampled.sql": table + "select count(*) as n from {{ ref('whole') }}",
        "grows.sql": "{{ config(materialized='incremental') }} select t.id from {{ ref('tickets') }} t"
        "{% if is_incremental() %} where t.id not in (select id from {{ this }}){% endif %}",
    }


def one(project: Any, sql: str) -> Any:
    return project.run_sql(sql, fetch="one")[0]


def test_a_sample_is_the_same_rows_in_every_model(project: Any) -> None:
    sample = ["--vars", "{quail_sample: 0.1}"]
    results, output = run_dbt_and_capture(["--debug", "run", *sample])
    customers = one(project, "select count(*) from {schema}.joined")
    assert 5 <= customers <= 45  # 20 of 200 on average
    assert one(project, "select min(n) = 3 and max(n) = 3 from {schema}.joined")  # all tickets of those that were taken
    assert one(project, "select count(*) from {schema}.asked") == 3 * customers
    assert one(project, "select n from {schema}.unsampled") == 10
    assert one(project, "select count(*) from {schema}.tickets") == 600  # what nothing limits is whole
    asked = next(r.adapter_response["asked"] for r in results if r.node.name == "asked")
    assert asked == 3 * customers
    assert f"asking {asked} (" in output
    assert f"a sample of 0.1 of the rows, all of them would be asking ≈ {asked * 10} (" in output
    whole = f"a sample of 0.1 of the rows: all of them would be ≈ {asked * 10:,} inputs, {asked * 9:,} to be asked yet"
    assert f"1 node with AI calls, {asked} asked, 0 recalled" in output
    assert f"{whole} (≈ " in output
    before = one(project, "select string_agg(id, ',' order by id) from {schema}.joined")
    again, output = run_dbt_and_capture(["run", *sample])
    assert f"0 asked, {asked} recalled; {whole}\n" in output, "nothing is known of what a question costs"
    assert one(project, "select string_agg(id, ',' order by id) from {schema}.joined") == before
    assert next(r.adapter_response["asked"] for r in again if r.node.name == "asked") == 0
    assert one(project, "select count(*) from {schema}.grows") == 3 * customers
    run_dbt(["run"])
    assert one(project, "select count(*) from {schema}.asked") == 600
    assert one(project, "select count(*) from {schema}.grows") == 600
    with pytest.raises(DbtRuntimeError, match=r"The variable quail_sample: sample must be a number between 1e-06 and 1, not 2"):
        run_dbt(["run", "--vars", "{quail_sample: 2}"])
