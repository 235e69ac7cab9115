"""The released checkpoint's full shape with random weights, in 4 bits, through the real worker and command.

`make dry-run-26b`; not part of `make test`, because it needs 24 GB and minutes to an hour.
"""
