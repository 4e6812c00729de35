"""Prompts: readouts, tokenizers, profiles and rendering."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2.sandbox import ImmutableSandboxedEnvironment

from quail_engine.calls import Example, Label, Question, Task, Template
from quail_engine.errors import EngineError, ModelError
from quail_engine.prompts import token_store
from quail_engine.prompts.chat import ChatPrompt, ChatPrompter, prompter_for
from quail_engine.prompts.layout import Markers, prompt_pieces
from quail_engine.prompts.profile import Profile
from quail_engine.prompts.profiles import PROFILES, profile_of
from quail_engine.prompts.readout import JudgeReadout, Spellings, TagReadout, TrieReadout
from quail_engine.prompts.request import NO_REFERENCE, Ids, Logits
from quail_engine.prompts.token_store import TokenStore
from quail_engine.prompts.tokenizer import Tokenizer

MODELS = ("qwen2.5-coder-0.5b", "smollm2-135m")
SPELLINGS = Spellings(true=(1, 2), false=(3, 4))
END = (99,)


def logits(*values: float) -> Logits:
    return np.array(values, np.float32)


def test_judge_margin_is_the_log_odds_of_the_spellings() -> None:
    readout = JudgeReadout(SPELLINGS)
    assert readout.suffixes == ((),)
    assert readout.rows == ((1, 2, 3, 4),)
    expected = math.log(math.exp(2) + math.exp(1)) - math.log(math.exp(0) + math.exp(-1))
    (margin,) = readout.answer([logits(2, 1, 0, -1)])
    assert margin == pytest.approx(expected, abs=1e-6)
    assert margin.dtype == np.float32


def test_judge_margin_survives_large_logits_and_swaps_sign() -> None:
    readout = JudgeReadout(SPELLINGS)
    (margin,) = readout.answer([logits(30_000, 0, 29_990, 0)])
    (swapped,) = readout.answer([logits(29_990, 0, 30_000, 0)])
    assert margin == pytest.approx(10)
    assert swapped == -margin


def test_judge_tie_is_exactly_zero() -> None:
    (margin,) = JudgeReadout(SPELLINGS).answer([logits(0.1, 0.7, 0.1, 0.7)])
    assert margin == 0.0


def test_nan_logits_make_every_number_nan() -> None:
    assert np.isnan(JudgeReadout(SPELLINGS).answer([logits(0, math.nan, 0, 0)])).all()
    tags = TagReadout(SPELLINGS, ((7,), (8,)))
    assert np.isnan(tags.answer([logits(0, 0, 0, 0), logits(0, 0, math.nan, 0)])).all()
    trie = TrieReadout.of([(1,), (2, 3), (2, 4)], END)
    assert np.isnan(trie.answer([logits(0, 0), logits(math.nan, 0)])).all()


def test_tag_reads_each_label_by_its_own_suffix() -> None:
    readout = TagReadout(SPELLINGS, ((7,), (8, 9)))
    assert readout.rows == (SPELLINGS.rows, SPELLINGS.rows)
    first, second = readout.answer([logits(1, 0, 0, 0), logits(0, 0, 1, 0)])
    assert first > 0 > second
    assert first == -second


def test_trie_reads_the_cue_and_each_deeper_branching_node() -> None:
    readout = TrieReadout.of([(5, 6), (5, 7), (8,)], END)
    assert readout.suffixes == ((), (5,))
    assert readout.rows == ((5, 8), (6, 7))
    answer = np.exp(readout.answer([logits(0, math.log(3)), logits(math.log(4), 0)]))
    assert answer == pytest.approx([0.25 * 0.8, 0.25 * 0.2, 0.75])


def test_trie_prefix_label_competes_with_its_continuation_at_the_end_token() -> None:
    readout = TrieReadout.of([(5,), (5, 6, 7, 7, 7)], END)
    assert readout.suffixes == ((5,),), "the shared first token is certain and costs no read"
    assert readout.rows == ((99, 6),)
    assert np.exp(readout.answer([logits(0, 0)])) == pytest.approx([0.5, 0.5]), "length alone makes nothing less likely"


def test_trie_of_one_label_is_certain_and_still_read() -> None:
    readout = TrieReadout.of([(5, 6)], END)
    assert (readout.suffixes, readout.rows) == (((),), ((5,),))
    assert list(readout.answer([logits(-3)])) == [0.0]
    assert np.isnan(readout.answer([logits(math.nan)])).all()


def test_trie_takes_the_empty_label() -> None:
    readout = TrieReadout.of([(), (5,)], END)
    assert readout.rows == ((99, 5),)


def test_a_label_s_probability_is_divided_by_the_one_it_has_in_the_reference() -> None:
    readout = TrieReadout.of([(5,), (6,), (7, 8), (7, 9)], END).compared(((1,), (2,)))
    assert readout.reference == ((((1,), (2,))), 2)
    own, reference = np.array([0.2, 0.3, 0.25, 0.25]), np.array([0.1, 0.3, 0.4, 0.2])
    reads = [logits(*np.log(p)) for p in ((0.2, 0.3, 0.5), (0.5, 0.5), (0.1, 0.3, 0.6), (2 / 3, 1 / 3))]
    expected = own / reference / (own / reference).sum()
    assert np.exp(readout.answer(reads)) == pytest.approx(expected, rel=1e-5)
    many = readout.answer([np.stack([read, read[::-1]]) for read in reads])
    assert (many[0] == readout.answer(reads)).all(), "the same bits in a batch"
    assert np.isnan(readout.answer([*reads[:3], logits(0, math.nan)])).all()
    same = np.exp(readout.answer([*reads[:2], *reads[:2]]))
    assert same == pytest.approx([0.25] * 4), "an empty text is the reference itself, and says nothing for any label"


def test_trie_refuses_labels_with_the_same_tokens() -> None:
    with pytest.raises(ModelError, match="same tokens"):
        TrieReadout.of([(5,), (5,)], END)


LABELS = st.lists(st.lists(st.integers(0, 3), max_size=5).map(tuple), min_size=1, max_size=12, unique=True)


@given(labels=LABELS, seed=st.integers(0, 2**32 - 1))
def test_trie_probabilities_sum_to_one_and_follow_the_labels(labels: list[Ids], seed: int) -> None:
    readout = TrieReadout.of(labels, END)
    random = np.random.default_rng(seed)
    value = {
        node: dict(zip(rows, random.normal(0, 4, len(rows)), strict=True))
        for node, rows in zip(readout.suffixes, readout.rows, strict=True)
    }
    answer = readout.answer([logits(*value[node].values()) for node in readout.suffixes])
    assert np.exp(answer.astype(np.float64)).sum() == pytest.approx(1, abs=1e-5)

    shuffled = list(random.permutation(len(labels)))
    other = TrieReadout.of([labels[i] for i in shuffled], END)
    again = other.answer(
        [logits(*(value[node][row] for row in rows)) for node, rows in zip(other.suffixes, other.rows, strict=True)]
    )
    assert again == pytest.approx(answer[shuffled], abs=1e-5), "the order of the labels does not matter"


# Tokenizers


def generated_texts(count: int) -> list[str]:
    """Texts that tokenizers disagree about: scripts, combining marks, digits, emoji, blanks, and chat markers as characters."""
    random = Random(11)
    pieces = [
        *("<|im_end|>", "<|im_start|>user", "<tool_call>", "</tool_call>", "<|fim_pad|>", "<repo_name>", "<|endoftext"),
        *("café", "café", "ñ", "ñ", "Å", "Å", "ﬁ", "½", "é", "각", "각"),
        *(
            "don't",
            "I'LL",
            "we've",
            "'s",
            "'S",
            "hello",
            "World",
            "naïve",
            "straße",
            "ΑΒΓ",
            "Привет",
            "привет-мир",
            "日本語",
            "한국어",
        ),
        *("العربية", "हिन्दी", "ไทย", "🙂", "👩‍👩‍👧", "🇫🇷", "✈️", "0", "12", "3.14", "1,000,000", "٣٤", "²", "Ⅳ", "2024-01-01"),
        *(" ", "  ", "\t", "\n", "\r\n", "\n\n ", " \n", "\u00a0", "\u2003", "\u200b", "\ufeff", "\x00", "\x7f", "�"),
        *(
            "...",
            "!?",
            "—",
            "“",
            "”",
            "(",
            ")]",
            "$",
            "€5",
            "http://a.b/c?d=e&f",
            "user@example.com",
            "{0}",
            "{{",
            "__init__",
            "==",
            "//",
        ),
    ]
    texts = ["", " ", "\n"]
    while len(texts) < count:
        chosen = [random.choice(pieces) for _ in range(random.randint(1, 12))]
        if random.random() < 0.3:
            chosen.append(
                "".join(chr(random.choice((random.randint(32, 0x24F), random.randint(0x300, 0xD7FF)))) for _ in range(6))
            )
        texts.append(random.choice(("", " ")).join(chosen))
    return texts


@pytest.mark.parametrize("name", MODELS)
def test_ids_equal_the_reference_tokenizer_s(name: str, model_folder: Callable[[str], Path]) -> None:
    transformers = pytest.importorskip("transformers")
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence

    path = model_folder(name) / "tokenizer.json"
    model = json.loads(path.read_text())["model"]
    unused = dict.fromkeys(("unk_token", "bos_token", "eos_token", "pad_token"), "\ue000")  # in none of the texts
    kind = transformers.Qwen2TokenizerFast if name.startswith("qwen") else transformers.GPT2TokenizerFast
    reference = kind(vocab=model["vocab"], merges=[tuple(pair) for pair in model["merges"]], **unused)
    if name.startswith("smollm"):  # GPT-2's, but for single digits
        reference.backend_tokenizer.pre_tokenizer = Sequence(
            [Digits(individual_digits=True), ByteLevel(add_prefix_space=False)]
        )
    texts = generated_texts(10_000)
    expected = reference(texts, add_special_tokens=False)["input_ids"]
    for text, ours, theirs in zip(texts, Tokenizer(path).encode(texts), expected, strict=True):
        assert list(ours) == theirs, repr(text)


@pytest.mark.parametrize("name", MODELS)
def test_only_the_profile_s_own_text_has_special_tokens(name: str, model_folder: Callable[[str], Path]) -> None:
    tokenizer = Tokenizer(model_folder(name) / "tokenizer.json")
    special = {i for marker in tokenizer.markers for i in tokenizer.encode_markers(marker)}
    assert len(special) == len(tokenizer.markers) > 10
    for ids in tokenizer.encode([*generated_texts(2_000), *tokenizer.markers]):
        assert not special.intersection(ids)
    assert tokenizer.decode(tokenizer.encode_markers("<|im_start|>user\nhé<|im_end|>")) == "<|im_start|>user\nhé<|im_end|>"


def test_special_tokens_are_read_wherever_they_stand_in_the_file(tmp_path: Path) -> None:
    model = {"type": "BPE", "vocab": {'"added_tokens": [': 0, "a": 1, "]": 2}, "merges": []}
    markers = [{"id": 3, "content": "<]>", "special": True}]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = {"added_tokens": [{**marker, **flags} for marker in markers]}
    rest = {"normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None}
    before, behind = {"version": "1.0", "truncation": None, **added, **rest, "model": model}, {**rest, "model": model, **added}
    path = tmp_path / "tokenizer.json"
    for content, indent in ((before, None), (before, 2), (behind, None), ({"padding": None, **behind}, 2)):
        path.write_text(json.dumps(content, indent=indent))
        tokenizer = Tokenizer(path)
        assert tokenizer.markers == ["<]>"]
        assert tokenizer.encode_markers("a<]>a") == (1, 3, 1)
        assert tokenizer.encode(["a]", "<]>"]) == [(1, 2), (2,)]


def test_a_damaged_tokenizer_is_a_model_error(tmp_path: Path) -> None:
    for content in ("", "{", "[]", '{"added_tokens": []}'):
        (tmp_path / "tokenizer.json").write_text(content)
        with pytest.raises(ModelError, match=r"tokenizer\.json"):
            Tokenizer(tmp_path / "tokenizer.json")


# Layouts and prompts, on a tokenizer whose tokens are characters

PROFILE = PROFILES["qwen2.5"]


class Characters:
    """Stands for `Tokenizer`: a token a character, the profile's stop one more. Spells TRUE and FALSE by one token each."""

    digest = "characters"
    words = ("TRUE", "FALSE")
    stop = 0xF0000

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        return [(0xF0001 + self.words.index(t),) if t in self.words else tuple(map(ord, t)) for t in texts]

    def encode_markers(self, text: str) -> Ids:
        return tuple(ord(c) for c in text.replace(PROFILE.wrapper.stop, chr(self.stop)))


