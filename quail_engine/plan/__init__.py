"""The planner: pure functions from a `Query` to the steps that answer it. No I/O, no tensors."""

from quail_engine.plan.explain import explain
from quail_engine.plan.logical import LogicalPlan, build
from quail_engine.plan.lower import lower
from quail_engine.plan.optimize import check_names, optimize
from quail_engine.plan.physical import AnswerTable, Ask, AskStep, FirstRows, PhysicalPlan, Rounds, RunSql
from quail_engine.plan.statistics import CallStatistics, Estimate, Source, Statistics

__all__ = [
    "AnswerTable",
    "Ask",
    "AskStep",
    "CallStatistics",
    "Estimate",
    "FirstRows",
    "LogicalPlan",
    "PhysicalPlan",
    "Rounds",
    "RunSql",
    "Source",
    "Statistics",
    "build",
    "check_names",
    "explain",
    "lower",
    "optimize",
]
