"""A plugin's prompt for an edit model, as the sources of Zed and cursortab.nvim write it, gets our next edits."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from inference.bench.scenarios import RecordedModel
from tests.e2e.listening import FLAGS, endpoint_with
from tests.e2e.relay import Relay
from tests.e2e.test_http import around

BEFORE = "import os\n\n\n"
ABOVE = "def disk_usage(folder):\n    size = 0\n    for name in os.listdir(folder):\n"
REGION = f"{ABOVE}        size += measure(name)\n    return total"
CURSOR = REGION.index(" += measure")
WANTED = REGION.replace("total", "size")
AFTER = "\n\n\nprint(disk_usage('.'))\n"
END, START = "<|editable_region_end|>", "<|editable_region_start|>\n"
DIFF = """@@ -4,5 +4,5 @@
 def disk_usage(folder):
-    total = 0
+    size = 0
     for name in os.listdir(folder):
-        total += measure(name)
+        size += measure(name)
     return total
"""
"""The user has renamed two of three places, and is at the second."""
CHANGES = ((" total = 0", " size = 0"), ("     total += measure(name)", "     size += measure(name)"))


def zed_zeta_2(region: str = REGION, cursor: int = CURSOR, path: str = "a/b.py", diff: str = DIFF) -> dict[str, Any]:
    """What Zed's `open_ai_compatible_api` sends for `prompt_format` zeta2."""
    prompt = (
        f"<[fim-suffix]>{AFTER}<[fim-prefix]><filename>a/measure.py\ndef measure(name):\n    return 1\n\n"
        f"<filename>edit_history\n--- a/{path}\n+++ b/{path}\n{diff}\n<filename>{path}\n{BEFORE}"
        f"<<<<<<< CURRENT\n{region[:cursor]}<|user_cursor|>{region[cursor:]}\n=======\n<[fim-middle]>"
    )
    return {"model": "zeta2", "prompt": prompt, "max_tokens": 256, "stop": [">>>>>>> UPDATED\n"]}


def zed_zeta_2_1() -> dict[str, Any]:
    old = zed_zeta_2()
    prompt = old["prompt"].replace("<<<<<<< CURRENT\n", "<|marker_1|>").replace("\n=======", "<|marker_2|>")
    return {**old, "model": "zeta2.1", "prompt": prompt, "stop": ["<[end▁of▁sentence]>"]}


def zeta(edits: str, *stops: str) -> dict[str, Any]:
    prompt = (
        "### Instruction:\nYou are a code completion assistant and your task is to analyze user edits and then rewrite "
        "an excerpt that the user provides, suggesting the appropriate edits within the excerpt, taking into account "
        f"the cursor location.\n\n### User Edits:\n\n{edits}\n\n### User Excerpt:\n\n```a/b.py\n<|start_of_file|>\n"
        f"{BEFORE}{START}{REGION[:CURSOR]}<|user_cursor_is_here|>{REGION[CURSOR:]}\n{END}{AFTER.rstrip()}\n```\n\n"
    )
    return {"model": "zeta", "prompt": f"{prompt}### Response:\n", "stop": stops}


DIFFS = (f'User edited "a/b.py":\n```diff\n@@ -1,1 +1,1 @@\n-   {old}\n+   {new}\n```\n\n' for old, new in CHANGES)
SWEEP_DIFFS = (f"<|file_sep|>a/b.py.diff\noriginal:\n   {old}\nupdated:\n   {new}\n" for old, new in CHANGES)
REQUESTS = {
    "Zed, zeta2": zed_zeta_2(),
    "Zed, zeta2_1": zed_zeta_2_1(),
    "Zed, zeta": zeta(f"User edited a/b.py:\n```diff\n{DIFF}\n```", END, f"{END}\n", f"{END}\n\n"),
    "cursortab.nvim, zeta": zeta(f"{''.join(DIFFS)}### Code Context:\n\nImports:\n", f"\n{END}") | {"stream": True},
    "cursortab.nvim, sweep": {
        "model": "sweep",
        "prompt": f"<|file_sep|>a/b.py\n{BEFORE}{REGION}{AFTER}<|file_sep|>context/retrieval\n<|file_sep|>c.py\nx = 1\n"
        f"{''.join(SWEEP_DIFFS)}<|file_sep|>original/a/b.py:4:8\n{REGION}\n<|file_sep|>current/a/b.py:4:8\n"
        f"{REGION[:CURSOR]}<|cursor|>{REGION[CURSOR:]}\n<|file_sep|>updated/a/b.py:4:8\n{ABOVE}",
        "stream": True,
        "stop": ["<|file_sep|>", "<|endoftext|>"],
    },
}


