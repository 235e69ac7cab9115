"""What a workspace may only lower: whatever is kept, or sent although nobody asked. See `schema.ONLY_LESS`."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from lsp_server.settings.schema import ONLY_LESS, Settings

_OFF = "off"
_WHERE = "from here: set it in your editor's start options or the environment"


def without_more(values: Mapping[str, Any], now: Settings) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The values of a layer that is not the user's own, without those that are more than they are `now`.

    Then the fields of these, and why each was left out, in words that name the setting.
    """
    kept, refused = dict(values), list[tuple[str, str]]()
    for name, *inner in ONLY_LESS:
        if name not in kept:
            continue
        if not inner:
            if _is_more(kept[name], getattr(now, name)):
                refused.append((name, _why(_key(now, name), kept.pop(name))))
        elif isinstance(kept[name], Mapping) and inner[0] in kept[name]:
            group, (field,) = dict(kept[name]), inner
            if _is_more(group[field], getattr(getattr(now, name), field)):
                key = f"{_key(now, name)}.{_key(getattr(now, name), field)}"
                refused.append((name, _why(key, group.pop(field))))
                kept[name] = group
    return kept, refused


def _is_more(value: Any, now: Any) -> bool:
    """Whether a value is another one than `now`, and not off; of numbers, whether it is higher."""
    if isinstance(value, str):
        return value != now and value != _OFF
    return bool(value > now)


def _why(key: str, value: Any) -> str:
    raised = isinstance(value, float | int) and not isinstance(value, bool)
    return f"{key} is not {'raised' if raised else 'switched on'} {_WHERE}"


def _key(group: Struct, name: str) -> str:
    """The setting's own name."""
    return dict(zip(group.__struct_fields__, group.__struct_encode_fields__, strict=True))[name]
