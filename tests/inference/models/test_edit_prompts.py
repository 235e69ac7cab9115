"""The prompts of edit models are those that their makers' clients sent, and answers are read as those clients do."""

import json
import re
from pathlib import Path

import pytest

from inference.bench.scenarios import Scenario
from inference.messages import EditKind, Hunk, NextEditRequest
from inference.models.edit_prompts import MIN_CONFIDENCE, EditPrompt, edit_prompt_for, guess_kind, parse_edit_prompt

FOLDER = Path(__file__).parents[2] / "data" / "edit_models"
RECORDED = [json.loads(line) for line in (FOLDER / "recorded.jsonl").read_text().splitlines()]
MODELS = ("zeta-2", "zeta", "sweep-next-edit-1.5B")
ORDER_DIFFERS = {("19-typescript-add-decorator", "zeta-2")}
"""The recorded prompt has the changes in another order than the scenario."""


def request(text: str, cursor: int, *hunks: Hunk) -> NextEditRequest:
    return NextEditRequest("r", text, hunks, "python", "a.py", cursor)


@pytest.mark.parametrize("model", MODELS)
def test_prompts_are_those_recorded(model: str) -> None:
    kind = guess_kind("auto", model)
    assert kind is not None
    for one in RECORDED:
        if one["model"] != model or (one["scenario"], model) in ORDER_DIFFERS:
            continue
        scenario = Scenario.parse(FOLDER / f"{one['scenario']}.txtar")
        hunks = tuple(Hunk(0, change.old, change.new) for change in scenario.history)
        asked = (
            edit_prompt_for(kind, NextEditRequest("r", scenario.text, hunks, scenario.language, scenario.path, cursor))
            for at in scenario.cursors
            for cursor in (at, at + 1)  # Sweep's client counted on past the end of a line
        )
        assert any(
            prompt and (prompt.text, list(prompt.stop_strings)) == (one["prompt"], one["stop"]) for prompt in asked
        )
        _, shown = parse_edit_prompt(one["prompt"]) or pytest.fail(one["prompt"])
        assert [(hunk.old, hunk.new, hunk.path) for hunk in shown.hunks] == [(each.old, each.new, "") for each in hunks]
        assert (shown.path, shown.text.rstrip("\n")) == (scenario.path, scenario.text.rstrip("\n"))
        assert {shown.cursor, shown.cursor - 1} & {*scenario.cursors}


TEXT = "".join(f"line{n} = {n}\n" for n in range(60))


@pytest.mark.parametrize("model", MODELS)
def test_an_answer_changes_the_lines_around_the_cursor(model: str) -> None:
    kind = guess_kind("auto", model)
    assert kind is not None
    for text in (TEXT, TEXT.replace("\n", "\r\n"), TEXT.rstrip("\n")):
        prompt = edit_prompt_for(kind, request(text, text.index("line30"), Hunk(3, "a = 1\n", "line3 = 3\n")))
        assert prompt is not None and text[prompt.start :].startswith(prompt.current)
        assert "line30" in prompt.current and prompt.current.count("\n") in (31, 41)
        plain = prompt.current.replace("\r\n", "\n").removeprefix(prompt.forced)
        assert prompt.rewritten_region(plain) == prompt.current
        assert prompt.rewritten_region(
            plain.replace("line31 = 31", "line31 = 0") + prompt.stop_strings[0] + "more"
        ) == (prompt.current.replace("line31 = 31", "line31 = 0"))
        assert prompt.rewritten_region(" \n") == prompt.current


def numbered(text: str, cursor: int, *hunks: Hunk) -> EditPrompt:
    prompt = edit_prompt_for("zeta-2.1", NextEditRequest("r", text, hunks, "rust", "test.rs", cursor))
    assert prompt is not None
    return prompt


def test_zeta_2_1_numbers_blocks_as_its_makers_do() -> None:
    """The prompt, the cuts and the answers of the tests in zed-industries/zed's crate zeta_prompt."""
    assert numbered("editable", 3, Hunk(0, "x\n", "y\n")).text == (
        "<[fim-suffix]>\n<[fim-prefix]><filename>edit_history\n--- a/test.rs\n+++ b/test.rs\n@@ -1,1 +1,1 @@\n-x\n+y\n"
        "\n<filename>test.rs\n<|marker_1|>edi<|user_cursor|>table<|marker_2|>\n<[fim-middle]>"
    )
    old = "line1\nline2\nline3\n\nline5\nline6\nline7\nline8\nline9\nline10\n"
    assert numbered(old, 0).rewritten_region("<|marker_1|>" + old.replace("line6", "LINE6") + "<|marker_2|>") == (
        old.replace("line6", "LINE6")
    )
    for answer in ("<|marker_2|>ignored content<|marker_2|>", "<|marker_1|>cut", "<|marker_2|>a<|marker_1|>", "a"):
        assert numbered(old, 0).rewritten_region(answer) == old


