"""The engine relies only on the promises of `Family`, and knows no implementation."""

import subprocess
import sys
from pathlib import Path

import pytest

from inference.engine import Engine
from inference.messages import Candidate, Done, Draft, Hole, InfillRequest, Text
from tests.inference.engine.bigram_family import BigramFamily
from tests.inference.loaded import check_typed_text_is_pinned

ROOT = Path(__file__).parent.parent.parent.parent
ALPHABET = "abcdefghijklmnopqrstuvwxyz\n"


@pytest.fixture(scope="module")
def family() -> BigramFamily:
    return BigramFamily(ALPHABET * 20)


def fill(family: BigramFamily, *segments: Text | Hole, **options: object) -> list[Candidate | Draft | Done]:
    request = InfillRequest("r", segments, seed=1, **options)  # type: ignore[arg-type]
    events = [event for event in Engine(family).infill(request) if event is not None]
    assert family.opened == 0, "every context is closed"
    return events


def candidates(family: BigramFamily, *segments: Text | Hole, **options: object) -> list[Candidate]:
    return [event for event in fill(family, *segments, **options) if isinstance(event, Candidate)]


def test_the_engine_loads_no_family() -> None:
    files = sorted((ROOT / "inference/engine").rglob("*.py"))
    names = [".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for file in files]
    code = f"import sys, {', '.join(names)}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    seam = {"inference.models.family", "inference.models.properties"}
    assert {name for name in loaded if name.startswith("inference.models.")} == seam
    assert "transformers" not in loaded


@pytest.mark.parametrize("length", [1, 3, 6])
def test_a_hole_of_known_length_is_filled_from_both_sides(family: BigramFamily, length: int) -> None:
    hole = Hole(min_tokens=length + 1, max_tokens=length + 1)  # one more for the token that is healed
    (found, *_) = candidates(family, Text("abc"), hole, Text(ALPHABET[3 + length :]))
    assert found.texts == (ALPHABET[3 : 3 + length],)


def test_the_surest_of_several_lengths_comes_first(family: BigramFamily) -> None:
    """It has no likelihood to rank by, so what it was surest of counts; only one length joins both sides."""
    found = candidates(family, Text("abc"), Hole(max_tokens=5, single_line=True), Text("ghijkl\n"), candidates=4)
    assert found[0].texts == ("def",)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


def test_pins_drafts_and_several_holes_hold(family: BigramFamily) -> None:
    segments = (Text("abc"), Hole(starts_with="d", max_tokens=5), Text("hi"), Hole(max_tokens=5), Text("mno\n"))
    events = fill(family, *segments, drafts=True)
    drafts = [event for event in events if isinstance(event, Draft)]
    (best, *_) = (event for event in events if isinstance(event, Candidate))
    assert drafts[-1].texts == best.texts
    assert all(draft.texts[0].startswith("d") for draft in drafts)
    assert isinstance(events[-1], Done)
    assert events[-1].stats.reused_tokens == 0


def test_text_typed_meanwhile_is_pinned_and_the_rest_goes_on(family: BigramFamily) -> None:
    check_typed_text_is_pinned(Engine(family))
    assert family.opened == 0
