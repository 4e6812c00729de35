"""A session: one engine, one answer store, any number of DuckDB connections. What `connect` and the dbt adapter stand on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Any

import duckdb
import pyarrow as pa

from quail_engine.answering import Terms
from quail_engine.answers import AnswerStore
from quail_engine.answers.features import FeatureStore
from quail_engine.budgets import Budgets, Spent
from quail_engine.errors import BudgetError, QuailError, SettingsError, SqlError
from quail_engine.evaluation import Evaluation, evaluation, judging_query
from quail_engine.execute import execute, plans
from quail_engine.fingerprints import Fingerprint, PromptChange
from quail_engine.inquiries import Services
from quail_engine.lookups import register
from quail_engine.model import Model, load_model
from quail_engine.owner import Owner
from quail_engine.plan import PlanTree, as_data, as_text, check_names
from quail_engine.plan_page import plan_page
from quail_engine.progress import Listener, Terminal, Warned
from quail_engine.prompts.token_store import TokenStore
from quail_engine.report import RunReport
from quail_engine.resolve import RESULT
from quail_engine.settings import DIALECTS, Settings, is_url
from quail_engine.sql import contains_ai, mentions_ai
from quail_engine.sql.dialects import Transpiled, transpile
from quail_engine.wording import Deliver

DatabaseError = duckdb.Error
"""What DuckDB raises; named here so that the edges need not import duckdb."""

_CHECK = "SELECT AI_FILTER('Is this about the weather?', 'It rains.')"


class Session:
    """Answers AI statements on DuckDB connections. Thread-safe; loads no model before the first question."""

    def __init__(self, settings: Settings, listener: Listener | None = None) -> None:
        """`listener` is called with progress events, on the thread that runs the statement; default: standard error."""
        _known_dialect(settings.sql_dialect)
        check_names(settings.disable_rules)
        self.settings = settings
        self._listener: Listener = listener or Terminal()
        self._store = AnswerStore(settings.answers, settings.engine, lambda text: self._listener(Warned(text)))
        self._tokens = _token_store(settings)
        self._features = _feature_store(settings)
        self._models: dict[str, Model] = {}
        self._lock = threading.Lock()
        self._owner = Owner(settings.token_budget, settings.kv_bytes)
        self.start_run()

    def start_run(self) -> None:
        """From here on a run's and its models' budgets count from zero, and `refresh` asks again what was answered before."""
        self._run_began = time.time_ns() // 1000
        self._refreshes_since: int | None = None  # None: this run has refreshed nothing yet
        self._spent_by_run = Spent()
        self._spent_by_node: dict[str, Spent] = {}
        self._told: set[str] = set()  # warnings of a dialect: once a run

    def register(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Adds the look-ups to a database instance; once is enough for all its connections."""
        register(connection)

    def contains_ai(self, text: str) -> bool:
        """Whether a text holds an AI call, and not only a comment or a string that mentions one."""
        return contains_ai(text)

    def transpile(self, text: str, dialect: str, queries: tuple[str, ...] = ()) -> Transpiled:
        """A vendor's SQL as DuckDB's, with native AI calls. What is ignored of it is warned of, once a run.

        `queries` are parts of the text that are DuckDB's already. Raises SqlError, pointing into `text`, for what has no
        counterpart; SettingsError for a dialect that is not known.
        """
        _known_dialect(dialect)
        transpiled = transpile(text, dialect, queries)
        for warning in transpiled.warnings:
            if warning not in self._told:
                self._told.add(warning)
                self._listener(Warned(warning))
        return transpiled

    def execute(
        self,
        cursor: duckdb.DuckDBPyConnection,
        text: str,
        node: str | None = None,
        dialect: str | None = None,
        overrides: Mapping[str, Any] | None = None,
        refresh: bool | datetime = False,
        listener: Listener | None = None,
        deliver: Deliver | None = None,
        cancelled: threading.Event | None = None,
        parts: Sequence[str] = (),
    ) -> RunReport:
        """Runs one or several statements on `cursor` and leaves the last one's result there to be fetched.

        `dialect` is that of `text`; default: the setting `sql_dialect`.
        `node` names who asks, for budgets and errors; `overrides` are settings for these statements
        (`Settings.with_overrides`); `refresh` asks again what was not answered since the run began, or since a moment;
        `deliver` runs the SQL of a statement that needs no more answers, in place of `cursor.execute`. Another thread may set
        `cancelled`: the statement then stops after the batch in flight, whose answers are kept. `parts` are texts that an
        author wrote of `text`: an error of DuckDB is told in the first that holds its place. Raises QuailError for what a user
        can mend, duckdb.Error for what DuckDB refuses. A transaction that is open is used and left open.
        """
        written = self.transpile(text, dialect or self.settings.sql_dialect)
        if not mentions_ai(written.text):
            (deliver or cursor.execute)(written.text)
            return RunReport()
        settings = self.settings.with_overrides(overrides or {})
        check_names(settings.disable_rules)
        services = self._services(settings, listener or self._listener, node or "", refresh)
        try:
            return execute(services, cursor, written.text, cancelled or threading.Event(), deliver, parts)
        except SqlError as error:
            raise written.error(error) from None

    def explain(
        self,
        cursor: duckdb.DuckDBPyConnection,
        text: str,
        dialect: str | None = None,
        overrides: Mapping[str, Any] | None = None,
        analyze: bool = False,
        asked_before: set[bytes] | None = None,
        unbuilt: bool = False,
    ) -> list[PlanTree]:
        """The plans of the statements with AI calls, with what they are expected to cost; nothing is asked.

        `analyze` runs the statements, and puts what happened beside it. `asked_before` holds the keys of what will have been
        asked before this text, as by the models before it in a dbt run; the text's own are added.
        Raises duckdb.Error for what DuckDB refuses; `unbuilt` makes a note of the plan of that, as of a table that is built by
        then.
        """
        written = self.transpile(text, dialect or self.settings.sql_dialect)
        services = self._services(self.settings.with_overrides(overrides or {}), self._listener)
        try:
            return plans(services, cursor, written.text, analyze, asked_before, unbuilt)
        except SqlError as error:
            raise written.error(error) from None

    def judge(self, cursor: duckdb.DuckDBPyConnection, sql: str, name: str, node: str = "") -> Evaluation:
        """The answers that a query gives, beside gold: its columns are gold, answer and/or score, and text.

        It asks nothing: an AI call in it is answered by the store. Raises QuailError where that has no answer.
        """
        query = sql.strip().rstrip(";")
        self.execute(cursor, f"DESCRIBE {query}", dialect="duckdb")
        judging = judging_query(query, [(row[0], row[1]) for row in cursor.fetchall()])
        try:
            self.execute(cursor, judging, dialect="duckdb", overrides={"max_requests": 0})
        except BudgetError:
            raise QuailError(
                f"{name}: a report asks nothing, and some of these rows have no stored answer yet. "
                "Run the query or the model first, with the same answers."
            ) from None
        return evaluation(name, cursor.fetchall(), node)

    def prompt_change(self, table: str, text: str) -> PromptChange | None:
        """How what `text` would ask differs from what the rows of `table` were asked; None where it asks nothing else.

        Also None where nobody knows what they were asked: `keep_prompts` was not called, or there is no folder of answers.
        """
        now, before = self._fingerprint(text), self._kept_fingerprint(table)
        return PromptChange(before, now) if now and before and now.asks_more_than(before) else None

    def keep_prompts(self, table: str, text: str, report: RunReport | None) -> None:
        """Keeps what `text`, which has filled `table`, asks, and what it cost.

        Nothing is kept of a run that asks nothing, or that had no row to ask something new of.
        """
        now, before = self._fingerprint(text), self._kept_fingerprint(table)
        looked_up = report.calls if report else 0
        if now and (before is None or looked_up or not now.asks_more_than(before)):
            self._store.keep_table_record(table, now.measured(report, before).as_record())

    def _fingerprint(self, text: str) -> Fingerprint | None:
        if not mentions_ai(text):
            return None
        try:
            found = Fingerprint.of(text, self.settings)
        except SqlError:
            return None  # the statement itself is about to be refused, with its place
        return found if found.prompts else None

    def _kept_fingerprint(self, table: str) -> Fingerprint | None:
        record = self._store.table_record(table)
        return None if record is None else Fingerprint.from_record(record)

    def check(self) -> list[tuple[str, str]]:
        """What a user wants to know before a run: tries the answer store, verifies and loads the model, answers one question.

        Raises QuailError.
        """
        self._store.try_write()
        if self.settings.engine == "local":
            from quail_engine.models import check

            check(self.settings.model, self.settings.models_path)
        model = self._model(self.settings.model)
        with duckdb.connect() as connection:
            self.register(connection)
            self.execute(connection, _CHECK, dialect="duckdb", listener=lambda event: None)
            answer = connection.fetchall()[0][0]
        roofline = model.engine.roofline
        rate = f"about {roofline.tokens_per_second:,.0f} tokens/s ({roofline.source})"
        return [
            ("versions", _versions()),
            ("engine", self.settings.engine),
            ("model", model.name),
            ("weights", model.engine.weights if self.settings.engine == "mock" else f"sha256 {model.engine.weights}"),
            ("prompt layout", model.prompter.layout),
            ("answers", f"{self._store.place} ({self.settings.answers.mode})"),
            ("device", f"{model.engine.device}, {model.engine.dtype}, {rate}"),
            *_cuda_devices(self.settings),
            ("test question", f"answered {answer}"),
        ]

    def close(self) -> None:
        """Frees the models and closes the store. What was answered is on disk."""
        for model in self._models.values():
            model.close()
        self._models.clear()
        self._store.close()
        self._tokens.close()
        self._features.close()

    def _services(self, settings: Settings, listener: Listener, node: str = "", refresh: bool | datetime = False) -> Services:
        spent = {"run": self._spent_by_run}
        if node:
            spent["model"] = self._spent_by_node.setdefault(node, Spent())
        terms = Terms(Budgets(settings, spent), node, self._since(refresh))
        return Services(settings, self._model, self._owner, listener, terms)

    def _since(self, refresh: bool | datetime) -> int:
        """From when on answers count, in microseconds since 1970 UTC."""
        if isinstance(refresh, datetime):
            return round(refresh.timestamp() * 1_000_000)
        if not refresh:
            return 0
        with self._lock:
            if self._refreshes_since is None:
                # An answer from a clock that was ahead is not one of this run, and must not outlive those that replace it.
                latest = self._store.latest()
                self._refreshes_since = latest + 1 if latest > time.time_ns() // 1000 else self._run_began
            return self._refreshes_since

    def _model(self, name: str) -> Model:
        with self._lock:
            if name not in self._models:
                self._models[name] = load_model(
                    name, self.settings, self._store, self._tokens, self._features, lambda text: self._listener(Warned(text))
                )
            return self._models[name]


