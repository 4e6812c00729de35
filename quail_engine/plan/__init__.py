"""The planner: pure functions from a `Query` to the steps that answer it. No I/O, no tensors."""

from quail_engine.plan.choices import choices
from quail_engine.plan.data import as_data
from quail_engine.plan.explain import Counted, Found, explain
from quail_engine.plan.join_counts import JoinCounts, Side, SideCount, ordered_freely, pairs_to_count
from quail_engine.plan.logical import AiFilter, AiJoin, LogicalPlan, build
from quail_engine.plan.lower import lower
from quail_engine.plan.optimize import check_names, optimize
from quail_engine.plan.order import Asked, cheapest
from quail_engine.plan.physical import AnswerTable, Ask, AskStep, FirstRows, PhysicalPlan, Rounds, RunSql
from quail_engine.plan.rules.order_joins import order_joins
from quail_engine.plan.statistics import CallStatistics, ConjunctionStatistics, Estimate, Reading, Source, Statistics
from quail_engine.plan.text import as_text, number, tokens_factor
from quail_engine.plan.together import Link, Together
from quail_engine.plan.tree import (
    Alternative,
    AskNode,
    CallNode,
    Choice,
    Figures,
    FirstRowsNode,
    Layout,
    PlanTree,
    RoundsNode,
    total,
    weakest,
)

__all__ = [
    "AiFilter",
    "AiJoin",
    "Alternative",
    "AnswerTable",
    "Ask",
    "AskNode",
    "AskStep",
    "Asked",
    "CallNode",
    "CallStatistics",
    "Choice",
    "ConjunctionStatistics",
    "Counted",
    "Estimate",
    "Figures",
    "FirstRows",
    "FirstRowsNode",
    "Found",
    "JoinCounts",
    "Layout",
    "Link",
    "LogicalPlan",
    "PhysicalPlan",
    "PlanTree",
    "Reading",
    "Rounds",
    "RoundsNode",
    "RunSql",
    "Side",
    "SideCount",
    "Source",
    "Statistics",
    "Together",
    "as_data",
    "as_text",
    "build",
    "cheapest",
    "check_names",
    "choices",
    "explain",
    "lower",
    "number",
    "optimize",
    "order_joins",
    "ordered_freely",
    "pairs_to_count",
    "tokens_factor",
    "total",
    "weakest",
]
