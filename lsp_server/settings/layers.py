"""Merges layers of raw JSON into `Settings` and a list of problems; a later layer wins, key by key.

A bad or unknown key becomes a problem, and everything else is used. A layer's author decides what it may set.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from enum import Enum, auto
from functools import reduce
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from lsp_server.settings.schema import OFF, ONLY_LESS, STARTUP, USER_ONLY, Settings

_WHERE = "from here: set it in your editor's start options or the environment"
_TRUST = "trustWorkspace"


class Key(NamedTuple):
    """One setting: the field that holds it, behind that of its group if it is in one, its type and its default."""

    fields: tuple[str, ...]
    kind: Any
    default: Any


def _keys(group: Struct, prefix: str = "", fields: tuple[str, ...] = ()) -> Iterator[tuple[str, Key]]:
    for field in msgspec.structs.fields(group):
        value = getattr(group, field.name)
        path = (*fields, field.name)
        if isinstance(value, Struct):
            yield from _keys(value, f"{prefix}{field.encode_name}.", path)
        else:
            yield prefix + field.encode_name, Key(path, field.type, value)


KEYS = dict(_keys(Settings()))
"""Every setting by its name, behind that of its group: `marker`, `deadlineMs.automatic`."""
_GROUPS = {name.partition(".")[0] for name in KEYS if "." in name}


class Origin(Enum):
    """The author of a layer's settings.

    USER (command line, environment, start options) may set everything. EDITOR (sent while the server runs, perhaps from
    a workspace) cannot set anything in `STARTUP`. WORKSPACE (a file that came with the code) can set `USER_ONLY` only
    if the user trusts it. Only a USER switches on or raises anything in `ONLY_LESS`.
    """

    USER = auto()
    EDITOR = auto()
    WORKSPACE = auto()


class Layer(NamedTuple):
    """Raw settings, the name of their source for messages, and their author."""

    source: str
    raw: object
    origin: Origin = Origin.USER


def resolve(layers: Sequence[Layer], started: Settings | None = None) -> tuple[Settings, list[str]]:
    """The merged settings of all layers, and one line for each unusable key. Those of the start stay as `started`."""
    problems: list[str] = []
    found = [(layer, _read(layer, problems)) for layer in layers]
    users = [values for layer, values in found if layer.origin is Origin.USER]
    trusts = next((values[_TRUST] for values in reversed(users) if _TRUST in values), False)
    merged = {name: key.default for name, key in KEYS.items()}
    set_by: dict[str, int] = {}
    barred: list[tuple[int, str, Any, str]] = []
    for number, (layer, values) in enumerate(found):
        for name, value in values.items():
            if why := _why_barred(layer.origin, name, value, merged[name], trusts=trusts, started=started):
                barred.append((number, name, value, why))
            else:
                merged[name] = merged[name] + value if _adds(name, layer.origin) else value
                set_by[name] = number
    merged |= {name: _of(started, name) for name in KEYS if started and _is_startup(name)}
    for number, name, value, why in barred:  # which is no news where the user has set it afterwards, or to the same
        if value != merged[name] and set_by.get(name, -1) < number:
            problems.append(f"{found[number][0].source}: {why}")
    return msgspec.convert(nested(merged), Settings), list(dict.fromkeys(problems))


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by the names of `KEYS` as raw settings: those of a group in an object of their own."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        group, _, inner = name.rpartition(".")
        (found.setdefault(group, {}) if group else found)[inner] = value
    return found


def nearest(name: str, known: Sequence[str], prefix: str = "") -> str:
    """` (did you mean …?)` with `prefix` and the most similar known name, or nothing if none is."""
    folded = {_folded(candidate): candidate for candidate in known}
    near = get_close_matches(_folded(name), list(folded), n=1, cutoff=0.75)
    return f" (did you mean {prefix + folded[near[0]]!r}?)" if near else ""


def converted(value: object, kind: Any, *, strict: bool = True) -> Any:
    """A raw value as one of type `kind`; unless `strict`, text may give a number. Raises msgspec.ValidationError."""
    try:
        found = msgspec.convert(value, kind, strict=strict)
        msgspec.json.encode(found)
    except UnicodeEncodeError:
        raise msgspec.ValidationError("Text contains half a surrogate pair") from None
    return found


def plain(error: Exception) -> str:
    return str(error).replace("`", "").removesuffix(" - at $")


def _why_barred(origin: Origin, name: str, value: Any, now: Any, *, trusts: bool, started: Settings | None) -> str:
    """Why an author may not set this, which is `now` set otherwise; empty if they may."""
    if origin is Origin.USER:
        return ""
    if KEYS[name].fields in ONLY_LESS and _is_more(value, now):
        raised = isinstance(value, float | int) and not isinstance(value, bool)
        return f"{name} is not {'raised' if raised else 'switched on'} {_WHERE}"
    if not _is_startup(name):
        return ""
    group = name.partition(".")[0]
    if origin is Origin.EDITOR:
        return f"{group} is read only at start: set it in the start options and restart the server"
    if name == _TRUST:
        return f"{group} is ignored: only you can trust a workspace, in your editor's start options or the environment"
    if KEYS[name].fields[0] in USER_ONLY and not trusts:
        return (
            f"{group} is ignored, because a workspace may not choose it: set it in your editor's start options or the "
            "environment, or allow it with trustWorkspace, INFILL_LS_TRUST_WORKSPACE=1 or --trust-workspace"
        )
    if started is not None and value != _of(started, name):
        return f"{group} is read only at start, from the first workspace folder: restart the server"
    return ""


def _read(layer: Layer, problems: list[str]) -> dict[str, Any]:
    """The usable values of a layer, by the names of `KEYS`."""
    if layer.raw is None:
        return {}
    if not isinstance(layer.raw, Mapping):
        problems.append(f"{layer.source}: settings must be an object, not {_json_name(layer.raw)}; ignored")
        return {}
    given: dict[str, Any] = {}
    for name, value in layer.raw.items():
        is_group = name in _GROUPS and isinstance(value, Mapping)
        given |= {f"{name}.{inner}": each for inner, each in value.items()} if is_group else {str(name): value}
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name in _GROUPS:
            problems.append(f"{layer.source}: {name}: Expected object, got {_json_name(value)}; ignored")
        elif name not in KEYS:
            problems.append(f"{layer.source}: unknown setting {name[:80]!r}{nearest(name, list(KEYS))}; ignored")
        else:
            try:
                values[name] = converted(value, KEYS[name].kind)
            except msgspec.ValidationError as error:
                problems.append(f"{layer.source}: {name}: {plain(error)}; ignored")
    return values


def _is_startup(name: str) -> bool:
    return KEYS[name].fields[0] in STARTUP


def _adds(name: str, origin: Origin) -> bool:
    """Whether a layer's patterns add to those before it: a pattern never removes another's."""
    is_off = name in ("disabledLanguages", "disabledGlobs")
    return name == "secretGlobs" or (is_off and origin is Origin.WORKSPACE)


def _of(settings: Settings, name: str) -> Any:
    return reduce(getattr, KEYS[name].fields, settings)


def _is_more(value: Any, now: Any) -> bool:
    """Whether a value differs from `now` without switching off; for numbers, whether it is higher."""
    if isinstance(value, str):
        return value not in (now, OFF)
    return bool(value > now)


def _folded(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _json_name(value: object) -> str:
    names: dict[type, str] = {list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), type(value).__name__)


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
    """One layer for each variable that sets something, and one line for each unusable one. `INFILL_LS_MAX_STEPS=8` sets
    `maxSteps`, `INFILL_LS_DEADLINE_MS_INVOKED=500` sets `deadlineMs.invoked`.
    """
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
    return nested({name: converted(given, KEYS[name].kind, strict=False)})
