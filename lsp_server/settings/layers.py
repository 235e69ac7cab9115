"""Merges layers of raw JSON into `Settings` and a list of problems; a later layer wins, key by key.

A bad or unknown key becomes a problem, and everything else is used. A layer's author decides what it may set.
"""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from enum import Enum, auto
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from lsp_server.settings.schema import ONLY_LESS, STARTUP, USER_ONLY, Settings

_FIELDS = {field.name: field for field in msgspec.structs.fields(Settings)}
_REMOVED = frozenset({"texts", "startWorker", "refine", "refineBelow", "maxMs", "automatic"})
"""Keys of earlier versions, some of them in groups."""
_SWITCHED_OFF = frozenset({"disabled_languages", "disabled_globs"})
_OFF = "off"
_WHERE = "from here: set it in your editor's start options or the environment"


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
    found = [(layer, _read_layer(layer, problems)) for layer in layers]
    users = [values for layer, values in found if layer.origin is Origin.USER]
    trusts = next((values["trust_workspace"] for values in reversed(users) if "trust_workspace" in values), False)
    refused = [dict(_refused(layer.origin, values, trusts=trusts, started=started)) for layer, values in found]
    merged: dict[str, Any] = {}
    for at, (layer, values) in enumerate(found):
        later = zip(found[at + 1 :], refused[at + 1 :], strict=True)
        overruled = {name for (_, others), theirs in later for name in others.keys() - theirs.keys()}
        for name, why in refused[at].items():
            fixed = started if name in STARTUP else None
            now = getattr(fixed or _build(Settings(), merged), name)
            if _differs(values[name], now) and name not in overruled:
                problems.append(f"{layer.source}: {_FIELDS[name].encode_name} {why}")
        allowed = {name: value for name, value in values.items() if name not in refused[at]}
        if layer.origin is not Origin.USER:
            allowed, more = without_more(allowed, _build(Settings(), merged))
            problems += [f"{layer.source}: {why}" for name, why in more if name not in overruled]
        _merge(merged, allowed, adds=layer.origin is Origin.WORKSPACE)
    settings: Settings = _build(Settings(), merged)
    if started is not None:
        settings = msgspec.structs.replace(settings, **{name: getattr(started, name) for name in STARTUP})
    return settings, problems


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
        raise msgspec.ValidationError("Text holds half a surrogate pair") from None
    return found


def plain(error: Exception) -> str:
    """The problem with a value, worded for the user."""
    return str(error).replace("`", "").removesuffix(" - at $")


def _refused(
    origin: Origin, values: Mapping[str, Any], *, trusts: bool, started: Settings | None
) -> Iterator[tuple[str, str]]:
    """The fields that a layer may not set, and why."""
    for name in STARTUP & values.keys():
        if origin is Origin.EDITOR:
            yield name, "is read only at start: set it in the start options and restart the server"
        elif origin is Origin.WORKSPACE and name == "trust_workspace":
            yield name, "is ignored: only you can trust a workspace, in your editor's start options or the environment"
        elif origin is Origin.WORKSPACE and name in USER_ONLY and not trusts:
            yield (
                name,
                "is ignored, because a workspace may not choose it: set it in your editor's start options or the "
                "environment, or allow it with trustWorkspace, INFILL_LS_TRUST_WORKSPACE=1 or --trust-workspace",
            )
        elif origin is Origin.WORKSPACE and started is not None and _differs(values[name], getattr(started, name)):
            yield name, "is read only at start, from the first workspace folder: restart the server"


def _read_layer(layer: Layer, problems: list[str]) -> dict[str, Any]:
    if layer.raw is None:
        return {}
    if not isinstance(layer.raw, Mapping):
        problems.append(f"{layer.source}: settings must be an object, not {_json_name(layer.raw)}; ignored")
        return {}
    return _read(Settings, layer.raw, layer.source, problems)


def _read(schema: type[Struct], raw: Mapping[str, Any], where: str, problems: list[str]) -> dict[str, Any]:
    """The usable values of `raw` by field name; groups of settings stay dicts."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(schema)}
    values: dict[str, Any] = {}
    for key, value in raw.items():
        if key not in fields:
            said = f"unknown setting {str(key)[:80]!r}{nearest(str(key), list(fields))}"
            problems.append(f"{where}: {f'no longer a setting {key!r}' if key in _REMOVED else said}; ignored")
            continue
        field = fields[key]
        default = getattr(Settings(), fields[key].name, None)
        if isinstance(default, Struct) and isinstance(value, Mapping):
            values[field.name] = _read(type(default), value, f"{where}: {key}", problems)
            continue
        try:
            values[field.name] = converted(value, field.type)
        except msgspec.ValidationError as error:
            problems.append(f"{where}: {key}: {plain(error)}; ignored")
    return values


def _merge(values: dict[str, Any], found: dict[str, Any], *, adds: bool) -> None:
    for name, value in found.items():
        if name == "secret_globs" or (adds and name in _SWITCHED_OFF):  # a pattern never removes another's
            values[name] = values.get(name, ()) + value
        elif isinstance(value, dict):
            _merge(values.setdefault(name, {}), value, adds=adds)
        else:
            values[name] = value


def _build(default: Struct, values: dict[str, Any]) -> Any:
    groups = {name: _build(getattr(default, name), value) for name, value in values.items() if isinstance(value, dict)}
    return msgspec.structs.replace(default, **values | groups)


def _differs(value: Any, now: Any) -> bool:
    """Whether a value differs from `now`; for a group, whether any value that it sets does."""
    if isinstance(value, dict):
        return any(_differs(inner, getattr(now, name)) for name, inner in value.items())
    return bool(value != now)


def _folded(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _json_name(value: object) -> str:
    names: dict[type, str] = {list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), type(value).__name__)


def without_more(values: Mapping[str, Any], now: Settings) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The values of a layer not the user's own that are within `now`, and each other field with a reason."""
    kept, refused = dict(values), list[tuple[str, str]]()
    for name, *inner in ONLY_LESS:
        group = kept
        of = now
        field = name
        key = ""
        if inner and name in kept:
            group = dict(kept[name])
            of = getattr(now, name)
            field = inner[0]
            key = f"{_key(now, name)}."
        if name in kept and field in group and _is_more(group[field], getattr(of, field)):
            refused.append((name, _why(key + _key(of, field), group.pop(field))))
            kept |= {name: group} if inner else {}
    return kept, refused


def _is_more(value: Any, now: Any) -> bool:
    """Whether a value differs from `now` without switching off; for numbers, whether it is higher."""
    if isinstance(value, str):
        return value != now and value != _OFF
    return bool(value > now)


def _why(key: str, value: Any) -> str:
    raised = isinstance(value, float | int) and not isinstance(value, bool)
    return f"{key} is not {'raised' if raised else 'switched on'} {_WHERE}"


def _key(group: Struct, name: str) -> str:
    """The setting's own name."""
    return dict(zip(group.__struct_fields__, group.__struct_encode_fields__, strict=True))[name]
