"""Installs infill-ls from the bundle that this file is in, without a network, or removes it.

    python3 install.py             install, or update what an earlier bundle installed
    python3 install.py --remove    remove it

Everything goes into one folder, ~/.infill-ls, and nothing else is changed. Runs with any Python 3.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time

WINDOWS = os.name == "nt"
HERE = os.path.dirname(os.path.abspath(__file__))
HOME = os.path.join(os.path.expanduser("~"), ".infill-ls")  # both plugins look for the server here
ABOUT = "bundle.json"
MODELS = os.path.join("share", "infill-ls")
IS_USED = "import psutil, sys; sys.exit(any(sys.argv[1] in word for p in psutil.process_iter(['pid', 'cmdline']) if p.pid != psutil.Process().pid for word in p.info['cmdline'] or []))"
KEPT = (
    "import platformdirs as p; print('\\n'.join({str(f('infill-ls', appauthor=False)) for f in"
    " (p.user_config_path, p.user_state_path, p.user_cache_path, p.user_log_path)}))"
)


class InstallError(Exception):
    """What happened, and what to do."""


def say(text):
    print(text, flush=True)


def size(count_bytes):
    return "{:.1f} GB".format(count_bytes / 1e9) if count_bytes >= 1e8 else "{:.1f} MB".format(count_bytes / 1e6)


def bytes_in(folder):
    return sum(os.lstat(os.path.join(where, name)).st_size for where, _, names in os.walk(folder) for name in names)


def read_about(folder):
    try:
        with open(os.path.join(folder, ABOUT), encoding="utf-8") as file:
            about = json.load(file)
    except (OSError, ValueError):
        return None
    return about if isinstance(about, dict) and about.get("name") == "infill-ls" else None


def own_environment():
    """Without what would lead pip or Python elsewhere."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}
    kept.pop("VIRTUAL_ENV", None)
    kept["PIP_CONFIG_FILE"] = os.devnull
    return kept


def output_of(*words):
    """The output of a program. Raises InstallError with what it said last."""
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=own_environment(), check=False)
    told = done.stdout.decode("utf-8", "replace").strip()
    if done.returncode:
        raise InstallError("`{} …` failed; it said:\n{}".format(" ".join(words[:4]), told[-2000:]))
    return told


def program(environment, name):
    return os.path.join(environment, *(("Scripts", name + ".exe") if WINDOWS else ("bin", name)))


class Steps:
    """Says each step before it is done, and how long it took."""

    def __init__(self, count):
        self.count, self.number, self.start = count, 0, time.monotonic()

    def run(self, what, work):
        self.number += 1
        print("{}/{} {} … ".format(self.number, self.count, what), end="", flush=True)
        start = time.monotonic()
        result = work()
        say("{:.0f} s{}".format(time.monotonic() - start, ", " + result if isinstance(result, str) else ""))


def use_right_python(about):
    """Starts this program again with the Python that the bundle is for, where this is another one."""
    wanted = about["python"]
    if "{}.{}".format(*sys.version_info[:2]) == wanted and sys.maxsize > 2**32:
        return
    for words in ([["py", "-" + wanted]] if WINDOWS else []) + [["python" + wanted]]:
        found = shutil.which(words[0])
        if found and not subprocess.run([found] + words[1:] + ["-c", ""], stderr=subprocess.DEVNULL, check=False).returncode:
            sys.exit(subprocess.run([found] + words[1:] + [os.path.abspath(__file__)] + sys.argv[1:], check=False).returncode)
    raise InstallError(
        "this bundle is for Python {0} with 64 bits, and this is Python {1}; there is no python{0} on PATH. "
        "Install Python {0}, or take the bundle for your Python.".format(wanted, sys.version.split()[0])
    )


def check_files(about):
    for name, digest in about["files"].items():
        found = hashlib.sha256()
        try:
            with open(os.path.join(HERE, *name.split("/")), "rb") as file:
                for piece in iter(lambda file=file: file.read(1 << 20), b""):
                    found.update(piece)
        except OSError as error:
            raise InstallError("{}: {}. Unpack the bundle again.".format(error.filename, error.strerror))
        if found.hexdigest() != digest:
            raise InstallError("{} is damaged. Unpack the bundle again, or copy it again.".format(os.path.join(HERE, name)))


def check_folder(folder):
    if os.path.isdir(folder) and os.listdir(folder) and not read_about(folder):
        raise InstallError("{} holds other files. Choose an empty folder: --folder FOLDER".format(folder))


def check_space(folder, needed):
    while not os.path.exists(folder):
        folder = os.path.dirname(folder)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise InstallError(
            "it needs {} in {}, where {} are free. Free some, or choose another place: --folder FOLDER".format(
                size(needed), folder, size(free)
            )
        )


def make_environment(environment):
    import venv

    venv.EnvBuilder(symlinks=not WINDOWS, with_pip=False).create(environment)


def install_packages(environment):
    wheels = os.path.join(HERE, "wheels")
    names = sorted(os.listdir(wheels))
    [pip] = [name for name in names if name.startswith("pip-")]
    [own] = [name for name in names if name.startswith("infill_ls-")]
    output_of(
        program(environment, "python"), os.path.join(wheels, pip, "pip"), "install", "--no-index", "--find-links", wheels,
        "--no-cache-dir", "--no-compile", "--disable-pip-version-check", "--no-warn-script-location", os.path.join(wheels, own) + "[http]",
    )
    return "{} packages, {}".format(len(names) - 1, size(bytes_in(environment)))