def prompter(profile: Profile = PROFILE, context: int = 2_000) -> ChatPrompter:
    return ChatPrompter(profile, cast(Tokenizer, Characters()), context)


def written(question: Question, *texts: str, profile: Profile = PROFILE) -> list[str]:
    """A request's segments as text, the chat's markers written out; the wrapper before the first turn left out."""
    model = prompter(profile)
    segments = model.compile(question).request(model.encode(texts)).segments
    plain = ["".join(map(chr, ids)).replace(chr(Characters.stop), profile.wrapper.stop) for ids in segments]
    return [plain[0][plain[0].index(profile.wrapper.user) :], *plain[1:]]


def judge(*parts: str | int, **changes: Any) -> Question:
    return Question(Task.JUDGE, Template(parts), **changes)


def with_layout(profile: Profile, **changes: str) -> Profile:
    return replace(profile, layout=replace(profile.layout, **changes))


PLAIN = with_layout(
    PROFILE,
    block="{name}:\n{text}",
    judge="{documents}\n\n{question}\nTRUE or FALSE?",
    pair="{anchor}\n\n{question}\n\n{partners}\n\nTRUE or FALSE?",
    pair_message="",
    whole="{template}\n\nTRUE or FALSE?",
)
"""A profile for tests of the mechanism, which a better layout of the real one does not change."""
U, A = PLAIN.wrapper.user, PLAIN.wrapper.assistant


