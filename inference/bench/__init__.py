"""The benchmarks behind `infill-ls bench`. Each is a module whose last line of output is one JSON object."""
