"""Reads settings from environment variables, as the user's own.

`INFILL_LS_MAX_STEPS=8` sets `maxSteps`, `INFILL_LS_DEADLINE_MS_INVOKED=500` sets `deadlineMs.invoked`.
"""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from lsp_server.settings.layers import KEYS, Layer, converted, nearest, plain

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
_SETTINGS = {"_".join(key.fields).upper(): name for name, key in KEYS.items()}
"""The setting of each variable, which is named here without `PREFIX`."""


def environment_layers(environment: Mapping[str, str]) -> tuple[list[Layer], list[str]]:
    """One layer for each variable that sets something, and one line for each unusable one."""
    layers: list[Layer] = []
    problems: list[str] = []
    for variable, text in sorted(environment.items()):
        if not variable.startswith(PREFIX) or variable in NO_SETTINGS or not text:
            continue
        word = variable.removeprefix(PREFIX)
        source = f"environment variable {variable}"
        if word not in _SETTINGS:
            problems.append(f"{source}: no such setting{nearest(word, list(_SETTINGS), PREFIX)}; ignored")
            continue
        try:
            layers.append(Layer(source, _raw(_SETTINGS[word], text)))
        except (msgspec.ValidationError, ValueError) as error:
            problems.append(f"{source}: {plain(error)}; ignored")
    return layers, problems


def _raw(name: str, text: str) -> dict[str, Any]:
    """The raw settings with the value of a variable's text. Raises msgspec.ValidationError or ValueError."""
    given: Any = text.strip()
    if isinstance(KEYS[name].default, tuple):
        is_array = given.startswith('["')  # as in the configuration file
        given = json.loads(text) if is_array else [item.strip() for item in text.split(",") if item.strip()]
    value = converted(given, KEYS[name].kind, strict=False)
    group, _, inner = name.rpartition(".")
    return {group: {inner: value}} if group else {name: value}
