"""Qwen2.5-Coder 0.5B through the real server and worker: what a user of six languages gets from it.

The model takes the likeliest token each time, so the same text is filled alike; what is looked for is what any reader
would write there, not one wording.
"""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest
from lsprotocol.types import Position, Range

from tests.e2e.editor import everywhere
from tests.e2e.workbench import Workbench, marked
from tests.real.conftest import MODEL

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


async def test_the_model_runs_under_its_name(bench: Workbench) -> None:
    await bench.editor.complete(bench.open("x = "), Position(0, 4))
    status = await bench.editor.status()
    assert (status.model, status.device, status.note) == (MODEL, "cpu", "")


@pytest.mark.parametrize("language", LINES)
async def test_ghost_text_ends_the_line(bench: Workbench, language: str) -> None:
    text, wanted = LINES[language]
    before, after = text.split("‸")
    uri = bench.open(before + after, language)
    at = Position(before.count("\n"), len(before.rpartition("\n")[2]))
    items = await bench.editor.complete(uri, at)
    assert re.search(wanted, str(items[0].insert_text)), items[0].insert_text


@pytest.mark.parametrize("language", HOLES)
async def test_holes_are_filled_together_and_nothing_else_changes(bench: Workbench, language: str) -> None:
    text, wanted = HOLES[language]
    uri = bench.open(text, language)
    answer = await bench.fill("fillFile", uri, everywhere())
    assert answer["applied"], answer
    pinned = "(.*?)".join(map(re.escape, text.split(HOLE)))
    filled = re.fullmatch(pinned, bench.text(uri), re.DOTALL)
    assert filled, bench.text(uri)
    for piece, pattern in zip(filled.groups(), wanted, strict=True):
        assert re.search(pattern, piece), bench.text(uri)


async def test_a_body_is_written_from_its_description(bench: Workbench) -> None:
    text = 'def is_even(number):\n    """Return whether a number is even."""\n'
    uri = bench.open(text)
    answer = await bench.fill("writeBody", uri, Range(Position(0, 6), Position(0, 6)))
    assert answer["applied"], answer
    assert bench.text(uri).startswith(text)
    scope: dict[str, object] = {}
    exec(bench.text(uri), scope)
    assert [scope["is_even"](number) for number in (0, 1, 2, 7)] == [True, False, True, False]  # type: ignore[operator]


async def test_an_instruction_is_followed(bench: Workbench) -> None:
    text = "def greet(name):\n    print('Hello ' + name)\n    return name\n"
    uri = bench.open(text)
    line = marked(text, "print('Hello ' + name)")
    answer = await bench.fill("rework", uri, line, strength=1.0, instruction="use an f-string instead of +")
    assert answer["applied"], answer
    assert re.search(r"f['\"].*\{name\}", bench.text(uri)), bench.text(uri)
    assert "+" not in bench.text(uri)
    assert bench.text(uri).startswith("def greet(name):\n")
    assert bench.text(uri).endswith("    return name\n")


async def test_each_step_of_joint_holes_is_shown_as_a_draft(bench: Workbench) -> None:
    text, wanted = HOLES["rust"]
    uri = bench.open(text, "rust")
    bench.drafts.clear()
    answer = await bench.fill("fillFile", uri, everywhere(), token="joint")
    assert answer["applied"], answer
    assert len(bench.drafts) >= len(wanted)


async def test_the_next_edit_that_only_a_model_expects(bench: Workbench, tmp_path: Path) -> None:
    line = "fn {}(w: f32, h: f32) -> f32 {{\n    {}\n}}\n"
    old = line.format("area", "w * h") + "\n" + line.format("perimeter", "2.0 * (w + h)")
    now, then = tmp_path / "shapes.rs", tmp_path / "old.rs"
    then.write_text(old)
    now.write_text(old.replace("f32", "f64", 3))
    command = ["next", str(now), "--since", str(then), "--model", MODEL]
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-m", "lsp_server.cli", *command], capture_output=True, text=True, check=True
    )
    assert done.stdout == old.replace("f32", "f64")
