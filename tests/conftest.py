"""For all tests: the waiting of torch's threads, fast starts of the many test processes, and the random seed."""

import os
from shutil import which

from hypothesis import settings

# Threads that wait sleep, because tests and workers share few cores. Read when torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Fills must not depend on what was asked before; the tests of kept suffixes keep them.
os.environ.setdefault("INFILL_LS_KEEP_SUFFIX", "0")

# Without a card kernels run in Triton's interpreter. Read when Triton is loaded, also by other libraries.
if not which("nvidia-smi"):
    os.environ.setdefault("TRITON_INTERPRET", "1")

# Servers and workers start hundreds of times; without bytecode files each compiles all our modules again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Which examples Hypothesis draws must not decide whether a change lands; a developer's runs draw others each time.
settings.register_profile(
    "ours",
    settings.get_profile("ci" if os.environ.get("INFILL_TEST_SAME_EXAMPLES") else "default"),
    max_examples=50,
    deadline=None,
)
settings.load_profile("ours")

pytest_plugins = ["tests.workers"]

collect_ignore = ["editors", "real", "served", "inference/bench", "test_ci.py"]
"""For targets of their own: `make test-editors` and `make test-served` install what they need, `make test-real`,
`make test-bench` and `make test-ci` take minutes."""
