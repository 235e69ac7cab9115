"""Qwen2.5-Coder 0.5B through the real server and worker: what a user of six languages gets from it.

The model takes the likeliest token each time, so the same text is filled alike; what is looked for is what any reader
would write there, not one wording.
"""

import asyncio
import re
from pathlib import Path

import pytest

from tests.e2e.raw_client import EVERYWHERE, RawClient
from tests.e2e.user import User
from tests.real.conftest import MODEL
from tests.workers import infill_ls

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOLE = "???"
LINES = {
    "python": (
        "import os\n\n\ndef size(path):\n"
        '    """Return the size of a file in bytes, 0 if there is none."""\n'
        "    if not os.path.exists(path):\n        return 0\n    return os.path.‸\n",
        r"getsize\(path\)",
    ),
    "typescript": (
        "interface Item { price: number; quantity: number }\n\nfunction total(items: Item[]): number {\n"
        "  return items.reduce((sum, item) => sum + ‸, 0);\n}\n",
        r"item\.price",
    ),
    "go": (
        'package main\n\nimport "strings"\n\n// words returns how many words a text has.\n'
        "func words(text string) int {\n\treturn len(strings.‸)\n}\n",
        r"(Fields|Split)\(text",
    ),
    "rust": (
        "pub struct Stack {\n    items: Vec<i64>,\n}\n\nimpl Stack {\n    /// The number of items.\n"
        "    pub fn len(&self) -> usize {\n        self.‸\n    }\n}\n",
        r"items\.len\(\)",
    ),
    "java": (
        "public class Circle {\n    private final double radius;\n\n    public Circle(double radius) {\n"
        "        this.radius = ‸;\n    }\n}\n",
        r"radius",
    ),
    "c": (
        "#include <stddef.h>\n\nint sum(const int *numbers, size_t count) {\n    int total = 0;\n"
        "    for (size_t i = 0; i < count; i++) {\n        total += ‸;\n    }\n    return total;\n}\n",
        r"numbers\[i\]",
    ),
}
HOLES = {
    "python": (
        'def report(folder, out):\n    """Write one line for each file of the folder."""\n'
        "    for name in ???:\n        out.write(???)\n",
        (r"listdir|scandir|folder|walk|glob", r"name"),
    ),
    "typescript": (
        "function clamp(value: number, low: number, high: number): number {\n"
        "  if (value < ???) return low;\n  if (value > ???) return high;\n  return value;\n}\n",
        (r"^low$", r"^high$"),
    ),
    "go": (
        "package main\n\n// count returns how often each word occurs.\n"
        "func count(words []string) map[string]int {\n\tcounts := ???\n\tfor _, word := range words {\n"
        "\t\t???\n\t}\n\treturn counts\n}\n",
        (r"make\(map\[string\]int|map\[string\]int\{", r"counts\[word\]"),
    ),
    "rust": (
        "pub struct Point {\n    pub x: f64,\n    pub y: f64,\n}\n\nimpl Point {\n"
        "    pub fn new(x: f64, y: f64) -> Self {\n        ???\n    }\n\n"
        "    pub fn add(&self, other: &Point) -> Point {\n        Point { x: ???, y: ??? }\n    }\n}\n",
        (r"x", r"self\.x \+ other\.x", r"self\.y \+ other\.y"),
    ),
    "java": (
        "import java.util.List;\n\nclass Lists {\n    static int largest(List<Integer> numbers) {\n"
        "        int best = ???;\n        for (int number : numbers) {\n            if (???) {\n"
        "                best = number;\n            }\n        }\n        return best;\n    }\n}\n",
        (r"numbers|MIN_VALUE|0", r"number > best|best < number"),
    ),
    "c": (
        "int largest(const int *numbers, int count) {\n    int best = ???;\n"
        "    for (int i = 1; i < count; i++) {\n        if (???) best = numbers[i];\n    }\n    return best;\n}\n",
        (r"numbers\[0\]|\*numbers", r"numbers\[i\] > best|best < numbers\[i\]"),
    ),
}


async def test_the_model_runs_under_its_name(client: RawClient) -> None:
    await User(client, "x = ‸").complete()
    status = await client.status()
    assert (status["model"], status["device"], status["note"]) == (MODEL, "cpu", "")


@pytest.mark.parametrize("language", LINES)
async def test_ghost_text_ends_the_line(client: RawClient, language: str) -> None:
    text, wanted = LINES[language]
    first, *_ = await User(client, text, language).complete()
    assert re.search(wanted, first["insertText"]), first["insertText"]


@pytest.mark.parametrize("language", HOLES)
async def test_holes_are_filled_together_and_nothing_else_changes(client: RawClient, language: str) -> None:
    text, wanted = HOLES[language]
    user = User(client, text, language)
    answer = await user.fill("fillFile", *EVERYWHERE)
    assert answer["applied"], answer
    pinned = "(.*?)".join(map(re.escape, text.split(HOLE)))
    filled = re.fullmatch(pinned, user.text, re.DOTALL)
    assert filled, user.text
    for piece, pattern in zip(filled.groups(), wanted, strict=True):
        assert re.search(pattern, piece), user.text


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


async def test_the_next_edit_that_only_a_model_expects(client: RawClient, tmp_path: Path) -> None:
    line = "fn {}(w: f32, h: f32) -> f32 {{\n    {}\n}}\n"
    old = line.format("area", "w * h") + "\n" + line.format("perimeter", "2.0 * (w + h)")
    now, then = tmp_path / "shapes.rs", tmp_path / "old.rs"
    then.write_text(old)
    now.write_text(old.replace("f32", "f64", 3))
    done = await asyncio.to_thread(infill_ls, "next", now, "--since", then, "--model", MODEL)
    assert done.stdout == old.replace("f32", "f64")
