"""The prompts of edit models are those that their makers' clients sent, and answers are read as those clients do."""

import json
from pathlib import Path

import pytest

from inference.bench.edit_models import Scenario
from inference.messages import Hunk, NextEditRequest
from inference.models.edit_prompts import kind_of, prompt_for

FOLDER = Path(__file__).parents[2] / "data" / "edit_models"
RECORDED = [json.loads(line) for line in (FOLDER / "recorded.jsonl").read_text().splitlines()]
MODELS = ("zeta-2", "zeta", "sweep-next-edit-1.5B")
ORDER_DIFFERS = {("19-typescript-add-decorator", "zeta-2")}
"""The recorded prompt has the changes in another order than the scenario."""


def request(text: str, cursor: int, *hunks: Hunk) -> NextEditRequest:
    return NextEditRequest("r", text, hunks, "python", "a.py", cursor)


@pytest.mark.parametrize("model", MODELS)
def test_prompts_are_those_recorded(model: str) -> None:
    kind = kind_of("auto", model)
    assert kind is not None
    for one in RECORDED:
        if one["model"] != model or (one["scenario"], model) in ORDER_DIFFERS:
            continue
        scenario = Scenario.read(FOLDER / f"{one['scenario']}.txtar")
        hunks = tuple(Hunk(0, change.old, change.new) for change in scenario.history)
        asked = (
            prompt_for(kind, NextEditRequest("r", scenario.text, hunks, scenario.language, scenario.path, cursor))
            for at in scenario.cursors
            for cursor in (at, at + 1)  # Sweep's client counted on past the end of a line
        )
        assert any(prompt and (prompt.text, list(prompt.ends)) == (one["prompt"], one["stop"]) for prompt in asked)


TEXT = "".join(f"line{n} = {n}\n" for n in range(60))


@pytest.mark.parametrize("model", MODELS)
def test_an_answer_changes_the_lines_around_the_cursor(model: str) -> None:
    kind = kind_of("auto", model)
    assert kind is not None
    for text in (TEXT, TEXT.replace("\n", "\r\n"), TEXT.rstrip("\n")):
        prompt = prompt_for(kind, request(text, text.index("line30"), Hunk(3, "a = 1\n", "line3 = 3\n")))
        assert prompt is not None and text[prompt.start :].startswith(prompt.now)
        assert "line30" in prompt.now and prompt.now.count("\n") in (31, 41)
        plain = prompt.now.replace("\r\n", "\n").removeprefix(prompt.written)
        assert prompt.rewritten(plain) == prompt.now
        assert prompt.rewritten(plain.replace("line31 = 31", "line31 = 0") + prompt.ends[0] + "more") == (
            prompt.now.replace("line31 = 31", "line31 = 0")
        )
        assert prompt.rewritten(" \n") == prompt.now


@pytest.mark.parametrize("kind", ["zeta-2", "zeta", "sweep"])
def test_text_that_would_end_a_prompt_is_not_shown(kind: str) -> None:
    ends = "<|cursor|> <|file_sep|> <|user_cursor|> <|user_cursor_is_here|> >>>>>>> UPDATED\n<|editable_region_end|>"
    assert prompt_for(kind, request(f"a = 1\n# {ends}\n", 0)) is None  # type: ignore[arg-type]
    prompt = prompt_for(kind, request("a = 1\n", 0, Hunk(0, f"# {ends}\n", "a = 1\n")))  # type: ignore[arg-type]
    assert prompt is not None and "# <|cursor|>" not in prompt.text
    assert prompt_for(kind, request("x" * 10_000, 0)) is None  # type: ignore[arg-type]
    assert prompt_for(kind, request("", 0)) is None  # type: ignore[arg-type]
