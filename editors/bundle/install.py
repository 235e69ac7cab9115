"""Installs infill-ls from the bundle that this file is in, without a network, or removes it.

    python3 install.py             install, or update what an earlier bundle installed
    python3 install.py --remove    remove it

Everything goes into one folder, ~/.infill-ls, and nothing else is changed. An older Python must be able to read this
file, so that it can say which one the bundle needs.
"""

import argparse
import errno
import hashlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

WINDOWS = os.name == "nt"
HERE = Path(__file__).resolve().parent
HOME = (Path.home() / ".infill-ls").resolve()  # both plugins look for the server here; may be a link to another disk
ABOUT = "bundle.json"
TRY = "import torch, inference.worker, lsp_server.server"
ODD = set('$`\\"*?[]{}')
"""Characters that pip's launchers or Neovim's runtimepath do not take in a folder's name."""
SYSTEMS = {"linux": "linux", "darwin": "macos", "win32": "windows"}
IS_USED = """if True:
    import asyncio, contextlib, os, psutil, sys

    def running():
        others = [process for process in psutil.process_iter(["cmdline"]) if process.pid != os.getpid()]
        return [one for one in others if any(sys.argv[1] + os.sep in word for word in one.info["cmdline"] or [])]

    with contextlib.suppress(Exception):  # another version's workers end by themselves
        from lsp_server.diagnosis.workers import survey_workers
        found = asyncio.run(survey_workers("the installer")).running
        unused = {worker.status.pid for worker in found if not worker.status.clients}
        for process in [process for process in running() if process.pid in unused]:
            process.terminate()
            process.wait(30)
    sys.exit(3 * bool(running()))
"""
USER_FOLDERS = """if True:
    import platformdirs
    kinds = (platformdirs.user_config_path, platformdirs.user_state_path, platformdirs.user_cache_path,
             platformdirs.user_log_path)
    print("\\n".join({str(kind("infill-ls", appauthor=False)) for kind in kinds}))
"""


class InstallError(Exception):
    """What happened, and what to do."""


def say(text: str) -> None:
    print(text, flush=True)


def size(count_bytes: int) -> str:
    return f"{count_bytes / 1e9:.1f} GB" if count_bytes >= 1e8 else f"{count_bytes / 1e6:.1f} MB"


