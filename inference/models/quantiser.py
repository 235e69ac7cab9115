"""Imports the library that packs weights into fewer bits, without letting it fetch or print anything."""

import logging
import sys
from functools import cache
from typing import Any

from inference.models.family import ModelError

_TALKERS = ("bitsandbytes.backends.cpu.ops", "bitsandbytes.autograd._functions")
"""The latter warns at each product in 8 bits that its input is not float16."""


@cache
def library() -> Any:
    """bitsandbytes. Raises ModelError if it cannot be imported.

    On some CPUs it asks the package `kernels` to fetch code from a hub; this prevents that.
    """
    before = sys.modules.get("kernels")
    sys.modules["kernels"] = None  # type: ignore[assignment]
    for talker in _TALKERS:
        logging.getLogger(talker).setLevel(logging.ERROR)
    try:
        import bitsandbytes
        import bitsandbytes.nn.parametrize
    except Exception as error:  # it loads libraries that may be built for another machine
        raise ModelError(
            f"dtypes '4bit' and '8bit' need the package bitsandbytes, which cannot be imported: {error}"
        ) from error
    finally:
        if before is None:
            del sys.modules["kernels"]
        else:
            sys.modules["kernels"] = before
    return bitsandbytes
