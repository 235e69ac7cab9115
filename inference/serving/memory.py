"""How much memory this process holds."""

import sys

import psutil


def resident_bytes() -> int:
    """Resident memory of this process in bytes."""
    return int(psutil.Process().memory_info().rss)


def device_bytes() -> int:
    """Memory that torch holds on the accelerator, in bytes; 0 without one. Never imports torch itself."""
    torch = sys.modules.get("torch")
    try:
        if torch is not None and torch.cuda.is_initialized():
            return int(torch.cuda.memory_reserved())
    except (AttributeError, RuntimeError):  # torch is half imported in the engine's thread
        pass
    return 0