def test_a_trailing_placeholder_is_taken_away() -> None:
    assert written(judge("Is it urgent? ", 0), "help!", profile=PLAIN) == [
        f"{U}Text A:\n",
        "help!",
        f"\n\nIs it urgent?\nTRUE or FALSE?{A}",
    ]


def test_a_placeholder_becomes_the_name_of_its_block() -> None:
    segments = written(judge("Does ", 0, " mention a refund, and is ", 0, " urgent?"), "doc", profile=PLAIN)
    assert segments[2] == f"\n\nDoes Text A mention a refund, and is Text A urgent?\nTRUE or FALSE?{A}"
    assert segments.count("doc") == 1


def test_in_a_pair_the_anchor_stands_first_and_the_frame_is_shared() -> None:
    template = ("Report ", 0, " mentions reaction ", 1)
    assert written(judge(*template), "report", "fever", profile=PLAIN) == [
        f"{U}Text A:\n",
        "report",
        "\n\nReport Text A mentions reaction Text B\n\nText B:\n",
        "fever",
        f"\n\nTRUE or FALSE?{A}",
    ]
    assert written(judge(*template, anchor=1), "report", "fever", profile=PLAIN)[1:4] == [
        "fever",
        "\n\nReport Text B mentions reaction Text A\n\nText B:\n",
        "report",
    ]


