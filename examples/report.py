"""Print a report of the files in a folder."""

import os
import sys


def report(folder, out=sys.stdout):
    """Write one line for each file."""
    for name in ???:
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            out.write(???)


if __name__ == "__main__":
    report(???)