def _known_dialect(name: str) -> None:
    if name not in DIALECTS:
        raise SettingsError(f"The dialect {name!r} is not built; there are {', '.join(DIALECTS)}.")


def _versions() -> str:
    """Of what answers depend on, as far as it is installed: without the extra `local` there is no torch."""
    found = []
    for name in ("dbt-quail", "duckdb", "torch"):
        with suppress(PackageNotFoundError):
            found.append(f"{name} {version(name)}")
    return ", ".join(found)


def _token_store(settings: Settings) -> TokenStore:
    """Rows' token ids lie beside the answers; a mock, and a session without a folder, keeps them in memory."""
    folder = _beside_answers(settings, "tokens")
    if settings.engine == "mock" or settings.tokens == "off" or folder is None:
        return TokenStore(None, keep=False)
    return TokenStore(folder, keep=settings.tokens == "keep")


def _feature_store(settings: Settings) -> FeatureStore:
    """Features lie beside the answers, a mock's apart."""
    folder = _beside_answers(settings, "features")
    if folder and settings.engine == "mock":
        folder /= "mock"
    return FeatureStore(folder, settings.feature_bytes, writes=settings.answers.mode == "read_write")


def _beside_answers(settings: Settings, name: str) -> Path | None:
    """A folder beside that of the answers; None where these have none on this machine."""
    path = settings.answers.path
    return None if path is None or is_url(path) else Path(path).expanduser().absolute().parent / name


