"""From an AI function in the tree to an `AiCall`: prompt, labels, options, each checked here, before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from quail_engine.calls import AiCall, Kind, Label, Question, Task, Template
from quail_engine.sql.constants import NotConstantError, constant_text, constant_value, key_name
from quail_engine.sql.dialect import AiFunction, span
from quail_engine.sql.examples import doubts, labelled_rows, parse_examples
from quail_engine.sql.options import KNOWN, Given, parse_options, split_options
from quail_engine.sql.source import Source
from quail_engine.sql.template import blank, parse_template, template_of_expression

_KINDS = {
    "AI_FILTER": Kind.FILTER,
    "AI_JOIN": Kind.FILTER,
    "AI_SCORE": Kind.SCORE,
    "AI_CLASSIFY": Kind.CLASSIFY,
    "AI_CLASSIFY_SCORES": Kind.CLASSIFY_SCORES,
}


@dataclass(frozen=True)
class _Prompt:
    template: Template
    arguments: tuple[str, ...]  # SQL, one an argument that the template uses
    warnings: tuple[str, ...] = ()


def extract_call(node: AiFunction, source: Source) -> AiCall:
    """The call at `node`, without guard, dependencies and level. Raises SqlError, underlining what is wrong."""
    kind = _KINDS[node.name]
    positional, option_nodes = split_options(node.expressions)
    if kind in (Kind.CLASSIFY, Kind.CLASSIFY_SCORES):
        positional, option_nodes = _with_labels(positional, option_nodes)
    if not positional:
        raise source.error_at(node, f"{node.name} needs a prompt.", f"{node.name}(PROMPT('Is it urgent? {{0}}', body))")
    given = parse_options(option_nodes, source)
    if kind in (Kind.CLASSIFY, Kind.CLASSIFY_SCORES):
        return _classify(node, kind, positional, given, source)
    return _judge(node, kind, positional, given, source)


def _with_labels(positional: list[exp.Expr], named: list[exp.Expr]) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """`labels => […]` is the second argument by its name."""
    labels = [a for a in named if not isinstance(a, exp.Struct) and key_name(a.this) == "labels"]
    return [*positional, *(a.expression for a in labels)], [a for a in named if a not in labels]


def _judge(
    node: AiFunction,
    kind: Kind,
    positional: Sequence[exp.Expr],
    given: Given,
    source: Source,
) -> AiCall:
    if given.multi:
        raise source.error_at(node, f"output_mode belongs to AI_CLASSIFY; {node.name} answers TRUE or FALSE.")
    if len(positional) > 2:
        _refuse_equals(positional[2], source)
        raise source.error_at(
            positional[2],
            f"{node.name} takes a question and one expression; write several with PROMPT.",
            f"{node.name}(PROMPT('question {{0}} {{1}}', a, b))",
        )
    prompt = _shorthand(positional, source) if len(positional) == 2 else _prompt(positional[0], source)
    if node.name == "AI_JOIN" and len(prompt.arguments) < 2:
        raise source.error_at(
            node,
            "AI_JOIN compares the two sides of a join, so its prompt needs an argument of each.",
            "AI_JOIN(PROMPT('Report {0} mentions {1}', a.text, b.term)), or AI_FILTER for one side",
        )
    if node.name == "AI_JOIN" and len(sides := _qualifiers(node)) == 1 and (side := sides.pop()):
        raise source.error_at(
            node,
            f"AI_JOIN compares the two sides of a join, and every column in it is of {'.'.join(side)}.",
            "a column of each side, AI_JOIN(PROMPT('Report {0} mentions {1}', a.text, b.term)), or AI_FILTER for one side",
        )
    if given.rewritten:
        return _choose(node, kind, prompt, given, source)
    question = _question(Task.JUDGE, prompt, (), given, ("true", "false"), node, source)
    return _call(node, kind, question, prompt, given)


def _choose(node: AiFunction, kind: Kind, prompt: _Prompt, given: Given, source: Source) -> AiCall:
    """A pair's question as a choice among the texts of its other side; `Choice` tells them when DuckDB can be asked."""
    if kind is not Kind.FILTER or len(prompt.arguments) != 2:
        pair = "AI_JOIN(PROMPT('Report {0} mentions {1}', a.text, b.term), {'rewrite': 'classify'})"
        raise source.error_at(node, "The option rewrite is for a question about the two texts of a pair.", pair)
    if given.examples or given.options.symmetric or given.options.threshold is not None:
        lost = "threshold" if given.options.threshold is not None else "symmetric" if given.options.symmetric else "examples"
        raise source.error_at(node, f"The option {lost} is of a question of yes or no, and rewrite makes a choice of it.")
    question = _question(Task.JUDGE, prompt, (), given, (), node, source)
    text, label = question.anchor, 1 - question.anchor
    question = replace(question, task=Task.CLASSIFY, template=blank(prompt.template, label), anchor=0)
    call = _call(node, Kind.CLASSIFY, question, _Prompt(question.template, (prompt.arguments[text],), prompt.warnings), given)
    return replace(call, chosen=prompt.arguments[label])


