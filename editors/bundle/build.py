"""`make bundle`: one file with all that infill-ls needs on a machine without a network.

It holds the wheel and every wheel it needs for one platform and one version of Python, the VS Code extension, the
Neovim plugin, a model, their licences, and the installer. pip downloads the wheels from where it is configured to;
nothing of another platform is run.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from install import this_platform
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from inference.models import catalogue, model_store

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
VSIX = ROOT / "editors" / "vscode" / "dist" / "infill-ls.vsix"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
EXTRAS = ("http",)
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
MODEL_FOLDER = Path("share", "infill-ls")
"""Where an environment keeps the models that came with it: `inference/models/model_store.py` looks there."""
_COMPRESSED = (".whl", ".gguf", ".safetensors", ".vsix")
_LICENCES = ("LICENSE", "LICENCE", "COPYING", "NOTICE")


@dataclass(frozen=True)
class Platform:
    """The tags of its wheels, best first, and what a package's markers see there."""

    tags: tuple[str, ...]
    sys_platform: str
    machine: str
    system: str
    needs: str


def _manylinux(machine: str) -> tuple[str, ...]:
    old = {"x86_64": ("manylinux2014", "manylinux2010", "manylinux1"), "aarch64": ("manylinux2014",)}[machine]
    new = [f"manylinux_2_{minor}" for minor in range(28, 4, -1)]  # torch's wheels need glibc 2.28
    return tuple(f"{name}_{machine}" for name in (*new, *old, "linux"))


PLATFORMS = {
    "linux-x86_64": Platform(_manylinux("x86_64"), "linux", "x86_64", "Linux", "glibc 2.28 or newer"),
    "linux-aarch64": Platform(_manylinux("aarch64"), "linux", "aarch64", "Linux", "glibc 2.28 or newer"),
    "macos-arm64": Platform(("macosx_14_0_arm64",), "darwin", "arm64", "Darwin", "macOS 14 or newer"),
    "windows-amd64": Platform(("win_amd64",), "win32", "AMD64", "Windows", "Windows 10 or newer"),
}


def markers(platform: Platform, python: str) -> dict[str, str]:
    return {
        "os_name": "nt" if platform.sys_platform == "win32" else "posix",
        "sys_platform": platform.sys_platform,
        "platform_machine": platform.machine,
        "platform_system": platform.system,
        "platform_release": "",
        "platform_version": "",
        "python_version": python,
        "python_full_version": f"{python}.0",
        "implementation_name": "cpython",
        "implementation_version": f"{python}.0",
        "platform_python_implementation": "CPython",
    }


def run(*words: object) -> None:
    """Ends the program where a command fails; its own message has said why."""
    done = subprocess.run([*map(str, words)], cwd=ROOT, check=False)
    if done.returncode:
        sys.exit(f"the bundle was not built: `{' '.join(map(str, words[:6]))} …` failed; what it said stands above")


def say(text: str) -> None:
    print(text, flush=True)


def metadata(wheel: Path) -> Message:
    with ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA") and name.count("/") == 1]
        return HeaderParser().parsestr(archive.read(name).decode("utf-8"))


def requirements(wheel: Path, extras: set[str], environment: dict[str, str]) -> Iterator[Requirement]:
    """What a wheel needs on the platform, and with these extras."""
    for line in metadata(wheel).get_all("Requires-Dist") or []:
        needed = Requirement(line)
        if needed.marker is None or any(needed.marker.evaluate(environment | {"extra": one}) for one in ("", *extras)):
            yield needed