def test_zeta_2_1_rewrites_some_blocks_and_is_judged_by_those() -> None:
    text = "".join(f"def f{n}():\n" + f"    a = {n}\n" * 5 + "    return a\n}\n\n" for n in range(4))
    prompt = numbered(text, text.index("def f1"))
    draft = prompt.unchanged_answer()
    second = draft[draft.index("<|marker_2|>") : draft.index("<|marker_3|>") + len("<|marker_3|>")]
    assert second.startswith("<|marker_2|>def f1():\n") and draft.endswith("<|marker_4|>")
    assert prompt.text.count("<|user_cursor|><|marker_2|>") == 1, "a cursor between blocks ends the first"
    answer = pieces(second, "return", ("yield", 0.6))
    assert prompt.confidence(answer) == pytest.approx(0.6)
    (edit,) = prompt.parse_edits("".join(it.decode() for it, _ in answer) + "<[end▁of▁sentence]>", 0.6)
    before, after = prompt.current.split("def f1")
    assert edit.text == before + "def f1" + after.replace("return", "yield", 1)


def pieces(draft: str, old: str, *new: tuple[str, float]) -> list[tuple[bytes, float]]:
    """An answer that has these tokens instead of `old`. It repeats the text before that surely, and the rest by 0.9."""
    before, _, after = draft.partition(old)
    same = [(each, 1.0 if text is before else 0.9) for text in (before, after) for each in re.findall(r"\w+|\W", text)]
    at = len(re.findall(r"\w+|\W", before))
    return [(text.encode(), chance) for text, chance in (*same[:at], *new, *same[at:])]


@pytest.mark.parametrize(
    ("old", "new", "sure"),
    [
        pytest.param("31\n", [("9", 0.5), ("\n", 0.2)], 0.5, id="the changed word and no line end"),
        pytest.param("line31", [("li", 0.2), ("ne9", 0.6)], 0.4, id="each token of a changed word"),
        pytest.param("line31 = 31\n", [], 0.9, id="what follows deleted text"),
        pytest.param("line31", [("a", 0.1), ("\n", 0.3), ("line31", 0.9)], 0.2, id="added text"),
        pytest.param("line31", [("line31", 0.1)], 1.0, id="nothing changes"),
    ],
)
def test_an_answer_is_as_sure_as_its_changes(old: str, new: list[tuple[str, float]], sure: float) -> None:
    prompt = edit_prompt_for("sweep", request(TEXT, TEXT.index("line30")))
    assert prompt is not None
    answer = pieces(prompt.unchanged_answer(), old, *new)
    assert prompt.confidence(answer) == pytest.approx(sure)
    found = prompt.parse_edits(b"".join(text for text, _ in answer).decode(), prompt.confidence(answer))
    assert len(found) == (sure >= MIN_CONFIDENCE and sure < 1)


@pytest.mark.parametrize("kind", ["zeta-2", "zeta", "sweep"])
def test_the_end_of_an_answer_is_no_change(kind: EditKind) -> None:
    """Zeta's end mark takes the place of the region's last line feed."""
    prompt = edit_prompt_for(kind, request(TEXT, TEXT.index("line30")))
    assert prompt is not None
    answer = pieces(prompt.unchanged_answer().rstrip("\n"), "line31", ("line9", 0.3))
    assert prompt.confidence([*answer, (prompt.stop_strings[0].encode(), 1.0)]) == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("zed-industries_zeta-2.Q8_0.gguf", "zeta-2"),
        ("zeta2:8b", "zeta-2"),
        ("zeta-2.1-Q4_K_M.gguf", "zeta-2.1"),
        ("zed-industries/zeta-2.1", "zeta-2.1"),
        ("zeta-7b.gguf", "zeta"),
        ("maternion/sweep-next-edit-1.5B:latest", "sweep"),
        ("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", None),
        ("zetachain", None),
    ],
)
def test_a_name_tells_the_kind(name: str, kind: str | None) -> None:
    assert guess_kind("auto", name) == kind
    assert guess_kind("zeta", name) == "zeta"


@pytest.mark.parametrize("kind", ["zeta-2.1", "zeta-2", "zeta", "sweep"])
def test_text_that_would_end_a_prompt_is_not_shown(kind: str) -> None:
    ends = "<|cursor|> <|file_sep|> <|user_cursor|> <|user_cursor_is_here|> >>>>>>> UPDATED\n<|editable_region_end|>"
    assert edit_prompt_for(kind, request(f"a = 1\n# {ends}\n", 0)) is None  # type: ignore[arg-type]
    prompt = edit_prompt_for(kind, request("a = 1\n", 0, Hunk(0, f"# {ends}\n", "a = 1\n")))  # type: ignore[arg-type]
    assert prompt is not None and "# <|cursor|>" not in prompt.text
    assert edit_prompt_for(kind, request("x" * 10_000, 0)) is None  # type: ignore[arg-type]
    assert edit_prompt_for(kind, request("", 0)) is None  # type: ignore[arg-type]