def test_a_template_without_words_is_the_argument_itself() -> None:
    assert written(judge(0), "Paris is in France.", profile=PLAIN) == [U, "Paris is in France.", f"\n\nTRUE or FALSE?{A}"]
    assert written(judge(" ", 0, " "), "x", profile=PLAIN) == [U, "x", f"\n\nTRUE or FALSE?{A}"]


def test_a_template_without_arguments_is_one_segment() -> None:
    assert written(judge("Is the sky blue? "), profile=PLAIN) == [f"{U}Is the sky blue?\n\nTRUE or FALSE?{A}"]


def test_inline_rendering_puts_the_separator_where_white_space_was() -> None:
    inline = with_layout(PLAIN, judge="{template}\nTRUE or FALSE?")
    assert written(judge("Does  ", 0, " \n mention ", 0), "doc", profile=inline) == [
        f"{U}Does\n",
        "doc",
        "\nmention\n",
        "doc",
        f"\nTRUE or FALSE?{A}",
    ]


def test_an_empty_text_gives_no_segment() -> None:
    segments = written(judge("Is it urgent? ", 0), "", profile=PLAIN)
    assert segments == [f"{U}Text A:\n", f"\n\nIs it urgent?\nTRUE or FALSE?{A}"]


def test_instructions_stand_before_the_question() -> None:
    segments = written(judge("Is it urgent? ", 0, instructions=" Tickets of a shop. "), "doc", profile=PLAIN)
    assert segments[2] == f"\n\nTickets of a shop.\nIs it urgent?\nTRUE or FALSE?{A}"


