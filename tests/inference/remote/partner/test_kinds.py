"""Finds out how to ask a server, and reports its refusals."""

import pytest
from msgspec.structs import replace

from inference.engine.fim.query import PartnerContextWindow
from inference.models import fim_tokens
from inference.models.family import ModelError
from inference.models.fim_tokens import TABLE
from tests.inference.remote.asking import AFTER, ANSWER, BEFORE, answered, one_hole, partner_at
from tests.partner_server import KINDS, partner_server
from tests.workers import until

PROMPTS = {
    "qwen2.5-coder": "<|fim_prefix|>{p}<|fim_suffix|>{s}<|fim_middle|>",
    "starcoder2": "<fim_prefix>{p}<fim_suffix>{s}<fim_middle>",
    "codegemma": "<|fim_prefix|>{p}<|fim_suffix|>{s}<|fim_middle|>",
    "deepseek-coder": "<｜fim▁begin｜>{p}<｜fim▁hole｜>{s}<｜fim▁end｜>",
    "codestral": "[SUFFIX]{s}[PREFIX]{p}",
    "seed-coder": "<[fim-suffix]>{s}<[fim-prefix]>{p}<[fim-middle]>",
    "mellum": "<filename>mean.py\n<fim_suffix>{s}<fim_prefix>{p}<fim_middle>",
    "codellama": "▁<PRE> {p}▁<SUF>{s}▁<MID>",
    "granite": "<fim_prefix>{p}<fim_suffix>{s}<fim_middle>",
}


@pytest.mark.parametrize("kind", TABLE)
async def test_family_tokens_are_sent_and_never_filled(kind: str) -> None:
    end = TABLE[kind].stop_tokens[0]
    async with partner_server(kinds=("fim",), answer=lambda _: f"{ANSWER}{end}more", name="m") as server:
        async with partner_at(server.url, kind) as partner:
            _, candidates, _ = await answered(partner, one_hole(single_line=False))
        assert partner.partner == kind and candidates[0].texts == (ANSWER,)
        (asked,) = server.fills
        assert asked.body["prompt"] == PROMPTS[kind].format(p=BEFORE, s=AFTER)
        assert (asked.prefix, asked.suffix) == (BEFORE, AFTER)
        assert set(TABLE[kind].stop_tokens) <= set(asked.body["stop"])


async def test_a_servers_prompt_begins_with_the_files_name() -> None:
    async with partner_server(kinds=("fim",), answer=lambda _: ANSWER, name="m") as server:
        async with partner_at(server.url, "codegemma") as partner:
            await answered(partner, replace(one_hole(), name_comment="# mean.py\n"))
        assert server.fills[0].prefix == "# mean.py\n" + BEFORE


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Qwen/Qwen2.5-Coder-7B", "qwen2.5-coder"),
        ("Qwen3-Coder-30B-A3B-Instruct", "qwen2.5-coder"),
        ("bigcode/starcoder2-3b", "starcoder2"),
        ("google/codegemma-2b", "codegemma"),
        ("google/codegemma-7b-it", None),
        ("deepseek-ai/DeepSeek-Coder-V2-Lite-Base", "deepseek-coder"),
        ("mistralai/Codestral-22B-v0.1", "codestral"),
        ("ibm-granite/granite-8b-code-base-4k", "granite"),
        ("ByteDance-Seed/Seed-Coder-8B-Base", "seed-coder"),
        ("Mellum2-12B-A2.5B-Base.Q4_K_M.gguf", "mellum"),
        ("JetBrains/Mellum-4b-base", "mellum"),
        ("codellama/CodeLlama-7b-hf", "codellama"),
        ("codellama:34b", None),
        ("google/gemma-4-27b-it", None),
        ("", None),
    ],
)
def test_a_models_name_tells_of_its_family(name: str, kind: str | None) -> None:
    assert fim_tokens.guess_fim_kind(name) == kind
    if kind == "granite":
        assert fim_tokens.tokens_for_kind(kind, name).prefix == "<fim_prefix>"
        assert fim_tokens.tokens_for_kind(kind, "ibm-granite/granite-4.0-micro-base").prefix == "<|fim_prefix|>"


@pytest.mark.parametrize("token", ["<|fim_middle|>", "<|endoftext|>", "<|file_sep|>"])
def test_text_with_a_control_token_does_not_reach_a_prompt(token: str) -> None:
    prefix, suffix = PartnerContextWindow().crop(f"a{token}b", f"c{token}d", 64, TABLE["qwen2.5-coder"].control_tokens)
    assert (prefix, suffix) == ("b", "c")


@pytest.mark.parametrize(
    ("kinds", "name", "found"),
    [
        (KINDS, "qwen2.5-coder", "infill"),
        (("fim", "suffix", "chat"), "qwen2.5-coder", "qwen2.5-coder"),
        (("fim", "suffix", "chat"), "gemma-4", "suffix"),
        (("fim", "chat"), "gemma-4", "chat"),
        (("suffix",), "qwen2.5-coder", "suffix"),
        (("fim", "suffix"), "qwen2.5-coder ollama", "suffix"),
    ],
)
async def test_the_best_way_is_taken_that_a_server_has(kinds: tuple[str, ...], name: str, found: str) -> None:
    serving = partner_server(kinds=kinds, name=name, is_ollama="ollama" in name)
    async with serving as server, partner_at(server.url) as partner:
        assert partner.partner == found
        assert (await answered(partner, one_hole()))[1][0].texts == (ANSWER,)


async def test_useless_server_says_why() -> None:
    async with partner_server(kinds=()) as server:
        with pytest.raises(ModelError, match=r"it fills no hole: .*suffix.*chat.*; set partner\.kind"):
            async with partner_at(server.url):
                pass
    async with partner_server(kinds=("chat",)) as server:
        with pytest.raises(ModelError, match="fills no hole when asked by `suffix`"):
            async with partner_at(server.url, "suffix"):
                pass
        with pytest.raises(ModelError, match=r"no model other; it has .*partner\.model"):
            async with partner_at(server.url, server_model="other"):
                pass


async def test_plainest_request_works_alone() -> None:
    async with partner_server(kinds=("fim", "chat"), answer=lambda _: "x") as server:
        server.refuses = ("logprobs", "skip_special_tokens", "chat_template_kwargs")
        for kind in ("qwen2.5-coder", "chat"):
            async with partner_at(server.url, kind) as partner:
                _, candidates, _ = await answered(partner, one_hole())
            assert (candidates[0].texts, partner.partner) == (("x",), kind)


async def test_another_server_behind_the_same_url_is_met_again() -> None:
    async with partner_server(kinds=("fim",)) as server, partner_at(server.url) as partner:
        server.kinds, server.name = ("chat",), "gemma-4"
        with pytest.raises(Exception, match="there is no /v1/completions"):
            await answered(partner, one_hole())
        await until(lambda: partner.partner == "chat")
        assert partner.sees_drafts and partner.model == "gemma-4"
        assert (await answered(partner, one_hole()))[1][0].texts == (ANSWER,)
