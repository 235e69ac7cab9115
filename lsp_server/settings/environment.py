"""Reads settings from environment variables, as the user's own.

`INFILL_LS_MAX_STEPS=8` sets `maxSteps`, `INFILL_LS_DEADLINE_MS_INVOKED=500` sets `deadlineMs.invoked`.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from lsp_server.settings.layers import Layer, converted, nearest, plain
from lsp_server.settings.schema import Settings

PREFIX = "INFILL_LS_"
NO_SETTINGS = frozenset(
    f"{PREFIX}{name}"
    for name in (
        "RUNTIME_DIR",
        "STATE_DIR",
        "TRANSPORT",
        "SERVER_TOKEN",
        "PARTNER_TOKEN",
        "NEXT_EDIT_TOKEN",
        "HTTP_TOKEN",
    )
)
"""Our variables that are not settings."""
_REMOVED = {"CANDIDATES_AUTOMATIC", "CONTEXT_MAX_MS", "REFINE_BELOW", "SHADOW_TEXTS", "START_WORKER"}
"""Settings of earlier versions."""
_Variable = tuple[tuple[str, ...], Any, bool]
"""The setting of one variable: the keys that lead to it, its type, and whether it is a list."""


def environment_layers(environment: Mapping[str, str]) -> tuple[list[Layer], list[str]]:
    """One layer for each variable that sets something, and one line for each unusable one."""
    known = dict(_variables(Settings(), PREFIX, ()))
    layers: list[Layer] = []
    problems: list[str] = []
    for name, text in sorted(environment.items()):
        if not name.startswith(PREFIX) or name in NO_SETTINGS or not text:
            continue
        if name not in known:
            word = name.removeprefix(PREFIX)
            said = f"no such setting{nearest(word, [each.removeprefix(PREFIX) for each in known], PREFIX)}"
            problems.append(
                f"environment variable {name}: {'no longer a setting' if word in _REMOVED else said}; ignored"
            )
            continue
        try:
            layers.append(Layer(f"environment variable {name}", _layer(text, *known[name])))
        except (msgspec.ValidationError, ValueError) as error:
            problems.append(f"environment variable {name}: {plain(error)}; ignored")
    return layers, problems


def _variables(group: Struct, prefix: str, keys: tuple[str, ...]) -> Iterator[tuple[str, _Variable]]:
    """Each variable's name and setting."""
    for field in msgspec.structs.fields(group):
        value = getattr(group, field.name)
        name = prefix + field.name.upper()
        if isinstance(value, Struct):
            yield from _variables(value, f"{name}_", (*keys, field.encode_name))
        else:
            yield name, ((*keys, field.encode_name), field.type, isinstance(value, tuple))


def _layer(text: str, keys: tuple[str, ...], kind: Any, is_list: bool) -> Any:
    """The raw settings with the value of a variable's text. Raises msgspec.ValidationError or ValueError."""
    is_array = is_list and text.strip().startswith('["')  # as in the configuration file
    items = json.loads(text) if is_array else [item.strip() for item in text.split(",") if item.strip()]
    value = converted(items if is_list else text.strip(), kind, strict=False)
    for key in reversed(keys):
        value = {key: value}
    return value
