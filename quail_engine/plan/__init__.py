"""The planner: pure functions from a `Query` to the steps that answer it. No I/O, no tensors."""

from quail_engine.plan.explain import explain
from quail_engine.plan.logical import LogicalPlan, build
from quail_engine.plan.lower import lower
from quail_engine.plan.optimize import optimize
from quail_engine.plan.physical import AnswerTable, Ask, AskStep, FirstRows, PhysicalPlan, Rounds, RunSql

__all__ = [
    "AnswerTable",
    "Ask",
    "AskStep",
    "FirstRows",
    "LogicalPlan",
    "PhysicalPlan",
    "Rounds",
    "RunSql",
    "build",
    "explain",
    "lower",
    "optimize",
]
