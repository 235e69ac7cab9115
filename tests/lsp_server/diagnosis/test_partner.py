"""`infill-ls doctor` with a partner: its server's abilities, and its fill of a hole."""

import asyncio
from pathlib import Path

from tests.partner_server import partner_server
from tests.workers import checks_of, infill_ls

TOKEN = "hush-hush-0123456789"


async def test_doctor_shows_what_a_partner_can_do(tmp_path: Path) -> None:
    async with partner_server(kinds=("chat",), token=TOKEN) as server:
        partner = {"INFILL_LS_PARTNER_URL": server.url, "INFILL_LS_PARTNER_TOKEN": TOKEN}
        found = await asyncio.to_thread(infill_ls, "doctor", "--json", folder=tmp_path, **partner)
        about = checks_of(found)
        assert about["partner text goes to"]["found"] == f"{server.url}, on this machine"
        assert about["partner token"]["found"] == "from INFILL_LS_PARTNER_TOKEN"
        assert "asked as chat" in about["partner"]["found"]
        assert server.name in about["partner"]["found"]
        assert about["partner fills"]["found"].startswith("`return sum(numbers) / len(numbers)` in ")
        assert "engine" not in about and "model" in about, "the model of this machine is looked at, too"
        assert TOKEN not in found.stdout + found.stderr


async def test_doctor_asks_a_partner_that_is_the_model(tmp_path: Path) -> None:
    alone = ("doctor", "--model", "partner", "--json")
    async with partner_server(kinds=("infill",)) as server:
        partner = {"INFILL_LS_PARTNER_URL": server.url}
        about = checks_of(await asyncio.to_thread(infill_ls, *alone, folder=tmp_path, **partner))
        assert "asked as infill" in about["partner"]["found"] and "torch" not in about
        wrong = {**partner, "INFILL_LS_PARTNER_KIND": "chat"}
        about = checks_of(await asyncio.to_thread(infill_ls, *alone, folder=tmp_path, **wrong))
        assert about["partner"]["verdict"] == "fail" and "partner.kind" in about["partner"]["advice"]
        server.answer = lambda _: ""
        about = checks_of(await asyncio.to_thread(infill_ls, *alone, folder=tmp_path, **partner))
        assert about["partner fills"]["verdict"] == "warn"
