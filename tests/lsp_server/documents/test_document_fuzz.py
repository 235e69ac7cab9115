"""After any edits, in every encoding, the server has the editor's text and the tree of a fresh parse."""

import json
import logging
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from lsp_server.documents.document import Snapshot
from lsp_server.documents.positions import LineIndex
from lsp_server.server import InfillServer
from lsp_server.syntax.parsing import parse
from tests import reference
from tests.lsp_server.texts import PIECES

URI = "untitled:Untitled-1"
EDITS = 1_000
"""For each of the three encodings."""
FARTHEST = 2**31 - 1

pieces = st.sampled_from([*PIECES, "\ude00", "\ud83d\ude00", "\U0010ffff", "y" * 2_000, "é😀" * 300])
texts = st.lists(pieces, max_size=20).map("".join)
positions = st.builds(
    lambda line, character: {"line": line, "character": character},
    st.one_of(st.integers(0, 9), st.just(FARTHEST)),
    st.one_of(st.integers(0, 24), st.integers(0, 3_000), st.just(FARTHEST)),
)
insertions = st.builds(lambda at, text: {"range": {"start": at, "end": at}, "text": text}, positions, pieces)
replacements = st.builds(
    lambda start, end, text: {"range": {"start": start, "end": end}, "text": text},
    positions,
    positions,
    st.lists(pieces, max_size=2).map("".join),
)
deletions = st.builds(
    lambda at, more: {"range": {"start": at, "end": {**at, "character": at["character"] + more}}, "text": ""},
    positions.filter(lambda at: at["character"] < FARTHEST),
    st.integers(1, 3),
)
edits = st.one_of(insertions, deletions, replacements)


class Typing(RuleBasedStateMachine):
    """An editor with one document, and the server's dispatcher. The test sets these and reads `applied`."""

    server: InfillServer
    encoding = "utf-16"
    applied = 0

    def send(self, method: str, params: Any) -> None:
        send(self.server, method, params)

    @initialize(text=texts)
    def start(self, text: str) -> None:
        self.open(text)

    @rule(text=texts)
    def open(self, text: str) -> None:
        self.version, self.text = 1, reference.whole(text)
        item = {"uri": URI, "languageId": "python", "version": 1, "text": text}
        self.send("textDocument/didOpen", {"textDocument": item})
        self.check()

    @rule(changes=st.lists(edits, min_size=5, max_size=20), together=st.booleans())
    def edit(self, changes: list[dict[str, Any]], together: bool) -> None:
        for part in [changes] if together else [[change] for change in changes]:
            self.change(part)

    @rule(text=texts, changes=st.lists(edits, max_size=2))
    def replace_everything(self, text: str, changes: list[dict[str, Any]]) -> None:
        self.change([*changes, {"text": text}, *changes])

    @precondition(lambda self: len(self.text) > 6_000)
    @rule()
    def start_again(self) -> None:
        self.change([{"text": ""}])

    def change(self, changes: list[dict[str, Any]]) -> None:
        self.version += 1
        document = {"uri": URI, "version": self.version}
        self.send("textDocument/didChange", {"textDocument": document, "contentChanges": changes})
        for change in changes:
            self.text = reference.changed(self.text, change, self.encoding)
        type(self).applied += len(changes)
        self.check()

    def check(self) -> None:
        document = self.server.session.documents[URI]
        assert document.text == self.text
        if self.version % 3 != 1:  # also several edits between two parses
            self.check_snapshot(document.snapshot())

    def check_snapshot(self, snapshot: Snapshot) -> None:
        assert snapshot.text == self.text
        fresh = parse("python", snapshot.text)
        lines = LineIndex(snapshot.text)
        assert snapshot.version == self.version
        assert snapshot.lines.line_count == lines.line_count
        assert all(snapshot.lines.line_start(at) == lines.line_start(at) for at in range(lines.line_count))
        assert str(snapshot.tree.root_node) == str(fresh.root_node)
        assert snapshot.tree.root_node.byte_range == fresh.root_node.byte_range


def send(server: InfillServer, method: str, params: Any, **other: Any) -> None:
    server.protocol.receive(json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **other}).encode())


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_thousands_of_edits_leave_the_editors_text(encoding: str, caplog: pytest.LogCaptureFixture) -> None:
    server = InfillServer({})  # one for all examples: to start one takes longer than an example
    send(server, "initialize", {"capabilities": {"general": {"positionEncodings": [encoding]}}}, id=1)
    machine = type("Typing", (Typing,), {"server": server, "encoding": encoding, "applied": 0})
    checks = list(HealthCheck)
    while machine.applied < EDITS:
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=20, stateful_step_count=20, deadline=None, suppress_health_check=checks, database=None
            ),
        )
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR], "a handler failed"
