"""The benchmarks behind `infill-ls bench`, described in README.md. Each prints one JSON object as its last line."""

from inference.serving.loading import spin_briefly

spin_briefly()  # as in the worker