def _plan_texts(trees: Sequence[PlanTree]) -> str:
    return "\n\n".join(map(as_text, trees)) or "No AI calls: DuckDB runs this as it is."


def _plan_data(trees: Sequence[PlanTree]) -> list[dict[str, Any]]:
    return [as_data(tree) for tree in trees]


_FORMATS: dict[str, Callable[[Sequence[PlanTree]], Any]] = {"text": _plan_texts, "json": _plan_data, "html": plan_page}


@dataclass(frozen=True)
class Answered:
    """A table with its report: what `Connection.sql(…, report=True)` returns."""

    table: pa.Table
    report: RunReport

    def __iter__(self) -> Any:
        return iter((self.table, self.report))


class Connection:
    """A DuckDB connection whose SQL may hold AI calls."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, session: Session, owned: bool) -> None:
        self._connection = connection
        self._session = session
        self._owned = owned
        self.report = RunReport()  # of the last statement
        session.register(connection)

    def sql(self, text: str, dialect: str | None = None, report: bool = False, refresh: bool | datetime = False) -> Any:
        """Runs statements and returns the last one's rows as a pyarrow.Table; with `report=True` also the RunReport.

        `dialect` is that of the text (duckdb, snowflake); default: the setting `sql_dialect`. `refresh` asks again what was
        not answered since this connection was made, or since a moment, and replaces the stored answers.
        Raises QuailError before anything is asked when the statement is wrong, duckdb.Error when DuckDB refuses it.
        """
        table = pa.table({})
        self.report = RunReport()

        def deliver(sql: str) -> None:
            nonlocal table
            relation = self._connection.sql(sql)
            table = pa.table({}) if relation is None else relation.to_arrow_table()

        self.report = self._session.execute(self._connection, text, dialect=dialect, refresh=refresh, deliver=deliver)
        self._connection.execute(f"DROP TABLE IF EXISTS temp.main.{RESULT}")
        return Answered(table, self.report) if report else table

    def explain(self, text: str, format: str = "text", analyze: bool = False, dialect: str | None = None) -> Any:
        """What a statement would ask, and what that is expected to cost; nothing is asked.

        A text, a page with `format='html'`, or with `format='json'` data: a list of plans, one a statement with AI calls
        (docs/explain.md has the schema). DuckDB reads the statement's rows to count them. `analyze` runs the statement, and
        puts what happened beside what was expected.
        """
        if format not in _FORMATS:
            raise QuailError(f"format must be one of {', '.join(_FORMATS)}, not {format!r}.")
        trees = self._session.explain(self._connection, text, dialect, analyze=analyze)
        if analyze:
            self._connection.execute(f"DROP TABLE IF EXISTS temp.main.{RESULT}")
        return _FORMATS[format](trees)

    def judge(self, sql: str, name: str) -> Evaluation:
        """The answers that a query gives, beside gold; nothing is asked (`Session.judge`)."""
        found = self._session.judge(self._connection, sql, name)
        self._connection.execute(f"DROP TABLE IF EXISTS temp.main.{RESULT}")
        return found

    def close(self) -> None:
        self._session.close()
        if self._owned:
            self._connection.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def connect(
    database: str | Path | duckdb.DuckDBPyConnection = ":memory:", settings: Settings | None = None, **options: Any
) -> Connection:
    """A connection to a DuckDB database (a path, ':memory:' or a DuckDB connection to share) that understands AI calls.

    Settings come as one object or as keywords: `connect("warehouse.duckdb", engine="mock")`. Raises SettingsError for an
    unknown keyword.
    """
    if settings is not None and options:
        raise SettingsError("Give settings as one object or as keywords, not both.")
    session = Session(settings or Settings.of(options))
    owned = not isinstance(database, duckdb.DuckDBPyConnection)
    connection = duckdb.connect(str(database)) if not isinstance(database, duckdb.DuckDBPyConnection) else database
    return Connection(connection, session, owned)


def _cuda_devices(settings: Settings) -> list[tuple[str, str]]:
    if settings.engine != "local":
        return []
    from quail_engine.engine import cuda_devices

    return [("CUDA devices", "; ".join(cuda_devices()) or "none")]
