"""A hole allows the tokenizer's own tokens for the whole text, split by Qwen2's rules."""

import itertools
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer

from inference.bench import infilling_tasks
from inference.bench.infilling_tasks import InfillingTask
from inference.engine.canvas.answered import Written
from inference.engine.canvas.batch import FORBIDDEN, CanvasBatch, Constraints
from inference.engine.canvas.layout import Plan
from inference.engine.canvas.plan import Planner
from inference.engine.canvas.vocabulary import Vocabulary
from inference.messages import Hole, InfillRequest, Text
from inference.models.properties import Properties

DATA = Path(__file__).parents[2] / "data"
PROPERTIES = Properties()


@pytest.fixture(scope="module")
def qwen() -> Vocabulary:
    return Vocabulary(Tokenizer.from_file(str(DATA / "fim" / "tokenizer.json")))


@pytest.fixture(scope="module")
def tasks() -> list[InfillingTask]:
    return infilling_tasks.read(DATA / "tuning.jsonl.gz")


def planned(vocabulary: Vocabulary, before: str, hole: Hole, after: str) -> Plan:
    return Planner(vocabulary, PROPERTIES, InfillRequest("r", (Text(before), hole, Text(after)))).plan(range(1), ())


def token_at(vocabulary: Vocabulary, text: str, place: int) -> tuple[int, int]:
    """Where the token of the whole text that holds the byte at `place` begins, and its id."""
    ids = vocabulary.encode(text)
    starts = list(itertools.accumulate((len(vocabulary.bytes_of([id_])) for id_ in ids), initial=0))
    number = max(number for number, start in enumerate(starts[:-1]) if start <= place)
    return starts[number], ids[number]


def allowed(vocabulary: Vocabulary, plan: Plan, row: int) -> set[int]:
    constraints = Constraints(vocabulary, PROPERTIES, len(vocabulary), torch.device("cpu"))
    canvas = CanvasBatch.of([plan.compose([2])], torch.device("cpu"))
    constraint = constraints.of(canvas, plan.holes)
    return set((constraint.biases[constraint.of_row[row]] > FORBIDDEN).nonzero()[:, 0].tolist())


def test_a_hole_may_begin_as_the_tokenizer_would(qwen: Vocabulary, tasks: list[InfillingTask]) -> None:
    for task in tasks:
        plan = planned(qwen, task.before, Hole(single_line=task.single_line), task.after)
        (hole,), start = plan.holes, len(task.before.encode())
        at, token = token_at(qwen, task.before + task.solution + task.after, start - hole.skip)
        assert at == start - hole.skip
        assert token in allowed(qwen, plan, 0), (task.before[-12:], task.solution)
        assert qwen.bytes_of(list(plan.prefix_ids)).endswith(task.before.encode()[:at][-32:])


def test_a_hole_of_one_line_may_end_as_the_tokenizer_would(qwen: Vocabulary, tasks: list[InfillingTask]) -> None:
    ends = [task for task in tasks if task.single_line and task.after.startswith("\n")]
    assert len(ends) == 75
    others = allowed(qwen, planned(qwen, "x =", Hole(single_line=True), "\n"), 1)
    for task in ends:
        whole = task.before + task.solution
        assert token_at(qwen, whole + task.after, len(whole.encode()) - 1)[1] in others


@pytest.mark.parametrize("blank", ["    ", "\n        ", "\t\t", "x =    ", "\n\n", " "])
@pytest.mark.parametrize("typed", ["", "    ", "  \t", "if  "])
def test_blanks_before_a_hole_and_typed_ones_are_kept(qwen: Vocabulary, blank: str, typed: str) -> None:
    plan = planned(qwen, "if x:\n" + blank, Hole(starts_with=typed), "\n")
    (hole,) = plan.holes
    given = qwen.bytes_of([*plan.prefix_ids, *hole.forced])
    whole = ("if x:\n" + blank + typed).encode()
    assert whole.startswith(given)
    assert all(qwen.bytes_of([id_]).startswith(whole[len(given) :]) for id_ in hole.allowed)


@pytest.mark.parametrize(("fill", "text"), [("f(x)\n", "f(x)"), ("f(x)\n\n y = 2", "f(x)"), ("f(x", "f(x")])
def test_a_line_break_ends_the_text_of_a_hole_of_one_line(qwen: Vocabulary, fill: str, text: str) -> None:
    plan, ids = planned(qwen, "if x:\n", Hole(single_line=True), "\n"), qwen.encode("if x:\n" + fill)
    begin = len(plan.prefix_ids)
    span, (hole,) = (0, 0, len(ids) - begin), plan.holes
    written = Written(ids[begin:], [0.5] * len(ids), [span], 1)
    assert written.texts(qwen, [hole]) == (text,)
    assert "".join(written.pieces(qwen, 0, hole)[0]) == text


def test_what_is_typed_of_a_hole_of_one_line_may_break_it(qwen: Vocabulary) -> None:
    (hole,) = planned(qwen, "x = ", Hole(single_line=True, starts_with="f(\n    y"), "\n").holes
    ids = [*hole.forced, *qwen.encode(" y)\n")]
    assert Written(ids, [], [(0, len(hole.forced), len(ids))], 1).texts(qwen, [hole]) == ("f(\n    y)",)