def test_examples_are_turns_before_the_first_segment_ends() -> None:
    examples = (Example(("fire",), "true"), Example(("<|im_end|>",), "FALSE"))
    head, *_ = written(judge("Is it urgent? ", 0, examples=examples), "doc", profile=PLAIN)
    turn = f"{U}Text A:\n%s\n\nIs it urgent?\nTRUE or FALSE?{A}%s"
    end = PLAIN.wrapper.stop + PLAIN.wrapper.following
    assert head == f"{turn % ('fire', chr(0xF0001))}{end}{turn % ('<|im_end|>', chr(0xF0002))}{end}{U}Text A:\n"


def test_special_tokens_in_texts_templates_labels_and_examples_are_characters() -> None:
    wrapper = PROFILE.wrapper
    marker = wrapper.stop
    question = Question(
        Task.CLASSIFY,
        Template((f"Which {marker}? ", 0)),
        labels=(Label(f"a{marker}", marker), Label("b")),
        instructions=marker,
        examples=(Example((marker,), "b"),),
    )
    model = prompter()
    request = model.compile(question).request(model.encode([marker]))
    ids = [i for segment in request.segments for i in segment]
    assert ids.count(Characters.stop) == (wrapper.system + wrapper.assistant * 2 + marker).count(marker)


def test_classify_lists_labels_with_descriptions_and_reads_the_trie() -> None:
    labels = (Label("bug", "something broke"), Label("refund"))
    head, document, tail = written(Question(Task.CLASSIFY, Template((0,)), labels=labels), "doc")
    assert "\n\nLabels:\n- bug: something broke\n- refund\n\n" in "\n\n" + head.removeprefix(U), "labels are in the shared head"
    assert document == "doc"
    assert tail.endswith(f"{PROFILE.layout.classify_question}{A}{PROFILE.layout.classify_opening}")
    readout = prompter().compile(Question(Task.CLASSIFY, Template((0,)), labels=labels)).readout
    assert readout.suffixes[0] == (ord(" "),), "the blank before a label is certain"
    assert readout.rows[0] == (ord("b"), ord("r"))


def test_labels_without_descriptions_are_not_listed_and_so_have_no_order() -> None:
    labels = (Label("bug"), Label("refund"), Label("refund late"))
    asked = [written(Question(Task.CLASSIFY, Template((0,)), labels=order), "doc") for order in (labels, labels[::-1])]
    assert asked[0] == asked[1]
    assert "bug" not in "".join(asked[0])


def test_a_choice_is_compared_with_the_prompt_of_an_empty_text() -> None:
    question = Question(Task.CLASSIFY, Template((0,)), labels=(Label("bug"), Label("refund")))
    prompt = prompter().compile(question)
    assert prompt.readout.reference.segments == prompt.request([()]).segments
    constant = Question(Task.CLASSIFY, Template(("Which?",)), labels=question.labels)
    assert prompter().compile(constant).readout.reference == NO_REFERENCE, "it would be compared with itself"


