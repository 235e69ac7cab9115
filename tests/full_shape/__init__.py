"""The released checkpoint's full shape with made-up weights, on the CPU: `make dry-run-26b`, an hour and 24 GB."""
