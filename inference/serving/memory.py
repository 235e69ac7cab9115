"""How much memory this process holds."""

import os
import sys
from pathlib import Path


def resident_bytes() -> int:
    """Resident memory of this process in bytes; its peak where only that is known; 0 where nothing is."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return _peak_bytes()


def device_bytes() -> int:
    """Memory that torch holds on the accelerator, in bytes; 0 without one. Never imports torch itself."""
    torch = sys.modules.get("torch")
    try:
        if torch is not None and torch.cuda.is_initialized():
            return int(torch.cuda.memory_reserved())
    except (AttributeError, RuntimeError):  # torch is half imported in the loader's thread
        pass
    return 0


def _peak_bytes() -> int:
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS counts bytes, the others KiB
