"""A model as a session has it: how it is asked, the engine that answers, and where its answers are kept."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from contextlib import suppress

from quail_engine.answers import AnswerStore, question_key
from quail_engine.answers.features import FeatureStore
from quail_engine.calls import Question
from quail_engine.decisions import Decision, decision_of
from quail_engine.engine.base import Engine
from quail_engine.errors import EngineError
from quail_engine.prompts.prompter import Prompter
from quail_engine.prompts.token_store import TokenStore
from quail_engine.roofline import Roofline
from quail_engine.settings import Settings


class Model:
    """Everything that answers for one model. Its engine is loaded at the first question that the store cannot answer."""

    def __init__(
        self,
        name: str,
        identity: tuple[str, str],
        prompter: Prompter,
        load: Callable[[], Engine],
        expected: Callable[[], Roofline | None],
        store: AnswerStore,
        tokens: TokenStore,
        features: FeatureStore,
        tell: Callable[[str], None],
        unproved: str = "",
    ) -> None:
        """`identity`: sha256 of the source weights, and precision class. They and the layout are part of every key. `expected`:
        the roofline of an engine before it is loaded. `tell` is given the engine's remarks; `unproved`: what has not been tried
        before it is loaded, for people."""
        self.name = name
        self.prompter = prompter
        self.store = store
        self.tokens = tokens
        self.features = features
        self._identity = identity
        self._rules: dict[Question, Decision] = {}
        self._told: set[Question] = set()  # whose earlier layouts were looked at
        self._load = load
        self._tell = tell
        self._unproved = unproved
        self._expected = expected
        self._loading = threading.Lock()
        self._engine: Engine | None = None

    @property
    def engine(self) -> Engine:
        with self._loading:
            if self._engine is None:
                engine = self._load()
                assert (engine.weights, engine.precision) == self._identity, (
                    "the engine holds other weights than its answers are kept under"
                )
                self._engine = engine
                for remark in engine.remarks:
                    self._tell(remark)
            return self._engine

    @property
    def note(self) -> str:
        """What a reader of a plan should know of where it runs; nothing to say of the CPU."""
        if self._engine is None:
            return self._unproved
        return "" if self._engine.device in ("cpu", "none") else f"{self.name} runs on {self._engine.device}"

    @property
    def roofline(self) -> Roofline | None:
        """How long work is expected to take. While the engine is not loaded, since that alone would take seconds: by the rates
        that were measured when it was; None where it never was on this machine."""
        return self._engine.roofline if self._engine else self._expected()

    def question_key(self, question: Question) -> bytes:
        return question_key(*self._identity, self.prompter.layout, question)

    def rule(self, question: Question) -> Decision | None:
        """What decides a question with labelled rows; None before it was fitted."""
        if question not in self._rules and (content := self.features.rule(self.question_key(question))):
            with suppress(ValueError):  # of another version
                self._rules[question] = decision_of(content)
        return self._rules.get(question)

    def keep_rule(self, question: Question, rule: Decision) -> None:
        self._rules[question] = rule
        self.features.keep_rule(self.question_key(question), rule.to_bytes())

    def left_behind(self, question: Question) -> int:
        """Stored answers to the question under earlier versions of the layout; told once a question, else 0."""
        name, _, version = self.prompter.layout.rpartition("/")
        if int(version) == 1 or question in self._told:
            return 0
        self._told.add(question)
        return self.store.count([question_key(*self._identity, f"{name}/{n}", question) for n in range(1, int(version))])

    def close(self) -> None:
        if self._engine:
            self._engine.close()


def load_model(
    name: str,
    settings: Settings,
    store: AnswerStore,
    tokens: TokenStore,
    features: FeatureStore,
    tell: Callable[[str], None],
) -> Model:
    """A model by name. Heavy imports happen here; weights are not read before the first question. `tell`: see `Model`."""
    if settings.engine == "mock":
        from quail_engine.engine.mock import MockEngine
        from quail_engine.engine.rules import Rules
        from quail_engine.prompts.bytes import BytePrompter

        engine = MockEngine(Rules(settings.mock_fail, settings.mock_margin))
        identity = (engine.weights, engine.precision)
        return Model("mock", identity, BytePrompter(), lambda: engine, lambda: engine.roofline, store, tokens, features, tell)
    from quail_engine.engine import load_engine
    from quail_engine.engine.kernel_checks import KernelChecks
    from quail_engine.engine.rates import Rates, shape_of
    from quail_engine.models import find, precision_of

    folder = find(name, settings.models_path)
    try:
        from quail_engine.prompts.chat import prompter_for
    except ModuleNotFoundError as error:
        raise EngineError(
            f"engine: local needs the library {error.name!r}, which is not installed. "
            "Install it with pip install 'dbt-quail[local]', or set engine: mock to run without a model."
        ) from error
    precision = precision_of(name)
    identity = (folder.source_sha256, precision)
    rates = Rates(shape_of(folder.config), settings.cpu_threads)
    return Model(
        name,
        identity,
        prompter_for(folder.path),
        lambda: load_engine(folder.path, settings, precision),
        lambda: rates.expected(settings.dtype),
        store,
        tokens,
        features,
        tell,
        _proved(name, settings, lambda: KernelChecks(folder.config, settings.dtype, precision == "fp8").recall()),
    )


def _proved(name: str, settings: Settings, checked: Callable[[], Collection[str]]) -> str:
    """What is known of the kernels of a model that is to run on a GPU; `checked`: the devices where they were."""
    where = ", ".join(settings.devices) or settings.device
    if where in ("auto", "mps") or where.startswith("cpu"):
        return ""
    if devices := checked():
        return f"{name} on {where}: kernels checked on {', '.join(sorted(devices))}"
    return f"{name} on {where}: kernels compiled, not run; each is compared with plain torch when the model is loaded"
