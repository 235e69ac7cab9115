"""Text to tokens and back, byte for byte, for any checkpoint's tokenizer; a hole allows those of the whole text."""

import itertools
import json
import shutil
from functools import cache
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, normalizers

from inference.bench import infilling_tasks
from inference.bench.infilling_tasks import InfillingTask
from inference.engine.canvas.batch import FORBIDDEN_BIAS, CanvasBatch, ConstraintBuilder
from inference.engine.canvas.layout import CanvasPlan
from inference.engine.canvas.plan import CanvasPlanner
from inference.engine.canvas.results import FilledCanvas
from inference.engine.canvas.vocabulary import Vocabulary
from inference.engine.engine import Engine
from inference.messages import Hole, InfillRequest, PinnedText
from inference.models import registry
from inference.models.infill_config import InfillConfig
from tests.inference.engine.filling import fill

DATA = Path(__file__).parents[2] / "data"
ODD = "cafe\u0301 \u2126 \ufb01 \uac00 \u2581x \u2581 \U0001f600\t\r\n"
"""What one normaliser or another changes, and U+2581, which stands for a space in Gemma's tokens."""

SPACE = "\u2581"

NORMALISERS = {
    "masked": normalizers.NFC(),
    "fim": normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(), normalizers.Strip()]),
    "twin": normalizers.Sequence([normalizers.NFC(), normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)]),
}


@cache
def normalising(name: str) -> Vocabulary:
    tokenizer = Tokenizer.from_file(str(DATA / name / "tokenizer.json"))
    tokenizer.normalizer = NORMALISERS[name]
    return Vocabulary(tokenizer)


@pytest.fixture(scope="module")
def nfc(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder = tmp_path_factory.mktemp("nfc")
    shutil.copytree(DATA / "masked", folder, dirs_exist_ok=True)
    stated = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps(stated | {"normalizer": {"type": "NFC"}}))
    return Engine(registry.load_model(str(folder), device="cpu"))


@given(st.text(max_size=80))
def test_decoding_gives_back_what_was_encoded(embedded: Engine, text: str) -> None:
    vocabulary = embedded.loaded.vocabulary
    assert vocabulary.decode(vocabulary.encode(text)) == text


@pytest.mark.parametrize("name", NORMALISERS)
@settings(deadline=None)
@given(text=st.text(max_size=40) | st.text(st.sampled_from(ODD), max_size=20))
def test_a_normaliser_changes_no_text(name: str, text: str) -> None:
    vocabulary = normalising(name)
    assert vocabulary.decode(vocabulary.encode(text)) == text


@pytest.mark.parametrize("name", ["masked", "twin"])
def test_normal_text_has_the_tokens_that_it_had(name: str) -> None:
    stated = Tokenizer.from_file(str(DATA / name / "tokenizer.json"))
    for text in ("def f(x):\n    return {'caf\u00e9': x}\n", "\u03a9 = 1", "  x"):
        assert normalising(name).encode(text) == stated.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("text", ["'cafe\u0301'", "\u2126", "x\u212b = 1"])
def test_text_that_is_not_normal_stays_what_it_is(nfc: Engine, text: str) -> None:
    assert fill(nfc, "x = ", Hole(text=text, strength=0.0), "\n", max_steps=2).text == text
    assert fill(nfc, f"{text}\ny = ", Hole(starts_with=text, max_tokens=4), "\n", max_steps=2).text.startswith(text)


def test_tokens_starting_with_a_text_are_found_and_no_others(embedded: Engine) -> None:
    vocabulary = embedded.loaded.vocabulary
    every = range(len(vocabulary))
    for start in (b" re", b"(", b"\n    ", b"zzzzqq"):
        expected = {id_ for id_ in every if vocabulary.bytes_of([id_]).startswith(start)}
        assert set(vocabulary.ids_extending(start)) == expected


def test_half_a_character_is_shown_as_a_replacement(embedded: Engine) -> None:
    vocabulary = embedded.loaded.vocabulary
    ids = vocabulary.encode("\U0001f600")
    assert len(ids) > 1
    assert "\ufffd" in vocabulary.decode(ids[:1])


PROPERTIES = InfillConfig()


@pytest.fixture(scope="module")
def qwen() -> Vocabulary:
    return Vocabulary(Tokenizer.from_file(str(DATA / "fim" / "tokenizer.json")))


@pytest.fixture(scope="module")
def tasks() -> list[InfillingTask]:
    return infilling_tasks.read_tasks(DATA / "tuning.jsonl.gz")


