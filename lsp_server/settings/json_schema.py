"""Write `Settings` as JSON Schema, for editors: one object without references, which VS Code does not resolve."""

from typing import Any

import msgspec

from lsp_server.settings.schema import USER_ONLY, Settings


def json_schema() -> dict[str, Any]:
    """A new JSON Schema of all settings.

    Each property has a `description`, a `default` and, in VS Code's words, a `scope`: `machine` where a workspace has
    no say, else `resource`.
    """
    (whole,), parts = msgspec.json.schema_components([Settings], ref_template="{name}")
    schema: dict[str, Any] = _inlined(whole, parts)
    for field in msgspec.structs.fields(Settings):
        schema["properties"][field.encode_name]["scope"] = "machine" if field.name in USER_ONLY else "resource"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "infill-ls"}


def _inlined(schema: Any, parts: dict[str, Any]) -> Any:
    """`schema` with what it refers to in place; what it says itself goes before that."""
    if isinstance(schema, list):
        return [_inlined(item, parts) for item in schema]
    if not isinstance(schema, dict):
        return schema
    own = {key: _inlined(value, parts) for key, value in schema.items() if key != "$ref"}
    if "$ref" not in schema:
        return own
    part = _inlined(parts[schema["$ref"]], parts)
    return {key: value for key, value in part.items() if key not in ("title", "required")} | own
