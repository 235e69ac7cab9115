"""The room of a hole and the text around it: on the canvas, and further text in the user's turn."""

from dataclasses import replace

import pytest

from inference.engine import Engine
from inference.engine.canvas.layout import Plan, Row
from inference.engine.search.prune import TRIAL_SUFFIX_TOKENS, tried
from inference.messages import Hole, HoleKind, Text
from tests.inference.engine.filling import fill
from tests.inference.loaded import planned

LINE = Hole(single_line=True)
BEFORE = "import os\n\n\ndef size(path):\n    result = "
AFTER = "\n    return result\n\n\n" + "".join(f"value_{number} = {number}\n" for number in range(900))
FREE_ROWS = 512


def with_free_rows(engine: Engine) -> Engine:
    """The same model on a device where the rows of a step cost nothing."""
    return Engine(replace(engine.loaded, traits=replace(engine.loaded.traits, free_rows=FREE_ROWS)))


def shown(engine: Engine, plan: Plan) -> str:
    return engine.loaded.vocabulary.decode(list(plan.prefix_ids))


@pytest.mark.parametrize(
    ("name", "kind", "tokens"),
    [
        ("twin", HoleKind.LINE, 24),
        ("twin", HoleKind.BLOCK, 128),
        ("twin", HoleKind.BODY, 192),
        ("embedded", HoleKind.LINE, 24),
        ("embedded", HoleKind.BLOCK, 64),
        ("embedded", HoleKind.BODY, 64),
    ],
)
def test_hole_has_the_room_of_its_kind(name: str, kind: HoleKind, tokens: int, request: pytest.FixtureRequest) -> None:
    (hole,) = planned(request.getfixturevalue(name), Text(BEFORE), Hole(kind), Text(AFTER)).holes
    assert hole.maximum == tokens


def test_where_rows_are_free_a_canvas_is_as_wide_as_in_training(twin: Engine) -> None:
    model, wide = twin.loaded, with_free_rows(twin)
    for after, last in (("\n", model.vocabulary.id_of("<eos>")), (AFTER, None)):
        row = planned(wide, Text(BEFORE), LINE, Text(after)).compose([4])
        assert len(row.ids) == model.properties.canvas_tokens
        assert last is None or row.ids[-1] == last
    assert len(planned(twin, Text(BEFORE), LINE, Text("\n")).compose([4]).ids) < 32
    assert fill(wide, BEFORE, LINE, "\n", max_steps=2, seed=1).text


def test_canvases_that_are_tried_share_the_rows_that_are_free() -> None:
    rows = [Row((*range(length), *range(200)), ((0, 0, length),)) for length in (2, 4, 6, 8)]
    assert [len(row.ids) - row.spans[-1][2] for row in tried(rows, 1)] == [TRIAL_SUFFIX_TOKENS] * 4
    wide = tried(rows, 1, FREE_ROWS)
    assert len(wide) * max(len(row.ids) for row in wide) == FREE_ROWS


def test_far_suffix_is_read_before_the_file(twin: Engine) -> None:
    plan = planned(twin, Text(BEFORE), LINE, Text(AFTER), path="size.py")
    text, canvas = shown(twin, plan), twin.loaded.vocabulary.decode(list(plan.suffix))
    _, said, rest = text.partition("size.py, further down:\n")
    further = rest[: rest.index("Write size.py in full")].strip("\n").split("\n")
    assert said
    assert len(further) > 50
    assert "\n".join(further) in AFTER
    assert not set(further) & set(canvas.splitlines())
    assert text.endswith("def size(path):\n    result =")
    tokens = len(twin.loaded.vocabulary.encode("\n".join(further)))
    assert tokens <= twin.loaded.properties.max_prefix_tokens // 8


def test_late_requests_and_plain_models_read_no_far_suffix(twin: Engine, embedded: Engine) -> None:
    short = planned(twin, Text(BEFORE), LINE, Text(AFTER), path="size.py", short=True)
    assert "further down" not in shown(twin, short)
    assert shown(embedded, planned(embedded, Text(BEFORE), LINE, Text(AFTER))).startswith("import os")


def test_prefix_stays_encoded_while_typing(twin: Engine) -> None:
    options = {"path": "size.py", "max_steps": 1, "seed": 1}
    fill(twin, BEFORE, LINE, AFTER, **options)
    moved = AFTER.index("value_3 ")
    for before, after in (
        (BEFORE + "os.pa", AFTER),
        (BEFORE + "os.path(", ")" + AFTER),
        (BEFORE + "1\n    result = result + ", AFTER),
        (BEFORE + AFTER[: moved + len("value_3 =")], AFTER[AFTER.index("\n", moved) :]),
    ):
        stats = fill(twin, before, LINE, after, **options).done.stats
        new = len(twin.loaded.vocabulary.encode(before[len(BEFORE) :]))
        assert stats.prefix_tokens > 500
        assert stats.reused_tokens >= stats.prefix_tokens - new - 2
