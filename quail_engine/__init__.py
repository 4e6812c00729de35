"""AI predicates in SQL: DuckDB runs the SQL, an open-weight model that is only prefilled answers.

import quail_engine

con = quail_engine.connect("warehouse.duckdb", engine="mock")
con.sql("select id, AI_FILTER(PROMPT('Is it urgent? {0}', body)) as urgent from tickets")
"""

from quail_engine.errors import (
    AnswerStoreError,
    BudgetError,
    EngineError,
    ModelError,
    QuailError,
    SettingsError,
    SqlError,
)
from quail_engine.evaluation import Evaluation
from quail_engine.oracle import oracle
from quail_engine.progress import Answered, Asking, Event, Listener, Warned, amount, duration
from quail_engine.report import RunReport
from quail_engine.report_page import run_lines, run_page
from quail_engine.run_plan import NodePlan, run_plan_data, run_plan_page, run_plan_text
from quail_engine.session import Connection, DatabaseError, Session, connect
from quail_engine.settings import OVERRIDES, Settings
from quail_engine.sql import mentions_ai
from quail_engine.sql.dialects import Transpiled
from quail_engine.wording import naming_ai_functions

__all__ = [
    "OVERRIDES",
    "AnswerStoreError",
    "Answered",
    "Asking",
    "BudgetError",
    "Connection",
    "DatabaseError",
    "EngineError",
    "Evaluation",
    "Event",
    "Listener",
    "ModelError",
    "NodePlan",
    "QuailError",
    "RunReport",
    "Session",
    "Settings",
    "SettingsError",
    "SqlError",
    "Transpiled",
    "Warned",
    "amount",
    "connect",
    "duration",
    "mentions_ai",
    "naming_ai_functions",
    "oracle",
    "run_lines",
    "run_page",
    "run_plan_data",
    "run_plan_page",
    "run_plan_text",
]