def planned(vocabulary: Vocabulary, before: str, hole: Hole, after: str) -> CanvasPlan:
    return CanvasPlanner(
        vocabulary, PROPERTIES, InfillRequest("r", (PinnedText(before), hole, PinnedText(after)))
    ).plan(range(1), ())


def token_at(vocabulary: Vocabulary, text: str, place: int) -> tuple[int, int]:
    """Where the token of the whole text that holds the byte at `place` begins, and its id."""
    ids = vocabulary.encode(text)
    starts = list(itertools.accumulate((len(vocabulary.bytes_of([id_])) for id_ in ids), initial=0))
    number = max(number for number, start in enumerate(starts[:-1]) if start <= place)
    return starts[number], ids[number]


def allowed(vocabulary: Vocabulary, plan: CanvasPlan, row: int) -> set[int]:
    constraints = ConstraintBuilder(vocabulary, PROPERTIES, len(vocabulary), torch.device("cpu"))
    canvas = CanvasBatch.from_canvases([plan.compose([2])], torch.device("cpu"))
    constraint = constraints.build(canvas, plan.holes)
    return set((constraint.biases[constraint.bias_index[row]] > FORBIDDEN_BIAS).nonzero()[:, 0].tolist())


def test_a_hole_may_begin_as_the_tokenizer_would(qwen: Vocabulary, tasks: list[InfillingTask]) -> None:
    for task in tasks:
        plan = planned(qwen, task.prefix, Hole(single_line=task.single_line), task.suffix_text)
        (hole,), start = plan.holes, len(task.prefix.encode())
        at, token = token_at(qwen, task.prefix + task.solution + task.suffix_text, start - hole.num_healed_bytes)
        assert at == start - hole.num_healed_bytes
        assert token in allowed(qwen, plan, 0), (task.prefix[-12:], task.solution)
        assert qwen.bytes_of(list(plan.prefix_ids)).endswith(task.prefix.encode()[:at][-32:])


def test_a_hole_of_one_line_may_end_as_the_tokenizer_would(qwen: Vocabulary, tasks: list[InfillingTask]) -> None:
    ends = [task for task in tasks if task.single_line and task.suffix_text.startswith("\n")]
    assert len(ends) == 75
    others = allowed(qwen, planned(qwen, "x =", Hole(single_line=True), "\n"), 1)
    for task in ends:
        whole = task.prefix + task.solution
        assert token_at(qwen, whole + task.suffix_text, len(whole.encode()) - 1)[1] in others


@pytest.mark.parametrize("blank", ["    ", "\n        ", "\t\t", "x =    ", "\n\n", " "])
@pytest.mark.parametrize("typed", ["", "    ", "  \t", "if  "])
def test_blanks_before_a_hole_and_typed_ones_are_kept(qwen: Vocabulary, blank: str, typed: str) -> None:
    plan = planned(qwen, "if x:\n" + blank, Hole(starts_with=typed), "\n")
    (hole,) = plan.holes
    given = qwen.bytes_of([*plan.prefix_ids, *hole.forced_ids])
    whole = ("if x:\n" + blank + typed).encode()
    assert whole.startswith(given)
    assert all(qwen.bytes_of([id_]).startswith(whole[len(given) :]) for id_ in hole.allowed_ids)


@pytest.mark.parametrize(("fill", "text"), [("f(x)\n", "f(x)"), ("f(x)\n\n y = 2", "f(x)"), ("f(x", "f(x")])
def test_a_line_break_ends_the_text_of_a_hole_of_one_line(qwen: Vocabulary, fill: str, text: str) -> None:
    plan, ids = planned(qwen, "if x:\n", Hole(single_line=True), "\n"), qwen.encode("if x:\n" + fill)
    begin = len(plan.prefix_ids)
    span, (hole,) = (0, 0, len(ids) - begin), plan.holes
    written = FilledCanvas(ids[begin:], [0.5] * len(ids), [span], 1)
    assert written.texts(qwen, [hole]) == (text,)
    assert "".join(written.token_texts(qwen, 0, hole)[0]) == text


def test_what_is_typed_of_a_hole_of_one_line_may_break_it(qwen: Vocabulary) -> None:
    (hole,) = planned(qwen, "x = ", Hole(single_line=True, starts_with="f(\n    y"), "\n").holes
    ids = [*hole.forced_ids, *qwen.encode(" y)\n")]
    assert FilledCanvas(ids, [], [(0, len(hole.forced_ids), len(ids))], 1).texts(qwen, [hole]) == ("f(\n    y)",)
