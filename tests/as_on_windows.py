"""Becomes the module that `AS_ON_WINDOWS` names, on a system like Windows, as far as Linux can be made one.

Its event loop takes no signal handlers and serves no Unix sockets, nobody may make symbolic links, and for our own code
there is no `/proc`, as on macOS.
"""

import asyncio
import os
import runpy
from pathlib import Path
from typing import Any, NoReturn


class Loop(asyncio.SelectorEventLoop):
    """What asyncio has on Windows."""

    def add_signal_handler(self, *_: Any) -> NoReturn:
        raise NotImplementedError

    async def create_unix_server(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError

    async def create_unix_connection(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError


class Policy(asyncio.DefaultEventLoopPolicy):
    """Makes such loops."""

    def new_event_loop(self) -> Loop:
        return Loop()


def refuse(*_: Any, **__: Any) -> NoReturn:
    raise OSError(22, "A required privilege is not held by the client")


if __name__ == "__main__":
    has = Path.exists
    Path.exists = lambda path, **more: has(path, **more) and path.parts[1:2] != ("proc",)  # type: ignore[method-assign]
    os.symlink = refuse
    os.environ["INFILL_LS_TRANSPORT"] = "tcp"
    asyncio.set_event_loop_policy(Policy())
    runpy.run_module(os.environ["AS_ON_WINDOWS"], run_name="__main__", alter_sys=True)
