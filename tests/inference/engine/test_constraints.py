"""The tokens forbidden in a row: a line break in a single-line hole, the mask. On a vocabulary of Gemma's kind."""

import json
import shutil

import msgspec
import pytest
import torch

from inference.engine.canvas.batch import FORBIDDEN_BIAS, CanvasBatch
from inference.engine.engine import Engine
from inference.messages import Hole, PinnedText
from inference.models import registry
from inference.models.infill_config import InfillConfig
from tests.inference.engine.filling import fill
from tests.inference.loaded import TWIN, planned

MASK = 61


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """The twin with an ordinary token of its vocabulary for the mask, as tuning may choose one."""
    folder = tmp_path_factory.mktemp("tuned")
    shutil.copytree(TWIN, folder, dirs_exist_ok=True)
    tokenizer = json.loads((TWIN / "tokenizer.json").read_text())
    for token in tokenizer["added_tokens"]:
        token["special"] = token["special"] and token["id"] != MASK
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    infill_config = InfillConfig(mask_token_id=MASK, prompt="chat")
    (folder / "infill.json").write_bytes(msgspec.json.encode(infill_config))
    return Engine(registry.load_model(str(folder), device="cpu"))


@pytest.mark.parametrize(
    ("before", "after"), [("    return 1\n", "def g(x):\n    return 2\n"), ("import os\n", "\n\ndef f():\n    pass\n")]
)
def test_a_hole_of_one_line_stays_one_behind_a_line_break_too(twin: Engine, before: str, after: str) -> None:
    """The token before the hole is healed into it: what the first row may become begins with a line break."""
    segments = (PinnedText(before), Hole(single_line=True, max_tokens=6), PinnedText(after))
    for seed in range(2):
        answer = fill(twin, *segments, candidates=3, max_steps=3, seed=seed)
        texts = [candidate.texts[0] for candidate in answer.candidates]
        assert texts
        assert not any("\n" in text or "\r" in text for text in texts)


def test_line_hole_stays_one_line_behind_typed_text(twin: Engine) -> None:
    """What is typed ends inside a token, so that the first row may only become what goes on with it."""
    answer = fill(twin, "def f(x):\n", Hole(single_line=True, max_tokens=8, starts_with="r"), "\n", max_steps=6, seed=5)
    assert answer.candidates
    assert not any("\n" in candidate.texts[0] for candidate in answer.candidates)


@pytest.mark.parametrize("before", ["x =", "x = <", "x = <unused"])
def test_the_mask_is_never_written(tuned: Engine, before: str) -> None:
    plan = planned(tuned, PinnedText(before), Hole(max_tokens=4), PinnedText("\n"))
    canvas = CanvasBatch.from_canvases([plan.compose([4])], torch.device("cpu"))
    constraint = tuned.loaded.constraint_builder.build(canvas, plan.holes)
    biases = constraint.biases[constraint.bias_index]
    assert bool((biases[:, MASK] == FORBIDDEN_BIAS).all())
    assert bool((biases == 0).any(-1).all()), "every row may become something"


@pytest.mark.parametrize("text", ["<unused61>", "x = '<unused60><unused61>'"])
def test_the_name_of_the_mask_is_ordinary_text(tuned: Engine, text: str) -> None:
    vocabulary = tuned.loaded.vocabulary
    assert MASK not in set(vocabulary.encode(text))
    assert vocabulary.decode(vocabulary.encode(text)) == text
