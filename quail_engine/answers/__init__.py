"""Answers by content key: recall, remember, upkeep. The only public names are the ones below."""

from quail_engine.answers.answer import Answer
from quail_engine.answers.failures import Failure
from quail_engine.answers.keys import answer_key, answer_keys, decided_key, features_key, question_key, truncated_key
from quail_engine.answers.store import AnswerStore
from quail_engine.answers.upkeep import CheckReport, QuestionStats, StoreStats

__all__ = [
    "Answer",
    "AnswerStore",
    "CheckReport",
    "Failure",
    "QuestionStats",
    "StoreStats",
    "answer_key",
    "answer_keys",
    "decided_key",
    "features_key",
    "question_key",
    "truncated_key",
]
