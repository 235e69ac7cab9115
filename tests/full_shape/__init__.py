"""The released checkpoint's full shape with made-up weights, in 4 bits, through the real worker and command.

`make dry-run-26b` and `make two-layers-26b`; no part of `make test`, for they need 24 GB and minutes to an hour.
"""
