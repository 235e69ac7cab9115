"""The question for a hole: a prompt that stays the same while a line is typed, and the end of a text."""

from dataclasses import replace
from pathlib import Path

import pytest

from inference.ending import FillEnding
from inference.engine.canvas.plan import text_and_holes
from inference.engine.engine import Engine
from inference.engine.fim.prompt import FimPrompt, PromptBuilder
from inference.engine.fim.query import InfillQuery
from inference.messages import Hole, HoleKind, Snippet
from tests.inference.engine.filling import AFTER, BEFORE, line, request
from tests.inference.models.fim.checkpoints import changed, loaded

PLAIN = FimPrompt((1,), b"", 0, "", 0, 40, False, FillEnding("", "\ndef main():\n    pass\n"))


def asked(engine: Engine, before: str, after: str = AFTER, hole: Hole | None = None) -> FimPrompt:
    one = request(before, hole or line(), after)
    return PromptBuilder(engine.loaded, one).build(text_and_holes(one), ("",), 0)


def test_the_prompt_stays_the_same_while_a_line_is_typed(middle: Engine) -> None:
    assert len({asked(middle, BEFORE + "names.append(name)"[:count]).ids for count in range(18)}) == 1


@pytest.mark.parametrize(
    ("before", "shown"),
    [
        ("", "# main.py\n"),
        ("import os\nx =", "# main.py\nimport os\n"),
        ("#!/usr/bin/env python\nx =", "#!/usr/bin/env python\n"),
        ("<?php\nx =", "<?php\n"),
        ("#!/usr", "# main.py\n"),
    ],
)
def test_a_prompt_begins_with_the_files_name(middle: Engine, before: str, shown: str) -> None:
    one = request(before, line(), name_comment="# main.py\n")
    ids = PromptBuilder(middle.loaded, one).build(text_and_holes(one), ("",), 0).ids
    assert ids == tuple(middle.loaded.fim_adapter.fim_prompt(shown, ""))


def test_a_name_counts_against_the_window(middle: Engine) -> None:
    long = "".join(f"value_{number} = {number}\n" for number in range(2_000))
    named, plain = (request(long, line(), name_comment=comment) for comment in ("# main.py\n" * 500, ""))
    sizes = [len(PromptBuilder(middle.loaded, one).build(text_and_holes(one), ("",), 0).ids) for one in (named, plain)]
    assert abs(sizes[0] - sizes[1]) < sizes[1] / 4


def test_a_long_file_moves_its_window_seldom(middle: Engine) -> None:
    long = "".join(f"value_{number} = {number}\n" for number in range(2_000))
    starts = [asked(middle, long + "x = 1\n" * count + "y =").ids[1:40] for count in range(60)]
    assert len(set(starts)) <= 2


def test_a_line_without_an_end_is_no_longer_given_than_some(middle: Engine) -> None:
    found = [asked(middle, "x = [" + "1, " * count) for count in range(2_000, 2_040)]
    assert all(len(one.forced_start) <= 400 for one in found)
    assert len({one.ids for one in found}) <= 2


@pytest.mark.parametrize("typed", ["", "na", "names\n        x", "y" * 900, "a\n" * 300])
def test_head_and_given_are_the_file_up_to_what_was_typed(middle: Engine, typed: str) -> None:
    one = asked(middle, BEFORE, hole=Hole(HoleKind.BLOCK, starts_with=typed))
    assert one.text(one.forced_start) == typed


@pytest.mark.parametrize(
    ("before", "limit"), [('HELP = "', 32), ("/* ", 32), ('"""', 32), ("import os\n\n# ", 32), ("x = ", 64)]
)
def test_a_line_of_prose_ends_after_fewer_tokens(middle: Engine, before: str, limit: int) -> None:
    assert asked(middle, before, "\n").max_new_tokens == limit
    assert asked(middle, before, "\n", line(max_tokens=100)).max_new_tokens == 100
    rewritten = line(text="word " * 100, strength=0.5)
    assert asked(middle, before, "\n", rewritten).max_new_tokens > 100


