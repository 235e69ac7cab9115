"""The engine: segments in, drafts and candidates out. Knows no files, sockets, editors or model families.

Exports only the names that callers need. `Engine` is imported on first use, because it imports torch, and a worker must
listen before that.
"""

from typing import TYPE_CHECKING, Any

from inference.engine.errors import RequestError

if TYPE_CHECKING:
    from inference.engine.engine import Engine

__all__ = ["Engine", "RequestError"]


def __getattr__(name: str) -> Any:
    if name == "Engine":
        from inference.engine.engine import Engine

        return Engine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