def bytes_in(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*"))


def read_about(folder: Path) -> dict:
    """What a bundle says of itself, or the installation in a folder; empty if there is none."""
    try:
        about = json.loads((folder / ABOUT).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return about if isinstance(about, dict) and about.get("name") == "infill-ls" else {}


def output_of(*words: object) -> str:
    """The output of a program that no setting of the user leads elsewhere. Raises InstallError with its last words."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}
    environment.update(PIP_CONFIG_FILE=os.devnull, PYTHONUTF8="1")
    command = [str(word) for word in words]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, check=False)
    told = done.stdout.decode("utf-8", "replace").strip()
    if done.returncode:
        raise InstallError("\n".join([f"{command[0]} failed:", *told.splitlines()[-3:]]))
    return told


def program(environment: Path, name: str) -> Path:
    return environment / "Scripts" / f"{name}.exe" if WINDOWS else environment / "bin" / name


class Steps:
    """Says each step before it is done, and how long it took."""

    def __init__(self, count: int) -> None:
        self.count, self.number, self.start = count, 0, time.monotonic()

    def run(self, what: str, work, *arguments: object) -> None:
        self.number += 1
        print(f"{self.number}/{self.count} {what} ... ", end="", flush=True)
        start = time.monotonic()
        result = work(*arguments)
        say(f"{time.monotonic() - start:.0f} s{', ' + result if result else ''}")


def this_platform() -> str:
    return f"{SYSTEMS.get(sys.platform, sys.platform)}-{'amd64' if WINDOWS else os.uname().machine}"


def claim(folder: Path) -> int:
    """Keeps another installer out until what is returned is closed, or this program ends. Some disks cannot do that."""
    busy = f"another installer is at work in {folder}. Wait for it, then try again."
    if WINDOWS:
        try:
            return os.open(str(folder / "installing"), os.O_CREAT | os.O_EXCL | os.O_TEMPORARY)
        except FileExistsError:
            raise InstallError(busy) from None
    import fcntl

    claimed = os.open(str(folder), os.O_RDONLY)
    try:
        fcntl.flock(claimed, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InstallError(busy) from None
    except OSError:
        pass  # a disk without such locks
    return claimed


def use_right_python(wanted: str) -> None:
    """Starts this program again with the Python that the bundle is for, where this is another one."""
    own = "{}.{}".format(*sys.version_info)
    if own == wanted and sys.maxsize > 2**32:
        return
    fits = "import sys; sys.exit('{}.{}'.format(*sys.version_info) != sys.argv[1] or sys.maxsize < 2**32)"
    for words in [["py", f"-{wanted}"], [f"python{wanted}"]]:
        words[0] = shutil.which(words[0]) or ""
        test = [*words, "-I", "-c", fits, wanted]
        if words[0] and not subprocess.run(test, stderr=subprocess.DEVNULL, check=False).returncode:
            sys.exit(subprocess.run([*words, str(HERE / "install.py"), *sys.argv[1:]], check=False).returncode)
    pythons = [one for one in ("3.11", "3.12", "3.13", "3.14") if one == own or shutil.which(f"python{one}")]
    others = [one for one in pythons if one != wanted]
    build = f", or build a bundle for one that is here: make bundle PYTHON_VERSION={others[-1]}" if others else ""
    raise InstallError(
        f"this bundle is for Python {wanted} with 64 bits, this is Python {sys.version.split()[0]}, and there is no "
        f"such python{wanted} on PATH. Install Python {wanted}{build}"
    )


def check_files(files: dict) -> None:
    for name, digest in files.items():
        found = hashlib.sha256()
        try:
            with (HERE / name).open("rb") as file:
                for piece in iter(lambda file=file: file.read(1 << 20), b""):
                    found.update(piece)
        except OSError as error:
            raise InstallError(f"{error.filename}: {error.strerror}. Unpack the bundle again.") from None
        if found.hexdigest() != digest:
            raise InstallError(f"{HERE / name} is damaged. Copy the bundle again, and unpack it again.")
    for path in sorted((HERE / "wheels").glob("*")):
        if f"wheels/{path.name}" not in files:
            raise InstallError(f"{path} is not of this bundle. Unpack the bundle into an empty folder.")


def check_space(folder: Path, needed: int) -> None:
    there = next(one for one in (folder, *folder.parents) if one.exists())
    free = shutil.disk_usage(str(there)).free
    if free < needed:
        raise InstallError(
            f"{folder} needs {size(needed)}, and {size(free)} are free there. Make room, or choose another disk with "
            "--folder FOLDER"
        )


def make_environment(environment: Path) -> None:
    import venv

    venv.EnvBuilder(symlinks=not WINDOWS, with_pip=False).create(str(environment))


def install_packages(environment: Path, needs: str) -> str:
    """With the bundle's own pip: some systems' Python has none. What is used is compiled when it is first used."""
    wheels = HERE / "wheels"
    [pip], [own] = wheels.glob("pip-*.whl"), wheels.glob("infill_ls-*.whl")
    options = ("--quiet", "--no-index", "--no-cache-dir", "--no-compile", "--disable-pip-version-check")
    words = (pip / "pip", "install", *options, "--find-links", wheels, f"{own}[http]")
    try:
        output_of(program(environment, "python"), *words)
    except InstallError as error:
        needs = f"\nThe packages need {needs}." if "No matching distribution" in str(error) else ""
        raise InstallError(f"{error}{needs}") from None
    return f"{len(list(wheels.iterdir())) - 1} packages, {size(bytes_in(environment))}"


def link(source: str, target: str) -> None:
    """The same file under a second name where the disk allows that, otherwise a copy."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy(source, target)


def add_model_and_plugins(environment: Path) -> None:
    """The model where the server finds it; the rest for `switch`, which then needs no more room on the disk."""
    if (HERE / "models").is_dir():
        shutil.copytree(str(HERE / "models"), str(environment / "share" / "infill-ls"), copy_function=link)
    for name in ("nvim", "licences"):
        shutil.copytree(str(HERE / name), str(environment / name))
    for file in HERE.glob("infill-ls-*.vsix"):
        shutil.copy(str(file), str(environment))


def try_once(environment: Path) -> str:
    output_of(program(environment, "python"), "-P", "-c", TRY)
    return output_of(program(environment, "infill-ls"), "--version")


def switch(folder: Path, environment: Path) -> None:
    """Replaces the plugins and this file, and makes `bin/infill-ls`, which editors start, the new environment's."""
    for name in ("nvim", "licences"):
        shutil.rmtree(str(folder / name), ignore_errors=True)
        (environment / name).rename(folder / name)
    for old in folder.glob("infill-ls-*.vsix"):
        old.unlink()
    for file in environment.glob("infill-ls-*.vsix"):
        file.rename(folder / file.name)
    for file in (HERE / "install.py", HERE / "README.txt"):
        shutil.copy(str(file), str(folder))
    new = program(environment, "infill-ls")
    target = folder / "bin" / new.name
    target.parent.mkdir(exist_ok=True)
    shutil.copy(str(new), f"{target}.new")
    shutil.copy(str(HERE / ABOUT), str(folder))
    if WINDOWS and target.exists():  # it may run: then it can be renamed, but not replaced
        target.replace(f"{target}.before-{environment.name}")
    Path(f"{target}.new").replace(target)


def environments(folder: Path) -> list:
    return [path for path in folder.glob("env-*") if path.name[len("env-") :].isdigit()]


def is_used(environment: Path) -> bool:
    """Whether an editor's server runs from it. Workers that no editor uses end first."""
    python = program(environment, "python")
    if not python.exists():
        return False
    command = [str(python), "-I", "-c", IS_USED, str(environment)]
    return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 3  # 1: it was never finished


def remove_earlier(folder: Path, environment: Path) -> None:
    for earlier in environments(folder):
        if earlier != environment and is_used(earlier):
            say(f"An editor still uses {earlier}. Restart your editors; the next update removes it.")
        elif earlier != environment:
            shutil.rmtree(str(earlier), ignore_errors=True)
    for program_before in folder.glob("bin/*.before-*"):
        with suppress(OSError):
            program_before.unlink()


def install(folder: Path) -> None:
    about, ours = read_about(HERE), read_about(folder)
    before = ours if (folder / "bin").is_dir() else {}  # an installer may have been killed
    if not about or not (HERE / "wheels").is_dir():
        raise InstallError(f"{HERE} holds no whole bundle. Unpack the whole bundle, and start the installer there.")
    if HERE in (folder, *folder.parents) or (folder / "wheels").exists():
        raise InstallError(f"{folder} is the unpacked bundle's. Choose an empty folder with --folder FOLDER")
    if about["platform"] != this_platform():
        raise InstallError(
            f"this bundle is for {about['platform']}, and this is {this_platform()}. Take the bundle for that."
        )
    use_right_python(about["python"])
    if not ours and folder.is_dir() and any(folder.iterdir()):
        raise InstallError(f"{folder} holds other files. Choose an empty folder with --folder FOLDER")
    odd = "".join(sorted(set(folder.as_posix()) & ODD))
    if odd and not before:
        raise InstallError(
            f"{folder} has {odd} in its name, so infill-ls would not start from there, or Neovim would not find "
            "its plugin. Choose another folder with --folder FOLDER"
        )
    needed = about["environment_bytes"] + bytes_in(HERE / "models")
    say("infill-ls {version} for {platform}, Python {python}, with the model {model}".format(**about))
    what = f"Updates {before['version']} in" if before else "Installs into"
    say(f"{what} {folder} ({size(needed)}). Nothing else is changed, and no network is used.")
    check_space(folder, needed)
    folder.mkdir(parents=True, exist_ok=True)
    claimed = claim(folder)
    if not before:
        shutil.copy(str(HERE / ABOUT), str(folder))  # from here on the folder is ours
    numbers = [int(path.name[len("env-") :]) for path in environments(folder)]
    environment = folder / f"env-{max(numbers, default=0) + 1}"
    steps = Steps(6)
    try:
        steps.run("checking the bundle's files", check_files, about["files"])
        steps.run("making a Python environment", make_environment, environment)
        steps.run("installing packages", install_packages, environment, about["needs"])
        steps.run("adding the model and the plugins", add_model_and_plugins, environment)
        steps.run("starting it once", try_once, environment)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the rest is short, and half of it would be neither old nor new
        steps.run("putting the server and the plugins in place", switch, folder, environment)
    except BaseException:
        if before:
            shutil.rmtree(str(environment), ignore_errors=True)
        else:
            delete(folder, claimed)
        say(f"\nNot installed. {before['version'] + ' stays as it was.' if before else 'Nothing is left of it.'}")
        raise
    remove_earlier(folder, environment)
    say(f"Installed in {time.monotonic() - steps.start:.0f} s")
    say_how_to_go_on(folder)


def lua(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def typed(path: Path) -> str:
    """A path as a word of a command line."""
    return f'"{path}"' if WINDOWS else shlex.quote(str(path))


def say_how_to_go_on(folder: Path) -> None:
    server = folder / "bin" / program(folder, "infill-ls").name
    entry = (folder / "nvim").as_posix().replace(",", "\\,")
    [vsix] = folder.glob("infill-ls-*.vsix")
    elsewhere = folder != HOME
    options = f"{{ cmd = {{ {lua(server.as_posix())}, 'serve' }} }}" if elsewhere else ""
    words = f" --folder {typed(folder)}" if elsewhere else ""
    say(f"\nVS Code:  code --install-extension {typed(vsix)}")
    say("          or choose that file in Extensions: Install from VSIX...")
    if elsewhere:
        say(f"          and set infill.executable to {server}")
    say(f"Neovim:   add to init.lua: vim.opt.runtimepath:prepend({lua(entry)})")
    say(f"                           require('infill').setup({options})")
    say(f"Others:   the command is {server}, its argument serve")
    say(f"Terminal: {typed(server)} doctor")
    say(f"\n{HERE} is no longer needed. To update, run the installer of a newer bundle. To remove:")
    say(f"  {'py' if WINDOWS else 'python3'} {typed(folder / 'install.py')} --remove{words}")


def delete(folder: Path, claimed: int) -> bool:
    """Deletes what the installer made, last what says so. Returns whether nothing else was in the folder."""
    for path in (*environments(folder), folder / "bin", folder / "nvim", folder / "licences"):
        if path.exists():
            shutil.rmtree(str(path))
    for path in (*folder.glob("infill-ls-*.vsix"), *(folder / name for name in ("install.py", "README.txt", ABOUT))):
        if path.exists():
            path.unlink()
    os.close(claimed)
    if any(folder.iterdir()):
        return False
    folder.rmdir()
    return True


def remove(folder: Path) -> None:
    if (folder / "wheels").exists():
        raise InstallError(f"{folder} is an unpacked bundle, not an installation. Delete it yourself.")
    if not read_about(folder):
        raise InstallError(f"{folder} holds no installation. If it is elsewhere, name the folder with --folder FOLDER")
    claimed, kept = claim(folder), ""
    for environment in environments(folder):
        if is_used(environment):
            raise InstallError("an editor uses infill-ls. Close your editors, then try again.")
        if program(environment, "python").exists():
            try:
                told = output_of(program(environment, "python"), "-P", "-c", USER_FOLDERS)
            except InstallError:
                continue  # it was never finished
            there = {Path(path) for path in told.splitlines() if Path(path).exists()}
            kept = ", ".join(sorted(str(path) for path in there if not there & set(path.parents)))
    before = bytes_in(folder)
    is_empty = delete(folder, claimed)
    freed = before - (0 if is_empty else bytes_in(folder))
    say(f"Removed infill-ls from {folder} ({size(freed)}).{'' if is_empty else ' Your other files there stay.'}")
    say("If you set up VS Code: code --uninstall-extension infill-ls.infill. If Neovim: delete its lines in init.lua.")
    if kept:
        say(f"Your settings, statistics, logs and caches stay: {kept}")


def told(error: Exception, folder: Path) -> str:
    """What a user reads of it: a full disk has many names, in Python's words and in pip's."""
    what = f"{error.filename or folder}: {error.strerror or error}" if isinstance(error, OSError) else str(error)
    is_full = any(f"[Errno {number}]" in str(error) for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
    return what + (". Make room, or choose another disk with --folder FOLDER" if is_full else "")


def main() -> None:
    parser = argparse.ArgumentParser(description="Installs infill-ls from this bundle, without a network.")
    parser.add_argument("--folder", default=str(HOME), help="where to install it (default: %(default)s)")
    parser.add_argument("--remove", action="store_true", help="remove it")
    options = parser.parse_args()
    folder = Path(options.folder).expanduser().resolve()
    try:
        (remove if options.remove else install)(folder)
    except (InstallError, OSError) as error:
        sys.exit(f"infill-ls: {told(error, folder)}")
    except KeyboardInterrupt:
        sys.exit("infill-ls: stopped" + ("; start it again to remove the rest" if options.remove else ""))


if __name__ == "__main__":
    main()
