"""What is offered of the rewrites that edit models once answered is worth as much as the whole rewrites."""

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import pytest

from inference.messages import Done, Edit, NextEditRequest, Outcome
from lsp_server.commands.next import all_edits
from lsp_server.documents.document import Document
from lsp_server.next_edit.elsewhere import ChangedDocument, Situation
from lsp_server.next_edit.model import rewritten
from lsp_server.next_edit.renames import NextEdit
from lsp_server.worker.client import WorkerAnswer, WorkerClient
from tests.edit_models import Scenario, rewrite, scenarios


@dataclass
class RecordedModel:
    """Stands for the client of an edit model's worker: gives the recorded rewrites of the whole text, then none."""

    left: list[str]

    async def ask(self, request: NextEditRequest) -> WorkerAnswer:
        edits = (Edit(0, len(request.text), self.left.pop()),) if self.left else ()
        return WorkerAnswer((), Done(request.id, Outcome.COMPLETE), edits)


async def taken(scenario: Scenario, cursor: int, model: RecordedModel) -> str:
    """The text once the user has taken every offer."""
    client = cast("WorkerClient", model)
    old, others = scenario.text, list[ChangedDocument]()
    for before, after in reversed(scenario.history):
        if after in old:
            old = old.replace(after, before, 1)
        else:
            uri = f"file:///history{len(others)}/{scenario.path}"
            others.append(ChangedDocument(uri, scenario.language, after, [before]))

    async def propose(situation: Situation) -> Sequence[NextEdit]:
        is_first = situation.snapshot.text == scenario.text
        earlier = [text for text in situation.earlier if text != situation.snapshot.text]
        at = cursor if is_first else situation.cursor
        return await rewritten(client, Situation(situation.snapshot, earlier, at, others), lambda _: scenario.path)

    now = Document(f"file:///project/{scenario.path}", scenario.language, 1, scenario.text).snapshot()
    return (await all_edits(now, old, propose))[1]


def delta_chrf(before: str, after: str, wanted: str) -> float:
    """F2 of the character n-grams (1 to 6) that a change adds and removes, against those of the wanted change."""
    precisions, recalls = [], []
    for n in range(1, 7):
        made = _changes(before, after, n)
        needed = _changes(before, wanted, n)
        if needed:
            common = (made & needed).total()
            precisions.append(common / made.total() if made else 0.0)
            recalls.append(common / needed.total())
    precision = statistics.fmean(precisions)
    recall = statistics.fmean(recalls)
    return 5 * precision * recall / (4 * precision + recall) if precision + recall else 0.0


def _changes(old: str, new: str, n: int) -> Counter[tuple[str, bool]]:
    one, other = (Counter(text[at : at + n] for at in range(len(text) - n + 1)) for text in (old, new))
    added = {(gram, True): count for gram, count in (other - one).items()}
    return Counter(added | {(gram, False): count for gram, count in (one - other).items()})


@pytest.mark.parametrize(("model", "is_quiet"), [("zeta-2", 1.0), ("zeta", 0.5), ("sweep-next-edit-1.5B", 0.5)])
async def test_offers_are_as_good_as_the_rewrites(model: str, is_quiet: float) -> None:
    scores, raw_scores, raw_quiet = list[float](), list[float](), list[bool]()
    for scenario in scenarios().values():
        whole = rewrite(model, scenario)
        texts = [await taken(scenario, cursor, RecordedModel([whole])) for cursor in scenario.cursors]
        if scenario.wanted is None:
            assert texts == [scenario.text] * len(texts)
            raw_quiet.append(whole == scenario.text)
        else:
            scores.append(delta_chrf(scenario.text, texts[0], scenario.wanted))
            raw_scores.append(delta_chrf(scenario.text, whole, scenario.wanted))
    assert statistics.fmean(raw_scores) > 0.7 and statistics.fmean(scores) >= statistics.fmean(raw_scores)
    assert statistics.fmean(raw_quiet) == is_quiet
