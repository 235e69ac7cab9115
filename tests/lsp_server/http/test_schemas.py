"""Prompts in a family's own tokens are taken apart, secret files stay out of a request, and what is sent stays true."""

import msgspec
import pytest

from inference.messages import Snippet
from inference.models.fim_tokens import TABLE
from lsp_server.documents.uris import path_of
from lsp_server.http.schemas import (
    FimInput,
    LlamaInfillRequest,
    OpenAiCompletionRequest,
    TextSoFar,
    budget_of,
    document_of,
    hole_of,
    place_of,
    taken_apart,
)
from lsp_server.settings.schema import Settings

BEFORE = "def add(a, b):\n    ret"
AFTER = "\n\nprint(add(1, 2))\n"
OTHERS = (Snippet("one.py", "x = 1"), Snippet("src/two.py", "y = 2"))


@pytest.mark.parametrize("family", TABLE)
def test_a_familys_prompt_is_taken_apart(family: str) -> None:
    assert taken_apart(TABLE[family].prompt(BEFORE, AFTER, "", ())) == FimInput(BEFORE, AFTER)


def test_zeds_spelling_of_code_llamas_tokens_is_known() -> None:
    assert taken_apart(f"<PRE> {BEFORE} <SUF>{AFTER} <MID>") == FimInput(BEFORE, AFTER)


@pytest.mark.parametrize("family", [name for name, tokens in TABLE.items() if tokens.repository])
def test_a_prompt_with_files_is_taken_apart(family: str) -> None:
    found = taken_apart(TABLE[family].prompt(BEFORE, AFTER, "src/add.py", OTHERS))
    others = tuple(Snippet(each.path, f"{each.text}\n") for each in OTHERS)
    assert found == FimInput(BEFORE, AFTER, "src/add.py", others)


def test_the_begun_answer_of_a_prompt_is_kept() -> None:
    assert taken_apart(TABLE["qwen2.5-coder"].prompt("x = ", "\n", "", ()) + "fo") == FimInput("x = fo", "\n")


def test_text_without_tokens_is_no_prompt() -> None:
    assert taken_apart("print('<fim_suffix> and then <fim_prefix>')") is None


def asked(**fields: object) -> LlamaInfillRequest:
    return msgspec.convert(fields, LlamaInfillRequest)


def asks_for_a_line(**fields: object) -> bool:
    form = asked(**fields)
    return hole_of(form, form.place()).single_line


def test_a_line_is_asked_for_where_code_follows_on_it() -> None:
    assert asks_for_a_line(prompt="f(", input_suffix=")\n")
    assert asks_for_a_line(prompt="x = ", stop=["\n"])
    assert not asks_for_a_line(prompt="x = ", input_suffix="  \ny = 2\n")


def test_the_limit_of_tokens_is_kept_within_ours() -> None:
    assert [budget_of(asked(n_predict=count), Settings(), "a plugin").max_tokens for count in (7, -1, 10**9)] == [
        7,
        0,
        1024,
    ]


def test_a_secret_file_is_not_sent_as_context() -> None:
    extra = [{"filename": name, "text": "x = 1"} for name in ("a.py", ".env", "/home/u/.ssh/id_rsa", "b.py")]
    assert [each.path for each in place_of(asked(input_extra=extra), Settings()).context] == ["b.py", "a.py"]


def test_a_secret_file_is_not_filled() -> None:
    form = OpenAiCompletionRequest(prompt=TABLE["qwen2.5-coder"].prompt("KEY=", "\n", ".env", OTHERS))
    with pytest.raises(ValueError, match="secrets"):
        place_of(form, Settings())


@pytest.mark.parametrize(("path", "language"), [("src/a b#.py", "python"), ("C:\\x\\a.rs", "rust"), ("", "")])
def test_a_file_with_a_name_has_a_tree(path: str, language: str) -> None:
    snapshot = document_of(FimInput("x = ", "\n", path)).snapshot()
    assert (snapshot.language_id, snapshot.text) == (language, "x = \n")
    assert (snapshot.tree is not None) == bool(language)
    assert path_of(snapshot.uri).rpartition("/")[2] == path.replace("\\", "/").rpartition("/")[2]


@pytest.mark.parametrize("half", [rb"\ud83d", rb"\ude00\ud83d", b"\xed\xa0\xbd"])
def test_a_body_with_half_a_character_is_refused(half: bytes) -> None:
    for field in ("input_prefix", "prompt"):
        with pytest.raises(ValueError):
            msgspec.json.decode(b'{"%b": "x = \'%b\'"}' % (field.encode(), half), type=LlamaInfillRequest)


WHOLE = "one = 1\ntwo = 2\n\nthree = 3\nfour = 4\n"


def sent(drafts: list[str], whole: str, *stops: str) -> tuple[list[str], bool]:
    text = TextSoFar(stops)
    parts = []
    for draft in drafts:
        parts.append(text.more(draft, is_whole=False))
        if text.is_stopped:
            return [part for part in parts if part], True
    parts.append(text.more(whole, is_whole=True))
    return [part for part in parts if part], text.is_stopped


def test_lines_are_sent_once_two_others_follow() -> None:
    drafts = [WHOLE[:end] for end in range(len(WHOLE))]
    assert sent(drafts, WHOLE)[0] == ["one = 1\n", WHOLE.removeprefix("one = 1\n")]


def test_lines_that_the_whole_text_drops_are_never_sent() -> None:
    parts, _ = sent([WHOLE[:end] for end in range(len(WHOLE))], "one = 1\ntwo = 2\n")
    assert "".join(parts) == "one = 1\ntwo = 2\n"


def test_a_stop_ends_a_text_while_it_is_written() -> None:
    assert sent(["one", "one two", "one two; thr"], "unseen", ";") == (["one two"], True)


def test_the_first_of_several_stops_counts() -> None:
    assert sent([], "a; b # c", "#", ";") == (["a"], True)
