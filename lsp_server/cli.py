"""The command `infill-ls`. Imports only the subcommand that runs."""

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

from inference.terminal import escape_unencodable_output, printable

_COMMANDS = {
    "serve": ("lsp_server.commands.serve", "run the language server (what an editor starts)"),
    "fill": ("lsp_server.commands.fill", "fill the holes of a file"),
    "worker": ("lsp_server.commands.worker", "start or stop the resident worker"),
    "status": ("lsp_server.commands.status", "show what the resident workers are doing"),
    "models": ("lsp_server.commands.models", "show which models run here, or download one"),
    "stats": ("lsp_server.commands.stats", "show statistics on your suggestions, or delete them"),
    "doctor": (
        "lsp_server.commands.doctor",
        "check this machine (and optionally a file), and explain how to fix problems",
    ),
    "bench": ("lsp_server.commands.inference_process", "run a benchmark (see `infill-ls bench latency --help`)"),
}
EXIT_FAILED = 1
EXIT_INTERRUPTED = 130
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one subcommand and returns its exit status: 0 done, 1 failed, 2 bad input, 3 nothing found, 130 Ctrl-C."""
    escape_unencodable_output()
    arguments = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    chosen = next((argument for argument in arguments if not argument.startswith("-")), None)
    try:
        args, unknown = _parser(chosen).parse_known_args(arguments)
        if unknown:
            args.usage_error(f"unrecognized arguments: {' '.join(unknown)}")
        status: int = import_module(_COMMANDS[args.command][0]).run(args)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return EXIT_INTERRUPTED
    except OSError as error:
        if error.errno not in _FULL:
            raise
        _drop_output()
        print(f"infill-ls: the output cannot be written: {error.strerror}", file=sys.stderr)
        return EXIT_FAILED
    return status


def _drop_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter reports an error


class _Parser(argparse.ArgumentParser):
    """Prints arguments in its messages without their control characters."""

    def error(self, message: str) -> NoReturn:
        super().error(printable(message))


def _parser(chosen: str | None) -> argparse.ArgumentParser:
    """The parser. It knows only the chosen subcommand's arguments, because only that module is imported."""
    parser = _Parser(prog="infill-ls", description="Fill holes in code with a language model.")
    commit = Path(__file__).with_name("commit.txt")  # hatch_build.py puts it into packages
    built = f"commit {commit.read_text('utf-8').strip()}" if commit.exists() else "checkout"
    version_text = f"infill-ls {version('infill-ls')} ({built}, torch {version('torch')})"
    parser.add_argument("--version", action="version", version=version_text)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (module, help_) in _COMMANDS.items():
        command = commands.add_parser(name, help=help_, description=f"{help_[0].upper()}{help_[1:]}.")
        command.set_defaults(usage_error=command.error)  # with the subcommand's usage, not the whole program's
        if name == chosen:
            import_module(module).add_arguments(command)
    return parser


if __name__ == "__main__":
    sys.exit(main())