def download(folder: Path, wheel: Path, platform: Platform, options: argparse.Namespace) -> None:
    """Fetches every wheel that `wheel` needs, round by round.

    pip evaluates markers for the Python that runs it, so it is asked for single packages, and we read what each needs.
    The versions are those of constraints.txt. torch alone may come from another index.
    """
    environment = markers(platform, options.python_version)
    chosen = ["--only-binary", ":all:", "--implementation", "cp", "--python-version", options.python_version]
    chosen += [word for tag in platform.tags for word in ("--platform", tag)]
    get = (*PIP, "download", "--quiet", "--no-deps", *chosen, "-c", ROOT / "constraints.txt", "--dest", folder)
    index = os.environ.get("TORCH_INDEX", "")
    [torch] = [f"torch{one.specifier}" for one in requirements(wheel, set(), environment) if one.name == "torch"]
    run(*get, *(["--extra-index-url", index] if index else []), torch)
    wheels, seen = {"infill-ls": wheel, "torch": checked_torch(folder, platform, options)}, set[tuple[str, str]]()
    asked = {("infill-ls", extra) for extra in ("", *EXTRAS)}
    while asked:
        seen |= asked
        needed = [one for name, extra in sorted(asked) for one in requirements(wheels[name], {extra}, environment)]
        missing = {canonicalize_name(one.name): f"{one.name}{one.specifier}" for one in needed}
        missing = {name: words for name, words in missing.items() if name not in wheels}
        if missing:
            run(*get, *missing.values())
        wheels |= {canonicalize_name(file.name.partition("-")[0]): file for file in folder.glob("*.whl")}
        wanted = {(canonicalize_name(one.name), extra) for one in needed for extra in ("", *one.extras)}
        asked = wanted - seen


def checked_torch(folder: Path, platform: Platform, options: argparse.Namespace) -> Path:
    """On Linux the package index has the torch with CUDA, and an index of PyTorch's the small one."""
    [torch] = folder.glob("torch-*.whl")
    is_for_cpu = "+cpu" in torch.name
    if is_for_cpu if options.cuda else platform.system == "Linux" and not is_for_cpu:
        found, wanted = ("without CUDA", "CUDA") if options.cuda else ("with CUDA", "the CPU")
        sys.exit(
            f"pip found {torch.name}, which is {found}: set TORCH_INDEX to a package index that has torch for {wanted} "
            "(pytorch.org names PyTorch's own under Get Started)"
        )
    return torch


def link(file: Path, target: Path) -> None:
    """A link, or a copy where this user may make none."""
    try:
        target.symlink_to(file)
    except OSError:
        shutil.copy(file, target)


def add_model(folder: Path, name: str) -> str:
    """Pulls a model as a user does and links its files into `folder`. Returns its licence; "" for the embedded one."""
    entry = catalogue.find_entry(name)
    if entry is None:
        sys.exit(f"MODEL={name} is no model of the catalogue: see infill-ls models --all")
    if not entry.repo:
        return ""
    run(sys.executable, "-m", "lsp_server.cli", "models", "pull", name)
    found = model_store.require_model(name)
    target = folder / model_store.pull_target(name).folder.name
    target.mkdir(parents=True)
    for file in [found] if found.is_file() else sorted(found.iterdir()):
        if file.name == model_store.RECORD_FILE or model_store.is_wanted_file(file.name):
            link(file.resolve(), target / file.name)
    return entry.licence


def write_licences(folder: Path, wheels: Path, model: str, licence: str) -> None:
    """A table of everything in the bundle, and beside it the texts that the wheels bring."""
    rows = [f"{model}: {licence}"] if licence else []
    for wheel in sorted(wheels.glob("*.whl")):
        about = metadata(wheel)
        terms = about["License-Expression"] or (about["License"] or "").partition("\n")[0]
        terms = terms or "; ".join(
            one.split(" :: ")[-1] for one in about.get_all("Classifier") or [] if "License" in one
        )
        rows.append(f"{about['Name']} {about['Version']}: {terms or 'see its text'}")
        with ZipFile(wheel) as archive:
            for name in archive.namelist():
                inside = name.partition(".dist-info/")[2].removeprefix("licenses/")
                if inside and Path(inside).name.upper().startswith(_LICENCES):
                    flat = inside.replace("/", "-")[-100:]  # Windows allows a path 260 characters
                    target = folder / wheel.name.split("-")[0] / flat
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(archive.read(name))
    folder.mkdir(exist_ok=True)
    (folder / "LICENCES.txt").write_text("\n".join(rows) + "\n", "utf-8")
    shutil.copy(ROOT / "LICENSE", folder / "Apache-2.0.txt")