def _qualifiers(node: AiFunction) -> set[tuple[str, ...]]:
    """What stands before the columns' names; empty for a column without, which may be of any side."""
    return {tuple(part.name.lower() for part in column.parts[:-1]) for column in node.find_all(exp.Column)}


def _refuse_equals(node: exp.Expr, source: Source) -> None:
    """Raises for `threshold = 0.5`, which is a comparison."""
    name = node.this.name.lower() if isinstance(node, exp.EQ) else ""
    if name in KNOWN:
        raise source.error_at(node, "An option is given with an arrow.", f"{name} => {source.sql(node.expression)}")


def _refuse_double_quotes(node: exp.Expr, source: Source) -> None:
    """Raises for "a text", which is the name of a column."""
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier) and node.this.args.get("quoted"):
        text = node.name.replace("'", "''")
        raise source.error_at(node, "Double quotes hold the name of a column; a text stands in single quotes.", f"'{text}'")


def _classify(
    node: AiFunction,
    kind: Kind,
    positional: Sequence[exp.Expr],
    given: Given,
    source: Source,
) -> AiCall:
    if len(positional) != 2:
        raise source.error_at(
            node, f"{node.name} takes an input and a list of labels.", f"{node.name}(body, ['billing', 'delivery', 'other'])"
        )
    if given.multi and kind is Kind.CLASSIFY_SCORES:
        raise source.error_at(
            node, "AI_CLASSIFY_SCORES weighs the labels against each other; output_mode 'multi' is AI_CLASSIFY's."
        )
    text = positional[0]
    # A literal alone is what is classified, not a question about nothing.
    if given.rewritten:
        raise source.error_at(
            node, f"The option rewrite is for a question about the two texts of a pair, and {node.name} chooses."
        )
    prompt = _prompt(text, source) if constant_text(text) is None else _Prompt(Template((0,)), (source.sql(text),))
    task = Task.TAG if given.multi else Task.CLASSIFY
    labels_node = positional[1]
    if isinstance(labels_node, exp.Array) or constant_text(labels_node) is not None:
        labels = _labels(labels_node, source)
        labels_argument = ""
    else:
        labels, labels_argument = (), source.sql(labels_node)
    answers = tuple(label.text for label in labels)
    question = _question(task, prompt, labels, given, answers, node, source)
    return _call(node, kind, question, prompt, given, labels_argument)


def _question(
    task: Task,
    prompt: _Prompt,
    labels: tuple[Label, ...],
    given: Given,
    answers: Sequence[str],
    node: AiFunction,
    source: Source,
) -> Question:
    anchor = given.anchor or 0
    if anchor and anchor >= len(prompt.arguments):
        raise source.error_at(node, f"anchor names argument {anchor}, but the prompt has {len(prompt.arguments)}.")
    examples = parse_examples(given, len(prompt.arguments), answers, source)
    labelled = labelled_rows(examples, given, source)
    return Question(task, prompt.template, labels, anchor, given.instructions, () if labelled else examples, labelled)


