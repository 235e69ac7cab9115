"""Finds out which models a server has, and how it can fill a hole: asks it for one token."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Annotated

import msgspec
from msgspec import Meta

from inference.engine.middle.question import Question
from inference.models import fim_tokens
from inference.models.family import ModelError
from inference.remote import http, served
from inference.remote.http import AnswerError, Client, ServedModel, ServerError
from inference.remote.partner import interfaces
from inference.remote.partner.answer import Answer
from inference.remote.partner.interfaces import Interface

_SETTING = "partner.model"
_REFUSED = (400, 404, 405, 415, 422, 500, 501)
"""The server exists but does not support that. Any other error says nothing about its abilities."""


class _Defaults(msgspec.Struct, frozen=True):
    n_ctx: Annotated[int, Meta(ge=1, le=(1 << 31) - 1)] | None = None


class _Props(msgspec.Struct, frozen=True):
    default_generation_settings: _Defaults


_FOR_A_TOKEN = Question("def add(a, b):\n    return ", "\n", single_line=True, max_tokens=1)
_Make = Callable[..., Interface]


async def look(client: Client, wanted: str | None, kind: str) -> tuple[str, Interface, int | None]:
    """The server's model named `wanted` (None: its only one), for the user; how to ask it as `kind` says; and its limit
    of tokens, None if that is not known. Raises ModelError.
    """
    try:
        model = await _model(client, wanted)
        props: _Props | None = None
        with suppress(AnswerError, ServerError):  # llama.cpp alone describes itself
            props = http.decoded(await client.get("/props"), _Props)
        is_ollama = False  # which puts a prompt into the model's own template: tokens in it do harm there
        if kind == "auto" and props is None:
            with suppress(ServerError):
                is_ollama = b"version" in await client.get("/api/version")
        ways = list(_ways(kind, model.id, is_llama=props is not None, is_ollama=is_ollama))
        interface = await _first_that_answers(client, ways, kind, model.id)
    except AnswerError as error:
        raise ModelError(f"{client.url} is not a server of models: {error}") from error
    except ServerError as error:
        raise ModelError(str(error)) from error
    context = model.max_model_len or (props.default_generation_settings.n_ctx if props else None)
    return served.shown(model.id) or "a model without a name", interface, context


async def _model(client: Client, wanted: str | None) -> ServedModel:
    """The model with that name; a server that lists none has the requested one, or one without a name."""
    try:
        listed = await http.models(client)
    except ServerError as error:
        if error.status not in (404, 405):
            raise
        return ServedModel(wanted or "")
    return served.chosen(listed, wanted, client.url, _SETTING)


def _ways(kind: str, model: str, *, is_llama: bool, is_ollama: bool) -> Iterator[_Make]:
    """The ways to ask that are worth a try, best first."""
    suffix = partial(interfaces.with_suffix, model)
    chat = partial(interfaces.chat, model)
    infill = partial(interfaces.llama_infill, model)
    if kind != "auto":
        yield {"suffix": suffix, "infill": infill, "chat": chat}.get(kind) or _of_family(kind, model)
        return
    if is_llama:
        yield infill
    if not is_ollama and (found := fim_tokens.kind_of(model)):
        yield _of_family(found, model)
    yield suffix
    yield chat


def _of_family(kind: str, model: str) -> _Make:
    assert kind in fim_tokens.TABLE
    return partial(interfaces.of_family, kind, model, fim_tokens.of_kind(kind, model))


async def _first_that_answers(client: Client, ways: list[_Make], kind: str, model: str) -> Interface:
    """Raises ModelError, which lists the answer to each attempt, and ServerError."""
    refused: list[str] = []
    for make in ways:
        for rich in (True, False):
            interface = make(rich=rich)
            try:
                await Answer(client, interface, _FOR_A_TOKEN, None).receive(lambda: None)
            except TimeoutError:
                why = f"the server {client.url} did not end its answer"
            except ServerError as error:
                if error.status and error.status not in _REFUSED:
                    raise
                why = str(error)
            else:
                return interface
            if not rich:
                refused.append(f"{interface.kind} ({interface.path}): {why}")
    what = "it fills no hole" if kind == "auto" else f"it fills no hole when asked by `{kind}`"
    raise ModelError(
        f"{client.url} has {served.shown(model)}, but {what}: {'; '.join(refused)[:1500]}; set partner.kind to what "
        "it supports"
    )
