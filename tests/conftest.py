"""For all tests: how torch's threads wait, and that the many processes which the tests start do so quickly."""

import os

# Threads that wait sleep, because tests and workers share few cores. Read when torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Servers and workers start hundreds of times; without bytecode files each compiles all our modules again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

pytest_plugins = ["tests.workers"]

collect_ignore = ["editors", "served"]
"""Real editors are for `make test-editors`, and a real vLLM for `make test-served`, which install them."""