def link(source, target):
    """The same file under a second name where the disk allows it, otherwise a copy."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy(source, target)


def put_files(folder, environment):
    """The models into the environment, the plugins beside it."""
    if os.path.isdir(os.path.join(HERE, "models")):
        shutil.copytree(os.path.join(HERE, "models"), os.path.join(environment, MODELS), copy_function=link)
    for name in ("nvim", "licences"):
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
        shutil.copytree(os.path.join(HERE, name), os.path.join(folder, name))
    for name in os.listdir(folder):
        if name.endswith(".vsix"):
            os.remove(os.path.join(folder, name))
    for name in os.listdir(HERE):
        if name.endswith((".vsix", ".py", ".txt")):
            shutil.copy(os.path.join(HERE, name), folder)


def switch(folder, environment):
    """Makes `bin/infill-ls` the new environment's: editors start that."""
    new = program(environment, "infill-ls")
    target = os.path.join(folder, "bin", os.path.basename(new))
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copy(new, target + ".new")
    os.replace(target + ".new", target)
    shutil.copy(os.path.join(HERE, ABOUT), folder)


def environments(folder):
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.startswith("env-")]


def is_used(environment):
    python = program(environment, "python")
    return os.path.exists(python) and bool(subprocess.run([python, "-c", IS_USED, environment], check=False).returncode)


def remove_earlier(folder, environment):
    for earlier in environments(folder):
        if earlier != environment:
            if is_used(earlier):
                say("{} is still used. Restart your editors; the next update removes it.".format(earlier))
            else:
                shutil.rmtree(earlier, ignore_errors=True)


def install(folder):
    about = read_about(HERE)
    if about is None:
        raise InstallError("{} is not beside this file: unpack the whole bundle, and start its installer there.".format(ABOUT))
    use_right_python(about)
    before = read_about(folder)
    check_folder(folder)
    model_bytes = bytes_in(os.path.join(HERE, "models"))
    needed = about["environment_bytes"] + model_bytes
    say("infill-ls {version} for {platform}, Python {python}, with the model {model}".format(**about))
    say("{} into {} ({}). Nothing else is changed, and no network is used.".format(
        "Updates {} there".format(before["version"]) if before else "Installs", folder, size(needed)))
    check_space(folder, needed)
    os.makedirs(folder, exist_ok=True)
    taken = [int(name.rpartition("-")[2]) for name in environments(folder)]
    environment = os.path.join(folder, "env-{}".format(max(taken, default=0) + 1))
    if not before:
        shutil.copy(os.path.join(HERE, ABOUT), folder)  # from here on the folder is ours
    steps = Steps(5)
    try:
        steps.run("checking the bundle's files", lambda: check_files(about))
        steps.run("making a Python environment", lambda: make_environment(environment))
        steps.run("installing packages", lambda: install_packages(environment))
        steps.run("putting the model and the plugins there", lambda: put_files(folder, environment))
        steps.run("trying it", lambda: output_of(program(environment, "python"), "-c", "import torch, lsp_server.server, inference.worker"))
        switch(folder, environment)
    except BaseException:
        say("")
        shutil.rmtree(environment if before else folder, ignore_errors=True)
        raise
    remove_earlier(folder, environment)
    say("Installed: {}, in {:.0f} s".format(output_of(program(environment, "infill-ls"), "--version"), time.monotonic() - steps.start))
    say_next(folder, about)


def say_next(folder, about):
    server = program(folder, "infill-ls").replace("Scripts", "bin")
    elsewhere = folder != HOME
    vsix = os.path.join(folder, "infill-ls-{}.vsix".format(about["version"]))
    say("\nVS Code:  code --install-extension \"{}\"".format(vsix))
    if elsewhere:
        say("          and set infill.executable to {}".format(server))
    options = "{{ cmd = {{ '{}', 'serve' }} }}".format(server.replace("\\", "/")) if elsewhere else ""
    say("Neovim:   add to init.lua: vim.opt.runtimepath:prepend('{}')".format(os.path.join(folder, "nvim").replace("\\", "/")))
    say("                           require('infill').setup({})".format(options))
    say("Others:   the command is {} serve".format(server))
    say("\nTo update, run the installer of a newer bundle. To remove it:")
    say("  {} \"{}\" --remove{}".format("py" if WINDOWS else "python3", os.path.join(folder, "install.py"), " --folder \"{}\"".format(folder) if elsewhere else ""))


def remove(folder):
    if read_about(folder) is None:
        raise InstallError("infill-ls is not installed in {}".format(folder))
    kept = []
    for environment in environments(folder):
        if is_used(environment):
            raise InstallError("infill-ls is running. Close your editors, run `{} worker --stop --force`, then try again.".format(program(environment, "infill-ls")))
        if os.path.exists(program(environment, "python")):
            kept = [path for path in output_of(program(environment, "python"), "-c", KEPT).splitlines() if os.path.exists(path)]
    freed = bytes_in(folder)
    shutil.rmtree(folder)
    say("Removed {} ({}).".format(folder, size(freed)))
    say("The extension in VS Code stays: code --uninstall-extension infill-ls.infill")
    if kept:
        say("Your settings, statistics, logs and caches stay: {}".format(", ".join(kept)))


def main():
    parser = argparse.ArgumentParser(description="Installs infill-ls from this bundle, without a network.")
    parser.add_argument("--folder", default=HOME, help="where to install it (default: %(default)s)")
    parser.add_argument("--remove", action="store_true", help="remove it")
    options = parser.parse_args()
    folder = os.path.abspath(os.path.expanduser(options.folder))
    try:
        (remove if options.remove else install)(folder)
    except InstallError as error:
        sys.exit("infill-ls: {}".format(error))
    except OSError as error:
        sys.exit("infill-ls: {}: {}".format(error.filename or folder, error.strerror or error))
    except KeyboardInterrupt:
        sys.exit("infill-ls: stopped; nothing was installed" if not options.remove else "infill-ls: stopped")


if __name__ == "__main__":
    main()
