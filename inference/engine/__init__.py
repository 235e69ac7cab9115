"""The engine: segments in, drafts and candidates out. It knows no files, no sockets, no editors, no family of models.

Only the names a caller needs stand here. `Engine` is imported on first use, because it brings torch with it, and a
worker must be able to listen before that.
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
