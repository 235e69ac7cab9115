"""Draft and refine in Neovim: a draft outlives the partner, or is taken before. test_neovim_pictures.py refines one."""

from pathlib import Path

import pytest

from tests.editors.conftest import StartNeovim
from tests.editors.neovim import DRAFTS, GHOSTS, LINE, Neovim
from tests.editors.partner import Partner
from tests.editors.places import until

BETTER = "sum((a, b))"
COMMAND = "complete workspace/executeCommand"


@pytest.fixture
def neovim(start_neovim: StartNeovim, plugin_init: Path, partner: Partner) -> Neovim:
    partner.answers(BETTER)
    return start_neovim(LINE, plugin_init).attached()


def drafted(neovim: Neovim) -> str:
    neovim.type("jA")
    ghost = neovim.ghost()
    assert ghost != BETTER
    return ghost


def on_screen(neovim: Neovim) -> str:
    return "".join(neovim.shown(GHOSTS) + neovim.shown(DRAFTS))


def assert_taken(neovim: Neovim, text: str) -> None:
    neovim.type("<Tab>")
    until(lambda: neovim.text != LINE, "the suggestion is in the buffer")
    assert neovim.text == LINE.replace("return ", f"return {text}")


def test_draft_taken_while_the_partner_thinks(neovim: Neovim, partner: Partner) -> None:
    draft = drafted(neovim)
    with partner.held():
        neovim.type("<M-r>")
        partner.until_asked()
        assert_taken(neovim, draft)
    until(lambda: COMMAND in neovim.recorded("requests"), "the command is answered")
    assert BETTER not in on_screen(neovim)
    assert neovim.text == LINE.replace("return ", f"return {draft}")
    assert neovim.said == []


def test_draft_outlives_the_partner(neovim: Neovim, partner: Partner) -> None:
    draft = drafted(neovim)
    partner.end()
    neovim.type("<M-r>")
    until(lambda: COMMAND in neovim.recorded("requests"), "the command is answered")
    until(lambda: neovim.said, "the user is told")
    assert on_screen(neovim) == draft
    assert_taken(neovim, draft)


def test_a_selection_is_refined_by_the_command(neovim: Neovim, partner: Partner) -> None:
    neovim.rpc.current.buffer[:] = ["def add(a, b):", "    return a - b"]
    neovim.type("2G0fav$h:Infill refine<CR>")
    until(lambda: BETTER in neovim.text, "the selection is refined")
    assert neovim.text == LINE.replace("return ", f"return {BETTER}")
    assert partner.asked[-1]["draft"] == "a - b"
    assert neovim.said == []
