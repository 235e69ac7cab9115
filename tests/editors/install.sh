#!/bin/sh
# Puts the editors that the tests drive into a folder of their own: install.sh FOLDER
#
# Neovim, Helix, Emacs (with lsp-mode) and tmux come as Debian packages, unpacked there with the libraries they need and told to use
# those: nothing is installed on the system, and nobody needs to be root. FOLDER/bin has a command for each. What is there
# already is kept. Exit status 0: all there; 1: not, and why stands on stderr.
set -u
[ $# = 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
mkdir -p "$1" && folder=$(cd "$1" && pwd) || exit 1
suite=forky  # Debian 12 and 13 have no Neovim 0.12
ready=$folder/.ready-2-$suite
root=$folder/root
apt=$folder/apt
tries=3

[ -e "$ready" ] && exit 0

fail() {
    printf 'tests/editors/install.sh: %s\n' "$*" >&2
    exit 1
}

for tool in apt-get dpkg-deb dpkg; do
    command -v "$tool" >/dev/null || fail "no $tool here: this works on Debian and Ubuntu alone. Elsewhere, put nvim (0.12 or" \
        "newer), hx, emacs (29 or newer) and tmux on PATH and run the tests again; they use what they find there."
done

# The same archive as the system's, another suite; lists and packages go to our folder.
sources() {
    if [ -r /etc/apt/sources.list.d/debian.sources ]; then
        awk -v suite="$suite" '
            /^Types:/ { stanza++ }
            stanza == 1 && /^Suites:/ { print "Suites: " suite; next }
            stanza == 1 && /^Components:/ { print "Components: main"; next }
            stanza == 1 && !/^#/ && NF { print }' /etc/apt/sources.list.d/debian.sources
    else
        uri=$(awk '$1 == "deb" && $2 ~ /debian/ { print $2; exit }' /etc/apt/sources.list 2>/dev/null)
        [ -n "$uri" ] || return 1
        printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n' \
            "$uri" "$suite" /usr/share/keyrings/debian-archive-keyring.gpg
    fi
}

rm -rf "$root" "$folder/bin"
mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$root" "$folder/bin" || fail "cannot write to $folder"
: >"$apt/status"
sources >"$apt/our.sources" || fail "found no Debian archive in /etc/apt; put nvim, hx, emacs and tmux on PATH instead"
architecture=$(dpkg --print-architecture)
cat >"$apt/apt.conf" <<CONF
Dir::State "$apt"; Dir::State::lists "$apt/lists"; Dir::State::status "$apt/status";
Dir::Cache "$apt"; Dir::Cache::archives "$apt/archives";
Dir::Etc::sourcelist "$apt/our.sources"; Dir::Etc::sourceparts "-"; Dir::Etc::preferencesparts "-";
APT::Install-Recommends "false"; APT::Architecture "$architecture"; APT::Sandbox::User "root";
Acquire::Languages "none"; Acquire::Retries "3";
CONF
export APT_CONFIG="$apt/apt.conf"

again() {
    try=1
    until "$@" >"$folder/install.log" 2>&1; do
        [ $try -lt $tries ] || { tail -5 "$folder/install.log" >&2; return 1; }
        try=$((try + 1))
        sleep $((try * 2))
    done
}

again apt-get -q update || fail "apt-get update failed $tries times (above is what it said; is the package archive reachable?)"
again apt-get -q install -y --download-only neovim hx emacs-nox tmux patchelf ||
    fail "apt-get could not fetch the editors in $tries tries (above is what it said)"
again apt-get -q install -y --download-only elpa-lsp-mode ||
    printf 'tests/editors/install.sh: no lsp-mode, so ghost text in Emacs is not tested (above is what apt-get said)\n' >&2
for package in "$apt"/archives/*.deb; do
    dpkg-deb -x "$package" "$root" || fail "cannot unpack $package; is the disk full? Remove $folder and try again"
done

# Their C library is newer than the system's: each program gets the loader and the libraries that came with it.
libraries=$(echo "$root"/usr/lib/*-linux-gnu*)
loader=$(find "$libraries" -maxdepth 1 -name 'ld-linux*.so.*' | head -1)
[ -n "$loader" ] || fail "no loader among the unpacked packages; remove $folder and try again"
for program in usr/bin/nvim usr/lib/hx/hx usr/bin/emacs-nox usr/bin/tmux; do
    "$loader" --library-path "$libraries" "$root/usr/bin/patchelf" \
        --set-interpreter "$loader" --force-rpath --set-rpath "$libraries" "$root/$program" ||
        fail "cannot adapt $program; remove $folder and try again"
done

command_() {  # NAME PROGRAM [VARIABLE=VALUE ...]: a script FOLDER/bin/NAME
    name=$1 program=$2
    shift 2
    { printf '#!/bin/sh\n'; for word; do printf 'export %s\n' "$word"; done; printf 'exec "%s" "$@"\n' "$program"; } \
        >"$folder/bin/$name"
    chmod +x "$folder/bin/$name"
}
emacs=$(echo "$root"/usr/share/emacs/[0-9]*)
version=${emacs##*/}
lisp=$(find "$emacs/lisp" "$root/usr/share/emacs/site-lisp/elpa-src" -type d 2>/dev/null | tr '\n' ':')
command_ nvim "$root/usr/bin/nvim" "VIMRUNTIME='$root/usr/share/nvim/runtime'"
command_ hx "$root/usr/lib/hx/hx" "HELIX_RUNTIME='$root/usr/lib/hx/runtime'"
command_ tmux "$root/usr/bin/tmux"
command_ emacs "$root/usr/bin/emacs-nox" "EMACSLOADPATH='${lisp%:}'" "EMACSDATA='$emacs/etc'" "EMACSDOC='$emacs/etc'" \
    "EMACSPATH='$(echo "$root"/usr/libexec/emacs/"$version"/*)'"
dump=$(echo "$root"/usr/libexec/emacs/"$version"/*/emacs*.pdmp)
sed -i "s|emacs-nox\" |emacs-nox\" --dump-file='$dump' |" "$folder/bin/emacs"
for name in nvim hx emacs; do
    "$folder/bin/$name" --version >"$folder/install.log" 2>&1 ||
        { cat "$folder/install.log" >&2; fail "$name was unpacked and does not run here"; }
    head -1 "$folder/install.log"
done
rm -rf "$apt/archives" "$apt/lists"
: >"$ready"