def _call(node: AiFunction, kind: Kind, question: Question, prompt: _Prompt, given: Given, labels_argument: str = "") -> AiCall:
    start, end = span(node)
    warnings = (*prompt.warnings, *doubts(question, len(given.examples)))
    if not prompt.arguments and not labels_argument:
        warnings = (*warnings, f"{node.name} reads no column, so one answer serves every row.")
    return AiCall(
        kind, question, prompt.arguments, given.options, start, end, labels_argument=labels_argument, warnings=warnings
    )


def _shorthand(positional: Sequence[exp.Expr], source: Source) -> _Prompt:
    """`AI_FILTER('question', e)`: the same as PROMPT('question {0}', e), but braces in the question are plain text."""
    question = constant_text(positional[0])
    if question is None:
        _refuse_double_quotes(positional[0], source)
        raise source.error_at(
            positional[0],
            "With two arguments the first is the question, a constant text.",
            f"AI_FILTER(PROMPT('question {{0}} {{1}}', {source.sql(positional[0])}, {source.sql(positional[1])}))",
        )
    if _is_prompt(positional[1]) or isinstance(positional[1], exp.Boolean):
        raise source.error_at(positional[1], "The second argument is the expression that the question is about.")
    return _Prompt(Template((f"{question} ", 0)), (source.sql(positional[1]),))


def _is_prompt(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.upper() == "PROMPT"


def _prompt(node: exp.Expr, source: Source) -> _Prompt:
    """PROMPT('template', …), a string put together from literals and expressions, or one expression."""
    if not _is_prompt(node):
        template, arguments = template_of_expression(node, source)
        return _Prompt(template, arguments)
    if not node.expressions:
        raise source.error_at(node, "PROMPT needs a template.", "PROMPT('Is it urgent? {0}', body)")
    literal, *expressions = node.expressions
    text = constant_text(literal)
    if text is None:
        _refuse_double_quotes(literal, source)
        raise source.error_at(
            literal, "PROMPT's template must be a constant text.", f"PROMPT('… {{0}}', {source.sql(literal)})"
        )
    template = parse_template(text, len(expressions), source, literal)
    used = sorted(template.arguments)
    number = {old: new for new, old in enumerate(used)}
    surplus = [source.sql(e) for i, e in enumerate(expressions) if i not in number]
    warnings = (f"The template has no place for {', '.join(surplus)}; ignored.",) if surplus else ()
    parts = tuple(p if isinstance(p, str) else number[p] for p in template.parts)
    return _Prompt(Template(parts), tuple(source.sql(expressions[i]) for i in used), warnings)


def _labels(node: exp.Expr, source: Source) -> tuple[Label, ...]:
    """Constant labels: texts, or structs with `label` and `description`."""
    example = "['billing', 'delivery', 'other'] or [{'label': 'billing', 'description': 'money'}, …]"
    if not isinstance(node, exp.Array):
        raise source.error_at(node, "The labels are a list.", example)
    labels: list[Label] = []
    for item in node.expressions:
        try:
            value = constant_value(item)
        except NotConstantError as found:
            _refuse_double_quotes(found.node, source)
            raise source.error_at(found.node, "A label must be a constant, or the whole list a column.", example) from None
        try:
            labels.append(label_of(value))
        except ValueError as problem:
            raise source.error_at(item, str(problem), example) from None
    problem_found = labels_problem(labels)
    if problem_found:
        raise source.error_at(node, problem_found, example)
    return tuple(labels)


def label_of(value: object) -> Label:
    """A label from a text or a struct. Raises ValueError with a sentence that says what is wrong."""
    if isinstance(value, str) and value.strip():
        return Label(value)
    if isinstance(value, dict) and set(value) <= {"label", "description"}:
        text, description = value.get("label"), value.get("description") or ""
        if isinstance(text, str) and text.strip() and isinstance(description, str):
            return Label(text, description)
    raise ValueError(f"A label is a text that is not empty, or a struct of label and description; this one is {value!r}.")


def labels_problem(labels: Sequence[Label]) -> str:
    """What is wrong with a list of labels, or nothing."""
    if len(labels) < 2:
        return f"A choice needs two labels or more; this list has {len(labels)}."
    seen: set[str] = set()
    for label in labels:
        if label.text.strip() in seen:
            return f"The label {label.text.strip()!r} stands twice in the list."
        seen.add(label.text.strip())
    return ""