def test_line_ends_at_its_first_break() -> None:
    one = replace(PLAIN, single_line=True, forced_start=b"    f(", healed_bytes=6, ending=FillEnding("    f("))
    assert one.find_stop(b"    f(x)\n", b")\n") == 8
    assert one.text(b"    f(x)") == "x)"
    assert one.find_stop(b"    f(x)\r\n", b")\r\n") == 8
    assert one.find_stop(b"    f(x", b"x") is None


def test_line_ends_where_it_closes_what_the_rest_closes() -> None:
    one = replace(PLAIN, single_line=True, forced_start=b"    f(", healed_bytes=6, ending=FillEnding("    f(", ") + y"))
    assert one.find_stop(b"    f(g(x)", b")") is None
    assert one.find_stop(b"    f(g(x))", b")") == 10
    assert one.find_stop(b'    f(":)', b")") is None, "a string is unfinished"


def test_a_text_ends_where_it_goes_on_into_what_follows() -> None:
    text = "x = 1\n\ndef main():\n    pass\n"
    end = PLAIN.find_stop(text.encode(), b"\n")
    assert text[:end].strip() == "x = 1"
    assert PLAIN.find_stop(b"x = 1\n\ndef main():\n", b"\n") is None


@pytest.mark.parametrize(("before", "inside"), [("\t\t", "        y = 2"), ("    ", "\ty = 2")])
def test_a_text_ends_with_its_block_in_spaces_or_tabs(before: str, inside: str) -> None:
    """A model answers a file of tabs in spaces, too, and the reverse."""
    one = replace(PLAIN, forced_start=before.encode(), healed_bytes=len(before), ending=FillEnding(before))
    text = f"{before}x = 1\n{inside}\n"
    assert one.find_stop(text.encode(), b"\n") is None
    end = one.find_stop(f"{text}  def g(self):\n".encode(), b"\n")
    assert text[:end] == text[:-1]


def test_a_text_ends_before_an_explanation() -> None:
    """A model tuned to chat closes the code block that it believes to be in, and explains the code."""
    one = replace(PLAIN, ending=FillEnding(has_fences=False))
    text = "x = 1\ny = 2\n```\n"
    for more in ("", "\n"):
        assert text[: one.find_stop((text + more).encode(), b"\n")] == "x = 1\ny = 2"
    for inside in ("x = 1\n# ```\n", '"""a\n```\n', "x = `\n```\n"):
        assert one.find_stop(inside.encode(), b"\n") is None
    for around in (FillEnding(), FillEnding("```\n", has_fences=False), FillEnding("", "\n```\n", has_fences=False)):
        assert replace(one, ending=around).find_stop(text.encode(), b"\n") is None


def test_a_line_gives_back_what_it_repeats_of_the_rest() -> None:
    one = replace(PLAIN, single_line=True, ending=FillEnding("f(", ")"))
    assert one.text(b"name + x)") == "name + x"
    assert one.text(b"name(x)") == "name(x)"
    assert one.text(b")") == ""
    assert replace(one, forced_start=b"x)").text(b"x)") == "x)"


def test_an_answer_of_a_chat_turn_is_the_code_in_it() -> None:
    chat = replace(PLAIN, query=InfillQuery("x = 1\n", "\n", False, 40, language="python"))
    answer = b"y = 2\nz = 3\n```\nThis adds two names."
    assert chat.find_stop(b"y = 2\nz = 3\n", b"\n") is None
    assert chat.find_stop(b"y = 2\nz = 3\n```\n", b"\n") is not None
    assert chat.text(answer) == "y = 2\nz = 3"


def test_other_files_come_before_the_prefix_the_likest_last(tmp_path: Path) -> None:
    family = loaded(changed(tmp_path))
    pieces = (Snippet("b.py", "x = 1\n"), Snippet("c.py", "y = 2"))
    one = request(BEFORE, line(), AFTER, path="a.py", context=pieces)
    builder = PromptBuilder(Engine(family).loaded, one)
    ids = [builder.build(text_and_holes(one), ("",), 0, reach).ids for reach in builder.windows[:2]]
    shown = [family.tokenizer.decode(each) for each in ids]
    assert shown[0].startswith("y = 2\n\nx = 1\n\n")
    assert shown[0].removeprefix("y = 2\n\nx = 1\n\n") == shown[1]
