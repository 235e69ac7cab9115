"""A real vLLM with a small causal checkpoint (tests/data/fim) as the partner: each way of asking, and what uses it.

The checkpoint writes hardly any sense; what is tested is that what it writes arrives, and where.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer, Qwen2ForCausalLM

from inference.messages import Done, FilledHoles, InfillRequest, Outcome
from inference.models.family import ModelError
from tests.e2e.raw_client import RawClient
from tests.e2e.user import User
from tests.inference.remote.asking import AFTER, BEFORE, job, one_hole, partner_at
from tests.served.conftest import check_fills_alone, with_partner
from tests.served.vllm import FIM, FIM_NAME, OTHER_NAME, Vllm

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(900)]

PATIENT: dict[str, Any] = {"deadlineMs": {"automatic": 120_000, "invoked": 120_000}, "idleSeconds": 30, "maxSteps": 2}
TOKENS = 8


async def filled(url: str, kind: str, name: str, asked: InfillRequest) -> tuple[list[FilledHoles], Done, str]:
    async with partner_at(url, kind, server_model=name) as infiller:
        events = [event async for event in infiller.replies(job(asked))]
        done = events[-1]
        assert isinstance(done, Done)
        return [event for event in events if isinstance(event, FilledHoles)], done, infiller.partner


@pytest.mark.parametrize(
    ("kind", "name", "found"),
    [
        ("qwen2.5-coder", OTHER_NAME, "qwen2.5-coder"),
        ("auto", FIM_NAME, "qwen2.5-coder"),
        ("auto", OTHER_NAME, "chat"),  # nothing tells of its tokens, and a suffix is refused
        ("chat", FIM_NAME, "chat"),
    ],
)
async def test_each_way_of_asking_gives_a_fill(partner_vllm: Vllm, kind: str, name: str, found: str) -> None:
    candidates, done, asked_as = await filled(partner_vllm.url, kind, name, one_hole(max_tokens=TOKENS))
    assert asked_as == found
    assert done.outcome is Outcome.COMPLETE
    (candidate,) = candidates
    assert candidate.texts[0].strip()
    assert "\n" not in candidate.texts[0]


async def test_the_model_is_shown_the_hole_as_it_was_trained(partner_vllm: Vllm) -> None:
    """What vLLM wrote is what the same weights write here, behind the tokens of prefix, suffix and middle."""
    asked = one_hole(max_tokens=TOKENS, single_line=False)
    (candidate,), _, _ = await filled(partner_vllm.url, "auto", FIM_NAME, asked)
    assert candidate.texts[0] == await asyncio.to_thread(written_here)


def written_here() -> str:
    tokenizer = AutoTokenizer.from_pretrained(FIM)
    model = Qwen2ForCausalLM.from_pretrained(FIM, dtype=torch.float32)
    prompt = f"<|fim_prefix|>{BEFORE}<|fim_suffix|>{AFTER}<|fim_middle|>"
    ids = torch.tensor([tokenizer(prompt).input_ids])
    written = model.generate(ids, max_new_tokens=TOKENS, do_sample=False)[0, ids.shape[1] :]
    return tokenizer.decode(written, skip_special_tokens=True)


async def test_a_suffix_is_refused_in_words(partner_vllm: Vllm) -> None:
    """vLLM takes one for few models only."""
    with pytest.raises(ModelError, match=r"fills no hole when asked by `suffix`.*set partner\.kind"):
        await filled(partner_vllm.url, "suffix", FIM_NAME, one_hole())


async def test_doctor_says_what_the_partner_can_do(partner_vllm: Vllm, runtime_folder: Path, tmp_path: Path) -> None:
    done = await with_partner(runtime_folder, partner_vllm.url, FIM_NAME, "doctor", "--json", str(tmp_path))
    checks = {each["name"]: each for each in json.loads(done.stdout)["checks"]}
    assert checks["partner"]["verdict"] == "ok", done.stdout
    assert FIM_NAME in checks["partner"]["found"]
    assert "asked as qwen2.5-coder" in checks["partner"]["found"]
    assert "return " in checks["partner fills"]["found"]


async def test_a_file_is_filled_by_the_partner_alone(partner_vllm: Vllm, runtime_folder: Path, tmp_path: Path) -> None:
    await check_fills_alone(tmp_path, runtime_folder, partner_vllm.url, FIM_NAME)


async def test_draft_on_screen_goes_to_the_partner(partner_vllm: Vllm, runtime_folder: Path) -> None:
    """The draft is the embedded model's. Where vLLM's text does not fit, the user is told why and the draft stays."""
    partner = {"url": partner_vllm.url, "model": FIM_NAME, "kind": "chat"}
    client = await RawClient.start(runtime_folder, {**PATIENT, "partner": partner})
    user = User(client, f"{BEFORE}‸{AFTER}")
    draft, *_ = await user.complete()
    before = partner_vllm.metric("request_success_total")
    answer = await client.command("refineSuggestion", user.id(draft), user.uri)
    assert partner_vllm.metric("request_success_total") > before + 1  # the first finds out how to ask
    again, *_ = await user.complete(invoked=False)
    assert (again["insertText"] != draft["insertText"]) == answer["applied"], answer
    assert answer["applied"] or answer["reason"]
    assert await client.quit() == 0
