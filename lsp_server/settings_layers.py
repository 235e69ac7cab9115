"""Reading `Settings` from layers of raw JSON, later layers over earlier ones, key by key.

A bad or unknown key becomes a line in the list of problems, and everything else is used. Knows no LSP types, no files.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from lsp_server.settings import STARTUP, Settings


class Layer(NamedTuple):
    """Raw settings and where they came from, for the problems. `at_start` layers alone may set `STARTUP` fields."""

    source: str
    raw: object
    at_start: bool = True


def resolve(layers: Sequence[Layer]) -> tuple[Settings, list[str]]:
    """The settings of all layers together, and one line for each key that could not be used."""
    values: dict[str, Any] = {}
    problems: list[str] = []
    for layer in layers:
        if layer.raw is None:
            continue
        if not isinstance(layer.raw, Mapping):
            problems.append(f"{layer.source}: settings must be an object, not {_json_name(layer.raw)}; ignored")
            continue
        found = _read(Settings, layer.raw, layer.source, problems)
        _merge(values, found if layer.at_start else _changeable(found, values, layer.source, problems))
    return _build(Settings(), values), problems


def _read(schema: type[Struct], raw: Mapping[str, Any], where: str, problems: list[str]) -> dict[str, Any]:
    """The usable values of `raw` by field name; groups of settings stay dicts."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(schema)}
    values: dict[str, Any] = {}
    for key, value in raw.items():
        if key not in fields:
            problems.append(f"{where}: unknown setting {key!r}{_similar(key, fields)}; ignored")
            continue
        field, default = fields[key], getattr(Settings(), fields[key].name, None)
        if isinstance(default, Struct) and isinstance(value, Mapping):
            values[field.name] = _read(type(default), value, f"{where}: {key}", problems)
            continue
        try:
            values[field.name] = msgspec.convert(value, field.type)
        except msgspec.ValidationError as error:
            problems.append(f"{where}: {key}: {_plain(error)}; ignored")
    return values


def _changeable(found: dict[str, Any], start: dict[str, Any], source: str, problems: list[str]) -> dict[str, Any]:
    """`found` without the fields that are only read at start; a value that differs from the one in use is reported."""
    for name in STARTUP & found.keys():
        if found[name] != start.get(name, getattr(Settings(), name)):
            key = msgspec.structs.fields(Settings)[Settings.__struct_fields__.index(name)].encode_name
            problems.append(
                f"{source}: {key} is read only at start: set it in the start options and restart the server"
            )
    return {name: value for name, value in found.items() if name not in STARTUP}


def _merge(values: dict[str, Any], found: dict[str, Any]) -> None:
    for name, value in found.items():
        if name == "secret_globs":  # no layer can take a pattern of another away
            values[name] = values.get(name, ()) + value
        elif isinstance(value, dict):
            _merge(values.setdefault(name, {}), value)
        else:
            values[name] = value


def _build(default: Struct, values: dict[str, Any]) -> Any:
    return msgspec.structs.replace(default, **dict(_built(default, values)))


def _built(default: Struct, values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        yield name, _build(getattr(default, name), value) if isinstance(value, dict) else value


def _similar(key: str, fields: Mapping[str, object]) -> str:
    folded = {name.lower(): name for name in fields}
    near = folded.get(key.replace("_", "").replace("-", "").lower())
    return f" (did you mean {near!r}?)" if near else ""


def _plain(error: msgspec.ValidationError) -> str:
    return str(error).replace("`", "").removesuffix(" - at $")


def _json_name(value: object) -> str:
    names: dict[type, str] = {list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), type(value).__name__)
