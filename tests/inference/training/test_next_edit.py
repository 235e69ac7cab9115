"""Lessons in next edits: what is judged at run time, right answers, and adapters that learn them from a small model."""

import argparse
from collections.abc import Sequence
from contextlib import closing
from itertools import repeat
from pathlib import Path

import msgspec
import pytest
import torch
from torch import Tensor

from inference.bench.next_edit_cases import EditCase, LineChange
from inference.bench.next_edit_lessons import lesson_of
from inference.engine.loaded_model import LoadedModel
from inference.engine.next_edit.judging import LIKENESS_NATS, MARGIN
from inference.models.family import Context
from inference.training import next_edit
from inference.training.next_edit import Tuned
from inference.training.next_edit_tree import tree_of
from tests.inference.models.fim.checkpoints import loaded

TEXT = "def area(hight):\n    return hight * 2\n\n\nhight = 1\nprint(area(hight))\nprint(hight)\n"
CHANGES = (
    LineChange(4, "hight = 1\n", "width = 1\n"),
    LineChange(5, "print(area(hight))\n", "print(area(width))\n"),
    LineChange(6, "print(hight)\n", "print(width)\n"),
)
CASE = EditCase("edits area", "shapes", "python", "area.py", "edits", TEXT, CHANGES)


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return LoadedModel.of(loaded())


def tuned(model: LoadedModel) -> Tuned:
    torch.manual_seed(0)
    return Tuned(model.family.network, rank=2, layers=1)  # type: ignore[attr-defined]


def likelihoods(context: Context, texts: Sequence[Sequence[int]]) -> list[Tensor]:
    with closing(context):
        list(context.encode())
        return context.log_probabilities(texts)


def right_texts(*made: int, case: EditCase = CASE) -> set[str]:
    return {place.texts[1 + place.wanted] for place in lesson_of(case, made).places if place.wanted >= 0}


def test_the_texts_of_the_author_are_right() -> None:
    assert right_texts(0) == {"+print(area(width))\n print(hight)\n", "+print(width)\n \n"}
    assert right_texts(0, 1) == {"+print(width)\n \n"}


def test_a_part_of_what_the_author_did_is_right() -> None:
    together = LineChange(5, CHANGES[1].old + CHANGES[2].old, CHANGES[1].new + CHANGES[2].new)
    assert right_texts(0, case=msgspec.structs.replace(CASE, changes=(CHANGES[0], together))) == right_texts(0)


def test_once_all_is_changed_the_lines_are_right() -> None:
    assert lesson_of(CASE, (0, 1, 2)).places
    assert right_texts(0, 1, 2) == set()


def test_a_tree_is_judged_as_its_texts_are_alone(model: LoadedModel) -> None:
    lesson, encode = lesson_of(CASE, (0,)), model.vocabulary.encode
    scores = tuned(model).scores(tree_of(model.vocabulary, lesson))
    assert len(scores) > 2
    for place, found in zip(lesson.places, scores, strict=True):
        context = model.family.open([*encode(lesson.head), *encode(place.place)])
        same, *changed = (float(one.sum()) for one in likelihoods(context, list(map(encode, place.texts))))
        wanted = [one - same + LIKENESS_NATS * k - MARGIN for one, k in zip(changed, place.likeness, strict=True)]
        assert found[1:].tolist() == pytest.approx(wanted, abs=0.01)


def test_adapters_learn_and_are_kept(model: LoadedModel, tmp_path: Path) -> None:
    tree, learner = tree_of(model.vocabulary, lesson_of(CASE, (0,))), tuned(model)
    before = learner.loss(tree).item()
    args = argparse.Namespace(out=tmp_path, rate=0.01, batch=1, minutes=60.0, steps=8)
    next_edit.train(learner, repeat(tree), args)
    after = learner.loss(tree).item()
    assert after < 0.8 * before
    again = tuned(model)
    assert again.loss(tree).item() == pytest.approx(before)
    again.restore(tmp_path / "last.safetensors")
    assert again.loss(tree).item() == pytest.approx(after, rel=0.05)
