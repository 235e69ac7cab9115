"""Models through MLX, which computes on the CPU here. `make test-mlx` installs it and runs these tests."""
