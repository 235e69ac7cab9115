"""For all tests: how torch's threads wait, that the many processes which the tests start do so quickly, and luck."""

import os

# Threads that wait sleep, because tests and workers share few cores. Read when torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Servers and workers start hundreds of times; without bytecode files each compiles all our modules again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Which examples Hypothesis draws must not decide whether a change lands; a developer's runs draw others each time.
if os.environ.get("INFILL_TEST_SAME_EXAMPLES"):
    from hypothesis import settings

    settings.load_profile("ci")

pytest_plugins = ["tests.workers"]

collect_ignore = ["editors", "served"]
"""Real editors are for `make test-editors`, and a real vLLM for `make test-served`, which install them."""
