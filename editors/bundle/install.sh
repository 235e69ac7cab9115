#!/bin/sh
# Installs infill-ls, or removes it with --remove. See README.txt.
here=$(cd "$(dirname "$0")" && pwd)
for python in python3 python3.14 python3.13 python3.12 python3.11 python; do
    command -v "$python" >/dev/null 2>&1 && exec "$python" "$here/install.py" "$@"
done
echo "infill-ls: there is no Python 3 on PATH; the bundle's name says which version it needs" >&2
exit 1