def write_zip(file: Path, folder: Path) -> None:
    """Wheels and weights are compressed already."""
    with ZipFile(file, "w") as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            info = ZipInfo.from_file(path, path.relative_to(folder.parent).as_posix())
            info.compress_type = ZIP_STORED if path.suffix in _COMPRESSED else ZIP_DEFLATED
            with path.open("rb") as source, archive.open(info, "w") as target:
                shutil.copyfileobj(source, target, 1 << 20)


def installed_bytes(folder: Path) -> int:
    """What the wheels take once they are unpacked, with a tenth for what Python compiles of them."""
    total = 0
    for wheel in folder.glob("wheels/*.whl"):
        with ZipFile(wheel) as archive:
            total += sum(info.file_size for info in archive.infolist())
    return total * 11 // 10


def digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def fill(folder: Path, options: argparse.Namespace) -> None:
    """Makes the bundle's folder."""
    platform, wheels = PLATFORMS[options.platform], folder / "wheels"
    say("infill-ls and its extension")
    run(*PIP, "wheel", "--quiet", "--no-deps", "--wheel-dir", wheels, ROOT)
    [own] = wheels.glob("*.whl")
    shutil.copy(VSIX, folder / f"infill-ls-{VERSION}.vsix")
    skipped = shutil.ignore_patterns("images", "tags", "lspconfig")
    shutil.copytree(ROOT / "editors" / "nvim", folder / "nvim", ignore=skipped)
    say(f"the model {options.model}")  # before the wheels: it is what most often cannot be had
    licence = add_model(folder / "models", options.model)
    say(f"the wheels for {options.platform} and Python {options.python_version}")
    download(wheels, own, platform, options)
    run(*PIP, "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", wheels, "pip")
    write_licences(folder / "licences", wheels, options.model, licence)
    for name in ("install.py", "install.cmd" if platform.system == "Windows" else "install.sh", "README.txt"):
        shutil.copy(HERE / name, folder)
    files = {path.relative_to(folder).as_posix(): digest(path) for path in folder.rglob("*") if path.is_file()}
    about = {
        "name": "infill-ls",
        "version": VERSION,
        "platform": options.platform,
        "python": options.python_version,
        "needs": platform.needs,
        "model": options.model,
        "environment_bytes": installed_bytes(folder),
        "files": files,
    }
    (folder / "bundle.json").write_text(json.dumps(about, indent=1) + "\n", "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--platform", choices=PLATFORMS, default=this_platform())
    parser.add_argument("--python-version", default="{}.{}".format(*sys.version_info))
    parser.add_argument("--model", default="qwen2.5-coder-0.5b", help="a name of the catalogue (default: %(default)s)")
    parser.add_argument("--cuda", action="store_true", help="with a torch for CUDA")
    parser.add_argument("--to", type=Path, default=ROOT / "dist", help="the folder for the file (default: dist)")
    options = parser.parse_args()
    if options.platform not in PLATFORMS:
        parser.error(f"there is no PyTorch for {options.platform}; --platform names another")
    cuda = "-cuda" if options.cuda else ""
    name = f"infill-ls-{VERSION}-{options.platform}{cuda}-python{options.python_version}"
    options.to.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="bundle-", dir=options.to) as scratch:
        folder = Path(scratch, name)
        folder.mkdir()
        fill(folder, options)
        file = options.to / f"{name}.zip"
        write_zip(file, folder)
    say(f"{file} ({file.stat().st_size / 1e6:,.0f} MB, SHA-256 {digest(file)})")
    system = PLATFORMS[options.platform]
    start = "open install.cmd" if system.system == "Windows" else "run sh install.sh"
    say(f"It needs {options.platform}, Python {options.python_version} (PYTHON_VERSION: another) and {system.needs}.")
    say(f"There, unpack it and {start}.")
    if options.platform != this_platform():
        say(f"It was made here and not run: only a machine with {options.platform} can install it.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