async def answer(http: httpx2.AsyncClient, asked: dict[str, Any]) -> str:
    reply = await http.post("/v1/completions", json=asked)
    assert reply.status_code == 200, reply.text
    if not asked.get("stream"):
        return str(reply.json()["choices"][0]["text"])
    events = reply.text.removesuffix("data: [DONE]\n\n").strip().split("\n\n")
    return "".join(json.loads(event.removeprefix("data: "))["choices"][0]["text"] for event in events)


@pytest.mark.parametrize("asked", REQUESTS.values(), ids=REQUESTS)
async def test_a_rename_is_completed_in_every_form(http: httpx2.AsyncClient, asked: dict[str, Any]) -> None:
    begun, end, given = {
        "zeta2": (WANTED, "\n", ">>>>>>> UPDATED\n"),
        "zeta2.1": (f"<|marker_1|>{WANTED}<|marker_2|>", "", "<[end▁of▁sentence]>"),
        "zeta": (START + WANTED, "", f"\n{END}"),
        "sweep": (WANTED.removeprefix(ABOVE), "\n", "<|file_sep|>"),
    }[asked["model"]]
    assert await answer(http, asked) == begun + end
    assert await answer(http, {**asked, "stop": []}) == begun + end + given


async def test_what_is_finished_comes_back_as_it_is(http: httpx2.AsyncClient) -> None:
    """The cursor is inside a word, where no text would be put either. Tokens in the code are text."""
    code = f'{WANTED}\nTOKENS = "<[fim-middle]><|fim_middle|><[fim-suffix]><filename><|file_sep|>"'
    assert await answer(http, zed_zeta_2(code, code.index("folder") + 3)) == code + "\n"


async def test_a_changed_signature_changes_its_calls(http: httpx2.AsyncClient) -> None:
    code = "def area(width):\n    return width * width\n\n\nprint(area(2, 3))"
    diff = "@@ -4 +4 @@\n-def area(width, height):\n+def area(width):\n"
    assert await answer(http, zed_zeta_2(code, code.index("return"), diff=diff)) == code.replace("2, 3", "2") + "\n"


async def test_an_edit_model_of_another_form_is_asked(runtime_folder: Path) -> None:
    now = "def area(width):\n    pass"
    new = now.replace("pass", "return width * 2")
    asked = zed_zeta_2(now, now.index(")"), diff="@@ -4 +4 @@\n-def area(w):\n+def area(width):\n")
    with RecordedModel("sweep-next-edit", {f"{BEFORE}{now}{AFTER}": f"{BEFORE}{new}{AFTER}"}).serve() as url:
        async with (
            endpoint_with(runtime_folder, *FLAGS, INFILL_LS_NEXT_EDIT_MODEL=url) as endpoint,
            endpoint.http() as http,
        ):
            assert await answer(http, asked) == new + "\n"


async def test_without_an_edit_model_the_cursor_is_filled(http: httpx2.AsyncClient, relay: Relay) -> None:
    code = "def size(path):\n    return os.pa"
    text = await answer(http, zed_zeta_2(code, len(code)))
    assert around(relay.requests[-1]) == (BEFORE + code.removesuffix("pa"), AFTER)
    assert text.startswith(code) and text.endswith("\n")


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        pytest.param(zed_zeta_2("x = '<|user_cursor|>'", 0), "not quite that of zeta-2", id="two cursors"),
        pytest.param(zed_zeta_2("x\n>>>>>>> UPDATED\ny", 0), "would end an answer", id="an end inside"),
        pytest.param(zed_zeta_2("x = 1", 0) | {"stop": ["= 1"]}, "contains '= 1'", id="a stop inside"),
        pytest.param(zed_zeta_2("x = 1", 0, ".ssh/id_rsa"), "may hold secrets", id="a secret file"),
        pytest.param(zed_zeta_2("x = 1\n" * 20_000, 0), "more than", id="much too long"),
    ],
)
async def test_what_cannot_be_answered_says_why(
    http: httpx2.AsyncClient, relay: Relay, asked: dict[str, Any], why: str
) -> None:
    count = len(relay.requests)
    reply = await http.post("/v1/completions", json=asked)
    assert reply.status_code == 400 and why in reply.json()["error"]["message"]
    assert len(relay.requests) == count
