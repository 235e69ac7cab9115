"""For all tests: threads that wait sleep, because tests and workers share few cores. Read when torch is loaded."""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

pytest_plugins = ["tests.workers"]

collect_ignore = ["editors"]
"""Real editors are for `make test-editors`, which installs them."""
