"""The dbt adapter `type: quail`: dbt-duckdb by inheritance, with every statement passing through `quail_engine`.

dbt finds the adapter by this package's `Plugin`. The dependency on `duckdb` is what makes dbt search dbt-duckdb's macros
and materializations after ours.
"""

from dbt.adapters.base.plugin import AdapterPlugin

from dbt.adapters.quail.credentials import QuailCredentials
from dbt.adapters.quail.impl import QuailAdapter
from dbt.include import quail

Plugin = AdapterPlugin(
    adapter=QuailAdapter,  # type: ignore[arg-type]  # dbt's protocol is narrower than its own base class
    credentials=QuailCredentials,
    include_path=quail.PACKAGE_PATH,
    dependencies=["duckdb"],
    project_name="dbt_quail_adapter",  # as in dbt_project.yml beside the macros
)