def test_an_opening_stands_before_the_label_of_an_example_and_before_the_answer() -> None:
    opened = with_layout(PLAIN, classify="{documents}", block="{text}", classify_opening="It is")
    question = Question(Task.CLASSIFY, Template((0,)), (Label("a"), Label("b")), examples=(Example(("x",), "b"),))
    end = PLAIN.wrapper.stop + PLAIN.wrapper.following
    assert written(question, "doc", profile=opened) == [f"{U}x{A}It is b{end}{U}", "doc", f"{A}It is"]
    own = replace(question, template=Template(("Which? ", 0)))
    assert written(own, "doc", profile=opened)[-1] == f"{A}{opened.layout.classify_own_opening}"


def test_tag_asks_a_question_a_label_after_a_shared_document() -> None:
    question = Question(Task.TAG, Template(("What is it about? ", 0)), labels=(Label("price"), Label("fit", "size, cut")))
    segments = written(question, "doc")
    assert "doc" in segments
    assert A not in "".join(segments), "the cue stands in the suffixes"
    suffixes = ["".join(map(chr, ids)) for ids in prompter().compile(question).readout.suffixes]
    assert [('"price"' in s, '"fit: size, cut"' in s) for s in suffixes] == [(True, False), (False, True)]
    assert all(s.replace(chr(Characters.stop), PROFILE.wrapper.stop).endswith(A) for s in suffixes)


def test_room_is_what_the_context_leaves() -> None:
    model = prompter(PLAIN, context=500)
    prompt = model.compile(judge("Is it urgent? ", 0))
    assert prompt.request([(1,) * prompt.room]).tokens == 500
    tag = model.compile(Question(Task.TAG, Template((0,)), labels=(Label("a"), Label("longer"))))
    longest = max(map(len, tag.readout.suffixes))
    assert sum(map(len, tag.request([(1,) * tag.room]).segments)) + longest == 500
    twice = prompter(with_layout(PLAIN, judge="{template}\nTRUE or FALSE?"), 500).compile(judge(0, " and ", 0))
    assert 498 <= twice.request([(1,) * twice.room]).tokens <= 500


@pytest.mark.parametrize(
    ("question", "match"),
    [
        (judge("x " * 2_000, 0), "context of 2,000"),
        (judge("Is it? ", 0, examples=(Example(("a",), "maybe"),)), "'true' or 'false'"),
        (judge("Is it? ", 0, 1, examples=(Example(("a",), "true"),)), "fewer than the prompt"),
        (Question(Task.CLASSIFY, Template((0,)), (Label("a"),), examples=(Example(("t",), "b"),)), "none of the labels"),
        (Question(Task.TAG, Template((0,)), (Label("a"),), examples=(Example(("t",), ("a", "b")),)), "'b', which is none"),
        (Question(Task.CLASSIFY, Template((0,)), (Label("a"), Label("a"))), "same tokens"),
    ],
)
def test_what_a_user_got_wrong_is_a_model_error(question: Question, match: str) -> None:
    with pytest.raises(ModelError, match=match):
        prompter().compile(question)


def test_a_model_without_a_pair_of_spellings_is_refused_with_a_proposal() -> None:
    with pytest.raises(ModelError, match=r"TRUE/NO.*add a pair of words"):
        prompter(replace(PROFILE, spellings=(("TRUE", "NO"),)))
    with pytest.raises(ModelError, match="special tokens"):
        prompter(replace(PROFILE, wrapper=replace(PROFILE.wrapper, stop="<end>")))


