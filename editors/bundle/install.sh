#!/bin/sh
# Installs infill-ls, or removes it with --remove. See README.txt.
here=$(CDPATH="" cd -- "$(dirname -- "$0")" && pwd)
# python3 comes late: a Mac's own may only ask whether to install Xcode.
for python in python3.13 python3.12 python3.11 python3.14 python3 python; do
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 6))' 2>/dev/null && exec "$python" "$here/install.py" "$@"
done
echo "infill-ls: there is no Python 3 on PATH. Install the version that the bundle's name says, then run this again." >&2
exit 1
