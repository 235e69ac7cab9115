"""Merges layers of raw JSON into `Settings` and a list of problems; a later layer wins, key by key.

A bad or unknown key becomes a problem, and everything else is used. A layer's author decides what it may set.
"""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from enum import Enum, auto
from functools import reduce
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from lsp_server.settings.schema import OFF, STARTUP, USER_ONLY, USER_WIDENS, Settings

_WHERE = "from here: set it in your editor's start options or the environment"
_TRUST = "trustWorkspace"


class SettingDefinition(NamedTuple):
    """One setting: the path of fields that hold it (its group first, if any), its type and its default."""

    fields: tuple[str, ...]
    kind: Any
    default: Any


def _keys(group: Struct, prefix: str = "", fields: tuple[str, ...] = ()) -> Iterator[tuple[str, SettingDefinition]]:
    for field in msgspec.structs.fields(group):
        value = getattr(group, field.name)
        path = (*fields, field.name)
        if isinstance(value, Struct):
            yield from _keys(value, f"{prefix}{field.encode_name}.", path)
        else:
            yield prefix + field.encode_name, SettingDefinition(path, field.type, value)


SETTING_DEFINITIONS = dict(_keys(Settings()))
"""Every setting by its name, after that of its group: `marker`, `deadlineMs.automatic`."""
_GROUPS = {name.partition(".")[0] for name in SETTING_DEFINITIONS if "." in name}
_FOLDED = {name.lower(): name for name in SETTING_DEFINITIONS}
_REPLACED = {"confidencefloor": "; suggestions replaces it, which is calm, balanced or eager"}
"""Hints for settings of earlier versions."""


class Origin(Enum):
    """The author of a layer's settings.

    USER (command line, environment, start options) may set everything. EDITOR (sent while the server runs, perhaps from
    a workspace) cannot set anything in `STARTUP`. WORKSPACE (a file that came with the code) can set `USER_ONLY` only
    if the user trusts it. Only a USER switches on or widens anything in `USER_WIDENS`.
    """

    USER = auto()
    EDITOR = auto()
    WORKSPACE = auto()


class Layer(NamedTuple):
    """Raw settings by their names, which may be nested as in JSON, the name of their source for messages, and their
    author. `is_text`: the values are those of environment variables.
    """

    source: str
    raw: object
    origin: Origin = Origin.USER
    is_text: bool = False


def merge_layers(layers: Sequence[Layer], started: Settings | None = None) -> tuple[Settings, list[str]]:
    """The merged settings of all layers, and one line for each unusable key. Those of the start stay as `started`."""
    problems: list[str] = []
    layer_values = [(layer, _usable_values(layer, problems)) for layer in layers]
    users = [values for layer, values in layer_values if layer.origin is Origin.USER]
    trusts = next((values[_TRUST] for values in reversed(users) if _TRUST in values), False)
    merged = {name: key.default for name, key in SETTING_DEFINITIONS.items()}
    set_by: dict[str, int] = {}
    barred: list[tuple[int, str, Any, str]] = []
    for index, (layer, values) in enumerate(layer_values):
        for name, value in values.items():
            if reason := _barred_reason(layer.origin, name, value, merged[name], trusts=trusts, started=started):
                barred.append((index, name, value, reason))
            else:
                merged[name] = merged[name] + value if _extends_previous(name, layer.origin) else value
                set_by[name] = index
    merged |= {name: _setting(started, name) for name in SETTING_DEFINITIONS if started and _is_startup(name)}
    for index, name, value, reason in barred:  # which is no news where the user has set it afterwards, or to the same
        if value != merged[name] and set_by.get(name, -1) < index:
            problems.append(f"{layer_values[index][0].source}: {reason}")
    return msgspec.convert(_nest(merged), Settings), list(dict.fromkeys(problems))


def _barred_reason(
    origin: Origin, name: str, value: Any, current: Any, *, trusts: bool, started: Settings | None
) -> str | None:
    """Why an author may not set this to `value` instead of `current`; None if they may."""
    if origin is Origin.USER:
        return None
    is_widened = (name == _TRUST or SETTING_DEFINITIONS[name].fields in USER_WIDENS) and _grants_more(value, current)
    if is_widened:
        return f"{name} cannot be switched on or widened {_WHERE}"
    if not _is_startup(name):
        return None
    group = name.partition(".")[0]
    if origin is Origin.EDITOR:
        return f"{group} is read only at start: set it in the start options and restart the server"
    if SETTING_DEFINITIONS[name].fields[0] in USER_ONLY and not trusts:
        return (
            f"{group} is ignored, because a workspace may not choose it: set it in your editor's start options or the "
            "environment, or allow it with trustWorkspace, INFILL_LS_TRUST_WORKSPACE=1 or --trust-workspace"
        )
    if started is not None and value != _setting(started, name):
        return f"{group} is read only at start, from the first workspace folder: restart the server"
    return None


