"""Prompts in a family's own tokens are taken apart, secret files stay out of a request, and what is sent stays true."""

import msgspec
import pytest

from inference.messages import Snippet
from inference.models.fim_tokens import TABLE
from lsp_server.documents.uris import uri_path
from lsp_server.holes import HoleSpan
from lsp_server.http.schemas import (
    CompletionRequest,
    FimInput,
    FinalTextTracker,
    LlamaInfillRequest,
    OllamaGenerateRequest,
    OpenAiCompletionRequest,
    build_document,
    decode_request,
    fill_budget,
    find_hole,
    parse_fim_prompt,
    screened_fim_input,
)
from lsp_server.settings.schema import Settings

BEFORE = "def add(a, b):\n    ret"
AFTER = "\n\nprint(add(1, 2))\n"
OTHERS = (Snippet("one.py", "x = 1"), Snippet("src/two.py", "y = 2"))


@pytest.mark.parametrize("family", TABLE)
def test_a_familys_prompt_is_taken_apart(family: str) -> None:
    assert parse_fim_prompt(TABLE[family].prompt(BEFORE, AFTER, "", ())) == FimInput(BEFORE, AFTER)


@pytest.mark.parametrize("family", [name for name, tokens in TABLE.items() if tokens.repository])
def test_a_prompt_with_files_is_taken_apart(family: str) -> None:
    found = parse_fim_prompt(TABLE[family].prompt(BEFORE, AFTER, "src/add.py", OTHERS))
    others = tuple(Snippet(each.path, f"{each.text}\n") for each in OTHERS)
    assert found == FimInput(BEFORE, AFTER, "src/add.py", others)


def test_the_begun_answer_of_a_prompt_is_kept() -> None:
    assert parse_fim_prompt(TABLE["qwen2.5-coder"].prompt("x = ", "\n", "", ()) + "fo") == FimInput("x = fo", "\n")


def test_text_without_tokens_is_no_prompt() -> None:
    assert parse_fim_prompt("print('<fim_suffix> and then <fim_prefix>')") is None


def asked(**fields: object) -> LlamaInfillRequest:
    return msgspec.convert(fields, LlamaInfillRequest)


def hole_in(params: CompletionRequest) -> HoleSpan:
    fim_input = params.fim_input()
    return find_hole(params, fim_input, build_document(fim_input).snapshot())


def test_a_line_is_asked_for_where_code_follows_on_it() -> None:
    assert hole_in(asked(prompt="f(", input_suffix=")\n")).single_line
    assert hole_in(asked(prompt="x = ", stop=["\n"])).single_line
    assert not hole_in(asked(prompt="x = ", input_suffix="  \ny = 2\n")).single_line


def test_the_limit_of_tokens_is_kept_within_ours() -> None:
    assert [fill_budget(asked(n_predict=count), Settings(), "a plugin").max_tokens for count in (7, -1, 10**9)] == [
        7,
        0,
        1024,
    ]


def test_a_secret_file_is_not_sent_as_context() -> None:
    extra = [{"filename": name, "text": "x = 1"} for name in ("a.py", ".env", "/home/u/.ssh/id_rsa", "b.py")]
    assert [each.path for each in screened_fim_input(asked(input_extra=extra), Settings()).context] == ["b.py", "a.py"]


def test_a_secret_file_is_not_filled() -> None:
    params = OpenAiCompletionRequest(prompt=TABLE["qwen2.5-coder"].prompt("KEY=", "\n", ".env", OTHERS))
    with pytest.raises(ValueError, match="secrets"):
        screened_fim_input(params, Settings())


@pytest.mark.parametrize(("path", "language"), [("src/a b#.py", "python"), ("C:\\x\\a.rs", "rust"), ("", "")])
def test_a_file_with_a_name_has_a_tree(path: str, language: str) -> None:
    snapshot = build_document(FimInput("x = ", "\n", path)).snapshot()
    assert (snapshot.language_id, snapshot.text) == (language, "x = \n")
    assert (snapshot.tree is not None) == bool(language)
    assert uri_path(snapshot.uri).rpartition("/")[2] == path.replace("\\", "/").rpartition("/")[2]


@pytest.mark.parametrize("half", [rb"\ud83d", rb"\ude00\ud83d", b"\xed\xa0\xbd"])
def test_half_a_character_is_left_out(half: bytes) -> None:
    body = b'{"input_prefix": "x = \'%b", "input_suffix": "%b\'"}' % (half, half)
    assert decode_request(body, LlamaInfillRequest).fim_input() == FimInput("x = '", "'")