QUESTIONS = {
    "question": judge("Is it urgent? ", 0),
    "statement": judge("The customer wants the money back. ", 0),
    "middle": judge("Does ", 0, " mention a delay?"),
    "bare": judge(0),
    "constant": judge("Is the sky blue?"),
    "pair": judge("Report ", 0, " mentions reaction ", 1),
    "pair, other anchor": judge("Report ", 0, " mentions reaction ", 1, anchor=1),
    "examples": judge("Is it spam? ", 0, instructions="SMS messages.", examples=(Example(("WIN a prize",), "true"),)),
    "classify": Question(
        Task.CLASSIFY, Template((0,)), (Label("billing", "invoices, refunds"), Label("bug"), Label("bug report"))
    ),
    "tag": Question(Task.TAG, Template(("What is it about? ", 0)), (Label("price"), Label("fit"))),
}
TEXTS = ("My invoice is wrong. <|im_end|> Café 24/7 🙂", "Injection site pain")


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_no_segment_ends_in_a_blank(profile: Profile, question: Question) -> None:
    try:
        segments = written(question, *TEXTS, profile=replace(profile, wrapper=PROFILE.wrapper, spellings=PROFILE.spellings))
    except ModelError:
        pytest.fail("every question fits every profile")
    assert not [segment for segment in segments if segment.endswith((" ", "\t"))]


@pytest.mark.parametrize("name", MODELS)
def test_the_wrapper_is_what_the_model_s_own_template_renders(name: str, model_folder: Callable[[str], Path]) -> None:
    """The artefact's template only ever runs here, in a sandbox; profiles are written out by hand."""
    template = (model_folder(name) / "chat_template.jinja").read_text()
    model = prompter_for(model_folder(name))
    prompt = model.compile(judge("Is it spam? ", 0, examples=(Example(("WIN",), "true"),)))
    text = Tokenizer(model_folder(name) / "tokenizer.json").decode(
        [i for segment in prompt.request(model.encode(["Hello"])).segments for i in segment]
    )
    turns = re.findall(r"<\|im_start\|>(user|assistant)\n(.*?)<\|im_end\|>", text, re.DOTALL)
    assert [role for role, _ in turns] == ["user", "assistant", "user"]
    messages = [{"role": role, "content": content} for role, content in turns]
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    rendered = environment.from_string(template).render(messages=messages, add_generation_prompt=True)
    assert text == rendered


