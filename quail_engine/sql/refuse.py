"""What cannot be planned: refused before anything runs, with the call underlined and a rewrite that works."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from quail_engine.errors import SqlError
from quail_engine.sql.dialect import GENERATIVE_FUNCTIONS, AiFunction, QuailDialect
from quail_engine.sql.scopes import holds_ai, name_of
from quail_engine.sql.source import Source
from quail_engine.sql.statements import Form, Statement, closing, word_of

_DML = "a table with the answers first (create table answers as select key, AI_FILTER(…) as answer from …), then {word} from it"
_VOLATILE = ("random", "uuid", "gen_random_uuid", "uuidv4", "uuidv7", "nextval", "setseed")


def refuse_call(text: str, statement: Statement) -> None:
    """Raises for an AI function that this dialect lacks, and for a call outside the statement's query."""
    for token in statement.calls:
        name = token.text.upper()
        end = token.end + 1
        if name in GENERATIVE_FUNCTIONS or name.startswith("GENERATE"):
            raise SqlError(
                f"{name} writes or measures text; this adapter judges and classifies it, by one forward pass and no decoding.",
                text,
                token.start,
                end,
                "the question as AI_FILTER (yes or no), AI_SCORE (a probability) or AI_CLASSIFY (one of your labels)",
            )
        if not name.startswith("AI_"):
            native = {"IF": "AI_FILTER", "CLASSIFY": "AI_CLASSIFY", "SCORE": "AI_SCORE"}[name]
            raise SqlError(
                f"AI.{name} is BigQuery's spelling; this text is DuckDB SQL.", text, token.start, end, f"{native}(…)"
            )
        if statement.form is Form.INSERT and (default := _default_in_values(text, statement)) is not None:
            raise SqlError(
                "DEFAULT cannot stand in VALUES beside an AI call.",
                text,
                *default,
                "the other columns by name: insert into t (a, b)",
            )
        if statement.query is None or not statement.query[0] <= token.start < statement.query[1]:
            word = text[statement.start :].split(None, 1)[0].upper()
            if word == "WITH" and statement.form is Form.OTHER:
                raise SqlError(
                    "An AI call cannot stand in a MERGE that begins with WITH.",
                    text,
                    token.start,
                    end,
                    "the WITH inside: merge into t using (with c as (…) select …) c on …",
                )
            if word == "WITH":
                word = statement.form.value.upper()
            place = "before or after its query" if statement.form is not Form.OTHER else "here"
            raise SqlError(
                f"An AI call cannot stand {place} in {_article(word)} statement: DuckDB would evaluate it outside any plan.",
                text,
                token.start,
                end,
                _DML.format(word=word),
            )


def _default_in_values(text: str, statement: Statement) -> tuple[int, int] | None:
    """Where the word DEFAULT stands in an INSERT's VALUES."""
    start, end = statement.query or (0, 0)
    if not text[start:end].upper().startswith("VALUES"):
        return None
    words = (t for t in QuailDialect().tokenize(text[start:end]) if word_of(t) == "DEFAULT")
    return next(((start + t.start, start + t.end + 1) for t in words), None)


def _article(word: str) -> str:
    return f"{'an' if word[0] in 'AEIOU' else 'a'} {word}"


def refuse_query(tree: exp.Expr, source: Source) -> None:
    """Raises for recursive members that call, volatile sources, and calls where only a constant may stand."""
    for with_ in tree.find_all(exp.With):
        if with_.args.get("recursive"):
            for cte in with_.expressions:
                _refuse_recursive(cte, source)
    for prompt in tree.find_all(exp.Anonymous):
        if prompt.name.upper() == "PROMPT" and not isinstance(prompt.parent, AiFunction):
            raise source.error_at(prompt, "PROMPT is the first argument of an AI call.", f"AI_FILTER({source.sql(prompt)})")
    for node in tree.find_all(exp.Anonymous, exp.Rand, exp.Uuid, exp.TableSample, exp.NextValueFor):
        name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
        if isinstance(node, exp.Anonymous) and name not in _VOLATILE:
            continue
        if name in ("nextval", "setseed") or isinstance(node, exp.NextValueFor) or not _only_shown(node):
            what = "a sample" if isinstance(node, exp.TableSample) else f"{name or type(node).__name__.lower()}()"
            raise source.error_at(
                node,
                f"The statement runs several times while its AI calls are answered, and {what} gives other rows each time.",
                "a table of that part first (create temp table picked as select …), then the AI calls over it",
            )


def refuse_unseen(nodes: Sequence[AiFunction], statement: Statement, source: Source) -> None:
    """Raises for a call that the tree does not hold as one: behind a schema's name, or before a dot or OVER."""
    for node in nodes:
        if isinstance(node.parent, exp.Dot):
            method = isinstance(node.parent.expression, exp.Func)
            raise source.error_at(
                node,
                f"{node.name} is called with a dot behind it, which hides its arguments."
                if method
                else f"{node.name} gives a plain value here, without fields.",
                f"upper({node.name}(…))" if method else source.sql(node),
            )
        if isinstance(node.parent, (exp.Window, exp.Filter)) and node.arg_key == "this":
            raise source.error_at(node, f"{node.name} is no aggregate: neither OVER nor FILTER can follow it.")
    if len(nodes) < len(statement.calls):
        seen = {node.name for node in nodes}
        token = next((t for t in statement.calls if t.text.upper() not in seen), statement.calls[0])
        raise SqlError(
            f"{token.text.upper()} is not read as an AI call here.",
            source.statement,
            token.start,
            token.end + 1,
            f"{token.text.upper()}(…) without a schema before it",
        )


def refuse_path(text: str, statement: Statement) -> None:
    """Raises for a call with a colon behind it, which is how Snowflake reads a field of an object."""
    names = {token.start for token in statement.calls}
    tokens = QuailDialect().tokenize(text)
    for index, token in enumerate(tokens):
        behind = closing(tokens, index + 1) + 1 if token.start in names else len(tokens)
        if behind < len(tokens) and tokens[behind].token_type is TokenType.COLON:
            name = token.text.upper()
            raise SqlError(
                f"`{name}(…):…` is Snowflake's path into an object; this text is DuckDB SQL, where {name} gives a plain value.",
                text,
                tokens[behind].start,
                tokens[behind].end + 1,
                text[token.start : tokens[behind - 1].end + 1],
            )


def _only_shown(node: exp.Expr) -> bool:
    """Whether a volatile value is only a column of the outermost result, where no question depends on it."""
    select = node.find_ancestor(exp.Select)
    around = select.parent if select is not None else None
    while isinstance(around, exp.Subquery):
        around = around.parent
    if select is None or around is not None or node.find_ancestor(AiFunction) is not None:
        return False
    child = node
    while child.parent is not select and child.parent is not None:
        child = child.parent
    return child.arg_key == "expressions" and not holds_ai(child) and not select.args.get("distinct")


def _refuse_recursive(cte: exp.CTE, source: Source) -> None:
    body = cte.this
    if not isinstance(body, exp.SetOperation):
        return
    member = body.expression
    if any(table.name.lower() == name_of(cte) for table in member.find_all(exp.Table)):
        call = member.find(AiFunction)
        if call is not None:
            raise source.error_at(
                call,
                "An AI call in the recursive member of a recursive CTE would be asked without end.",
                "the recursion without AI calls, then the AI call over its result",
            )