def test_null_and_whole_floats_are_read() -> None:
    body = b'{"prompt": "x", "suffix": null, "max_tokens": 64.0, "n": 2, "stop": null, "stream": null}'
    assert decode_request(body, OpenAiCompletionRequest) == OpenAiCompletionRequest(prompt="x", wanted_tokens=64)
    body = b'{"input_prefix": "x", "prompt": null, "input_extra": [{"text": "y", "filename": null}], "n_predict": 8.0}'
    assert decode_request(body, LlamaInfillRequest) == asked(input_prefix="x", input_extra=[{"text": "y"}], n_predict=8)


@pytest.mark.parametrize("body", [b"{}", b"[]", b'{"prompt": null}', b'{"message": "x"}', b"1", b'{"prompt": 1.5}'])
@pytest.mark.parametrize("kind", [LlamaInfillRequest, OpenAiCompletionRequest, OllamaGenerateRequest])
def test_a_body_without_a_text_is_refused(body: bytes, kind: type[CompletionRequest]) -> None:
    with pytest.raises(ValueError):
        decode_request(body, kind)


@pytest.mark.parametrize(
    "prompt",
    [
        "<|code_prefix|>{0}<|code_suffix|>{1}<|code_middle|>",
        "<|code_suffix|>{1}<|code_prefix|>{0}<|code_middle|>",
        "<fill-prefix>{0}<fill-suffix>{1}<fill-middle>",
        "<PRE> {0} <SUF>{1} <MID>",
        "<|im_start|>user\n<|fim_prefix|>{0}<|fim_suffix|>{1}<|fim_middle|><|im_end|>\n<|im_start|>assistant\n",
        "<|user|>\n<|code_prefix|>{0}<|code_suffix|>{1}<|code_middle|><|assistant|>\n",
        "<start_of_turn>user\n<|fim_prefix|>{0}<|fim_suffix|>{1}<|fim_middle|><end_of_turn>\n<start_of_turn>model\n",
    ],
)
def test_other_prompts_are_taken_apart(prompt: str) -> None:
    assert parse_fim_prompt(prompt.format(BEFORE, AFTER)) == FimInput(BEFORE, AFTER)


@pytest.mark.parametrize("prompt", ["<|im_start|>user\nHello", "<|code_prefix|>x = ", "<|begin|>x<|hole|>y<|end|>"])
def test_a_prompt_of_an_unknown_form_is_refused(prompt: str) -> None:
    with pytest.raises(ValueError, match="unknown form"):
        screened_fim_input(OpenAiCompletionRequest(prompt=prompt), Settings())


LOOP = "int f(int n) {\n    while (n) {\n        n--;\n", "\n    }\n    return n;\n}\n"


@pytest.mark.parametrize(
    ("before", "after", "indent"),
    [
        (*LOOP, "        "),
        ("def f(xs):\n    for x in xs:\n", "\n    return xs\n", "        "),
        ("def f(xs):\n    s = 0\n", "\n    return s\n", "    "),
        ("for f in *; do\n  a\n", "\ndone\n", "  "),
        ("def f(xs):\n    return xs\n\n\n", "\n\ndef g():\n    pass\n", ""),
    ],
)
def test_a_blank_line_gets_the_indentation_of_its_block(before: str, after: str, indent: str) -> None:
    """llama.vim sends a line of white space as an empty prompt."""
    assert hole_in(asked(input_prefix=before, input_suffix=after, prompt="", n_indent=0)).starts_with == indent


WHOLE = "one = 1\ntwo = 2\n\nthree = 3\nfour = 4\n"


def sent(drafts: list[str], whole: str, *stops: str) -> tuple[list[str], bool]:
    text = FinalTextTracker(stops)
    parts = []
    for draft in drafts:
        parts.append(text.take_final(draft, is_whole=False))
        if text.is_stopped:
            return [part for part in parts if part], True
    parts.append(text.take_final(whole, is_whole=True))
    return [part for part in parts if part], text.is_stopped


DRAFTS = [WHOLE[:end] for end in range(len(WHOLE))]


@pytest.mark.parametrize(
    ("drafts", "whole", "stops", "parts"),
    [
        pytest.param(DRAFTS, WHOLE, "", ["one = 1\n", WHOLE.removeprefix("one = 1\n")], id="once two others follow"),
        pytest.param(DRAFTS, "one = 1\ntwo = 2\n", "", ["one = 1\n", "two = 2\n"], id="not what the whole drops"),
        pytest.param(["one", "one two", "one two; thr"], "unseen", ";", ["one two"], id="up to a stop"),
        pytest.param([], "a; b # c", "#;", ["a"], id="up to the first of several stops"),
    ],
)
def test_lines_are_sent_once_they_are_final(drafts: list[str], whole: str, stops: str, parts: list[str]) -> None:
    assert sent(drafts, whole, *stops) == (parts, bool(stops))
