"""The benchmarks behind `infill-ls bench`, described in README.md. Each prints one JSON object as its last line."""
