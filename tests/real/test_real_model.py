"""Qwen2.5-Coder 0.5B through the real server and worker: what a user of six languages gets from it.

The model takes the likeliest token each time, so the same text is filled alike; what is looked for is what any reader
would write there, not one wording.
"""

import re
from pathlib import Path

import pytest

from tests.e2e.raw_client import EVERYWHERE, RawClient
from tests.e2e.test_next_edit import Sidekick
from tests.e2e.user import User
from tests.lsp_server.fixtures import Case, cases
from tests.real.conftest import DEVICES, MODEL

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOLE = "???"
FIXTURES = Path(__file__).parent / "fixtures"
"""A text in each language, and for what is to be filled in a regular expression: `~`."""


async def test_the_model_runs_under_its_name(client: RawClient) -> None:
    await User(client, "x = ‸").complete()
    status = await client.status()
    assert (status["model"], status["device"] in DEVICES, status["note"]) == (MODEL, True, "")


@pytest.mark.parametrize("case", cases(FIXTURES / "lines.txt", "~"))
async def test_ghost_text_ends_the_line(client: RawClient, case: Case) -> None:
    first, *_ = await User(client, case.text, case.title).complete()
    assert re.search(case.expected["~"], first["insertText"]), first["insertText"]


@pytest.mark.parametrize("case", cases(FIXTURES / "holes.txt", "~"))
async def test_holes_are_filled_together_and_nothing_else_changes(client: RawClient, case: Case) -> None:
    user = User(client, case.text, case.title)
    answer = await user.fill("fillFile", *EVERYWHERE)
    assert answer["applied"], answer
    pinned = "(.*?)".join(map(re.escape, case.text.split(HOLE)))
    filled = re.fullmatch(pinned, user.text, re.DOTALL)
    assert filled, user.text
    for piece, pattern in zip(filled.groups(), case.expected["~"].split("\n"), strict=True):
        assert re.search(pattern, piece), user.text


@pytest.mark.skipif("cpu" in DEVICES, reason="`make test-mlx` has MLX")
@pytest.mark.parametrize("case", cases(FIXTURES / "short_lines.txt", "~"))
async def test_mlx_ends_short_lines(client: RawClient, case: Case) -> None:
    """On a processor MLX reads two or three tokens a second: a second request may have to go on."""
    offered = await User(client, case.text, case.title).offered(invoked=True)
    assert re.search(case.expected["~"], offered["insertText"]), offered["insertText"]
    assert (await client.status())["device"] in DEVICES


async def test_a_body_is_written_from_its_description(client: RawClient) -> None:
    text = 'def is_even(number):\n    """Return whether a number is even."""\n'
    user = User(client, text)
    answer = await user.fill("writeBody", (0, 6))
    assert answer["applied"], answer
    assert user.text.startswith(text)
    scope: dict[str, object] = {}
    exec(user.text, scope)
    assert [scope["is_even"](number) for number in (0, 1, 2, 7)] == [True, False, True, False]  # type: ignore[operator]


async def test_an_instruction_is_followed(client: RawClient) -> None:
    user = User(client, "def greet(name):\n    print('Hello ' + name)\n    return name\n")
    line = user.around("print('Hello ' + name)")
    answer = await user.fill("rework", *line, strength=1.0, instruction="use an f-string instead of +")
    assert answer["applied"], answer
    assert re.search(r"f['\"].*\{name\}", user.text), user.text
    assert "+" not in user.text
    assert user.text.startswith("def greet(name):\n")
    assert user.text.endswith("    return name\n")


async def test_the_next_edit_that_only_a_model_expects(client: RawClient) -> None:
    line = "fn {}(w: f32, h: f32) -> f32 {{\n    {}\n}}\n"
    old = line.format("area", "w * h") + "\n" + line.format("perimeter", "2.0 * (w + h)")
    user = Sidekick(client, old, "rust")
    user.retype(old.replace("f32", "f64", 3))
    while edits := await user.next_edits():
        user.accept(edits[0])
    assert user.text == old.replace("f32", "f64")
