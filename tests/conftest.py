"""For all tests: threads that wait sleep, because tests and workers share few cores. Read when torch is loaded."""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

pytest_plugins = ["tests.workers"]
