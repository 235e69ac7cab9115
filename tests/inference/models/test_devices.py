"""Where torch computes a model: memory that one pass frees serves the next."""

import subprocess
import sys

import pytest

_ROUNDS = """
import resource
import torch
from inference.models import devices

devices.reuse_freed_memory()

def a_pass():
    held = [torch.ones(3 << 20) for _ in range(4)]

a_pass()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    a_pass()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
"""Each pass holds 48 MB, 12,288 pages of 4 kB. Untuned, glibc returns them at the end of each: 120,000 page faults."""


@pytest.mark.skipif(sys.platform != "linux", reason="page faults as Linux counts them")
def test_memory_that_a_pass_frees_serves_the_next() -> None:
    done = subprocess.run([sys.executable, "-c", _ROUNDS], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 12_288