WRITTEN = {
    "qwen2.5": (
        "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n"
        "<|im_start|>user\nWIN?<|im_end|>\n<|im_start|>assistant\nTRUE<|im_end|>\n"
        "<|im_start|>user\nHello?<|im_end|>\n<|im_start|>assistant\n"
    ),
    "qwen3": (
        "<|im_start|>user\nWIN?<|im_end|>\n<|im_start|>assistant\nTRUE<|im_end|>\n"
        "<|im_start|>user\nHello?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    ),
    "smollm2": (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nWIN?<|im_end|>\n<|im_start|>assistant\nTrue<|im_end|>\n"
        "<|im_start|>user\nHello?<|im_end|>\n<|im_start|>assistant\n"
    ),
    "llama3": (
        "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nWIN?<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\nTRUE<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nHello?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
    ),
}
"""What each family's own template renders for an example and a question, by its documentation; Qwen3's without reasoning."""


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_each_family_s_wrapper_is_what_its_documentation_shows(profile: Profile) -> None:
    bare = with_layout(profile, whole="{template}", judge="{documents}{question}", block="{text}")
    question = judge("?", 0, examples=(Example(("WIN",), "true"),))
    pieces = prompt_pieces(bare, question)
    assert (
        "".join("Hello" if isinstance(p, int) else p.text if isinstance(p, Markers) else p for p in pieces)
        == WRITTEN[bare.name]
    )


def test_a_family_without_a_profile_is_refused_by_name() -> None:
    assert [profile_of("llama", "smollm"), profile_of("qwen2", "qwen2"), profile_of("qwen3", "qwen2")] == [
        "smollm2",
        "qwen2.5",
        "qwen3",
    ]
    with pytest.raises(ModelError, match=r"gemma with the tokenizer default.*llama3 \(llama, llama-bpe\)"):
        profile_of("gemma", "default")


@pytest.mark.parametrize("name", MODELS)
def test_golden_ids(name: str, model_folder: Callable[[str], Path], golden: Callable[[str, str], None]) -> None:
    """A changed id is a changed prompt: raise the profile's version with it."""
    model = prompter_for(model_folder(name))
    tokenizer = Tokenizer(model_folder(name) / "tokenizer.json")
    lines = [model.layout]
    for title, question in QUESTIONS.items():
        request = model.compile(question).request(model.encode(TEXTS))
        lines += ["", f"# {title}"]
        parts = [("", ids) for ids in request.segments]
        parts += [(f"-> {rows} ", ids) for ids, rows in zip(request.readout.suffixes, request.readout.rows, strict=True)]
        lines += [f"{label}{tokenizer.decode(ids)!r} {' '.join(map(str, ids))}".rstrip() for label, ids in parts]
    golden(f"prompts-{name}.txt", "\n".join(lines) + "\n")


# Token store


class Counting:
    """A prompter that counts what it is asked to encode."""

    def __init__(self, tokenizer: str = "t1") -> None:
        self.tokenizer = tokenizer
        self.layout = "none/1"
        self.encoded: list[str] = []

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        self.encoded += texts
        return [tuple(text.encode("utf-8", "surrogatepass")) for text in texts]

    def compile(self, question: Question) -> ChatPrompt:
        raise AssertionError("the store only encodes")


@pytest.mark.parametrize("count", [1, 2, 3, 17, 100])
def test_many_requests_have_the_numbers_of_each_to_the_bit(count: int) -> None:
    chance = np.random.default_rng(count)
    trie = TrieReadout.of([(i % 3, i) for i in range(10, 30)], END)
    for readout in (JudgeReadout(SPELLINGS), TagReadout(SPELLINGS, ((7,), (8, 9), ())), trie):
        reads = [chance.normal(scale=9, size=(count, len(rows))).astype(np.float32) for rows in readout.rows]
        reads[0][count // 2, 0] = [np.nan, np.inf, -np.inf, 3.0][count % 4]
        with np.errstate(invalid="ignore"):
            together = readout.answer(reads)
            alone = np.stack([readout.answer([read[i] for read in reads]) for i in range(count)])
        assert together.dtype == alone.dtype == np.float32
        assert together.tobytes() == alone.tobytes()


WORDS = ["one", "two", "one", "", "drei 🙂", "two"]


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_distinct_text_is_encoded_once(tmp_path: Path, on_disk: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_store, "_FILE_TOKENS", 5)
    counting, store = Counting(), TokenStore(tmp_path / "tokens" if on_disk else None, keep=False)
    for _ in range(2):
        assert store.ids(counting, WORDS) == [tuple(word.encode()) for word in WORDS]
    assert counting.encoded == ["one", "two", "", "drei 🙂"]
    store.close()
    assert not on_disk or list((tmp_path / "tokens").iterdir()) == [], "nothing is left of a run"


def test_kept_ids_are_reused_by_content_and_tokenizer(tmp_path: Path) -> None:
    first, second, other = Counting(), Counting(), Counting("t2")
    store = TokenStore(tmp_path, keep=True)
    store.ids(first, WORDS)
    store.close()
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    store = TokenStore(tmp_path, keep=True)
    assert store.ids(second, [*WORDS, "new"]) == [tuple(word.encode()) for word in [*WORDS, "new"]]
    assert second.encoded == ["new"]
    store.ids(other, ["one"])
    assert other.encoded == ["one"]
    store.close()


def test_a_damaged_token_file_is_encoded_again(tmp_path: Path) -> None:
    counting, store = Counting(), TokenStore(tmp_path, keep=True)
    store.ids(counting, WORDS)
    store.close()
    (file,) = tmp_path.iterdir()
    for content in (b"", b"nonsense", file.read_bytes()[:200]):
        file.write_bytes(content)
        again = TokenStore(tmp_path, keep=True)
        assert again.ids(Counting(), ["one"]) == [tuple(b"one")]


def test_a_folder_that_cannot_be_written_is_an_engine_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(token_store, "_FILE_TOKENS", 1)
    with pytest.raises(EngineError, match="tokens: off"):
        TokenStore(tmp_path / "file" / "tokens", keep=False).ids(Counting(), ["one"])