def _usable_values(layer: Layer, problems: list[str]) -> dict[str, Any]:
    """The usable values of a layer, by the names of `SETTING_DEFINITIONS`."""
    try:
        raw = {} if layer.raw is None else msgspec.convert(layer.raw, dict[str, Any])
    except msgspec.ValidationError as error:
        problems.append(f"{layer.source}: {_plain(error)}; ignored")
        return {}
    flat: dict[str, Any] = {}
    for name, value in raw.items():
        is_group = name in _GROUPS and isinstance(value, Mapping)
        flat |= {f"{name}.{inner}": inner_value for inner, inner_value in value.items()} if is_group else {name: value}
    values: dict[str, Any] = {}
    for name, value in flat.items():
        try:
            if name in _GROUPS:
                raise msgspec.ValidationError("Expected object")
            if name in SETTING_DEFINITIONS:
                values[name] = _convert_value(value, SETTING_DEFINITIONS[name], is_text=layer.is_text)
            else:
                problems.append(f"{layer.source}: unknown setting {name[:80]!r}{_similar_setting_hint(name)}; ignored")
        except msgspec.DecodeError as error:
            problems.append(f"{layer.source}: {name}: {_plain(error)}; ignored")
    return values


def _convert_value(value: Any, key: SettingDefinition, *, is_text: bool) -> Any:
    """A raw value as one of the key's type. Raises msgspec.DecodeError."""
    try:
        if is_text and isinstance(key.default, tuple):
            is_array = value.startswith('["')  # as in the configuration file
            parts = msgspec.json.decode(value) if is_array else map(str.strip, value.split(","))
            value = list(filter(None, parts))
        converted = msgspec.convert(value, key.kind, strict=not is_text)
        msgspec.json.encode(converted)
    except UnicodeEncodeError:
        raise msgspec.ValidationError("Text contains half a surrogate pair") from None
    return converted


def _nest(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by the names of `SETTING_DEFINITIONS` as raw settings: those of a group in an object of their own."""
    nested: dict[str, Any] = {}
    for name, value in values.items():
        group, _, inner = name.rpartition(".")
        (nested.setdefault(group, {}) if group else nested)[inner] = value
    return nested


def _similar_setting_hint(name: str) -> str:
    """` (did you mean …?)` with the most similar setting, or what replaced it, or nothing."""
    folded = name.replace("_", "").lower()
    near = get_close_matches(folded, list(_FOLDED), n=1, cutoff=0.75)
    return _REPLACED.get(folded) or (f" (did you mean {_FOLDED[near[0]]!r}?)" if near else "")


def _plain(error: Exception) -> str:
    return str(error).replace("`", "").removesuffix(" - at $")


def _is_startup(name: str) -> bool:
    return SETTING_DEFINITIONS[name].fields[0] in STARTUP


def _extends_previous(name: str, origin: Origin) -> bool:
    """Whether a layer's patterns add to those before it: a pattern never removes another's."""
    is_off = name in ("disabledLanguages", "disabledGlobs")
    return name == "secretGlobs" or (is_off and origin is Origin.WORKSPACE)


def _setting(settings: Settings, name: str) -> Any:
    return reduce(getattr, SETTING_DEFINITIONS[name].fields, settings)


def _grants_more(value: Any, current: Any) -> bool:
    """Whether a value grants more than `current`: it switches something on, or has more patterns."""
    if isinstance(value, tuple):
        return not {*value} <= {*current}
    if isinstance(value, str):
        return value not in (current, OFF)
    return bool(value > current)


VARIABLE_PREFIX = "INFILL_LS_"
_NO_SETTINGS = (
    *("RUNTIME_DIR", "STATE_DIR", "TRANSPORT", "KEEP_SUFFIX"),
    *("SERVER_TOKEN", "PARTNER_TOKEN", "NEXT_EDIT_TOKEN", "HTTP_TOKEN"),
)
"""Our variables that are not settings, here without `VARIABLE_PREFIX`."""
_VARIABLES = {"_".join(key.fields).upper(): name for name, key in SETTING_DEFINITIONS.items()}
"""The setting of each other variable."""


def environment_layers(environment: Mapping[str, str]) -> list[Layer]:
    """One layer for each variable of ours. `INFILL_LS_MAX_STEPS=8` sets `maxSteps`, `INFILL_LS_DEADLINE_MS_INVOKED=500`
    sets `deadlineMs.invoked`.
    """
    layers = []
    for variable, text in sorted(environment.items()):
        word = variable.removeprefix(VARIABLE_PREFIX)
        if variable.startswith(VARIABLE_PREFIX) and text and word not in _NO_SETTINGS:
            source = f"environment variable {variable}"
            layers.append(Layer(source, {_VARIABLES.get(word, word): text.strip()}, is_text=True))
    return layers
