"""The benchmarks behind `infill-ls bench`, described in README.md. Each prints one JSON object as its last line."""

import os

# As in the worker, whose threads spin for a moment only while they wait.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
