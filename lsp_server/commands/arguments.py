"""The arguments that several commands share: the model and its device."""

import argparse
import os
from typing import Any, get_args

from inference.terminal import print_message
from lsp_server.settings.configuration import Configuration
from lsp_server.settings.layers import SETTING_DEFINITIONS
from lsp_server.settings.schema import PARTNER, Dtype, Settings


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the model and its device. A missing argument is None: then the settings decide."""
    parser.add_argument(
        "--model", metavar="MODEL", help="name (see: infill-ls models), folder, URL of a vLLM server, or partner"
    )
    parser.add_argument("--device", metavar="NAME", help="cuda, mps, mlx or cpu (default: the best available)")
    parser.add_argument("--dtype", choices=get_args(Dtype), help="number format of the weights")
    server = parser.add_argument_group("if the model is a server's URL")
    server.add_argument("--server-model", dest="server.model", metavar="NAME", help="the server's name for the model")
    tokenizer = "folder or hub id of its tokenizer"
    server.add_argument("--server-tokenizer", dest="server.tokenizer", metavar="FOLDER", help=tokenizer)
    server.add_argument(
        "--plain-http",
        dest="server.plainHttp",
        action="store_true",
        default=None,
        help="send code to another machine unencrypted",
    )


def add_output_arguments(parser: argparse.ArgumentParser) -> None:
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print one JSON object")
    shape.add_argument("--diff", action="store_true", help="print a unified diff")
    shape.add_argument("--write", action="store_true", help="write the result to the file")


def add_trust_workspace_argument(parser: argparse.ArgumentParser) -> None:
    """Adds --trust-workspace: then the current checkout may set what otherwise only the user may."""
    parser.add_argument(
        "--trust-workspace",
        dest="trustWorkspace",
        action="store_true",
        default=None,
        help="let infill-ls.toml choose the model, the server and the device",
    )


def whole_number(minimum: int, maximum: int, text: str) -> int:
    """An argument that is a whole number within these limits. Raises ArgumentTypeError."""
    if not (text.isdecimal() and len(text) < 20 and minimum <= int(text) <= maximum):
        raise argparse.ArgumentTypeError(f"'{text[:30]}' is not a whole number from {minimum} to {maximum}")
    return int(text)


def settings_from_flags(args: argparse.Namespace) -> dict[str, Any]:
    """The settings from the command line: the arguments whose destination is a setting's name."""
    flags = {name: value for name, value in vars(args).items() if name in SETTING_DEFINITIONS and value is not None}
    if flags.get("model") == PARTNER:
        flags = {name.replace("server.", "partner."): value for name, value in flags.items()}
    return flags


def settings_without_folder(args: argparse.Namespace) -> Settings:
    """The settings of a command without a folder. Says which variables and arguments are unusable."""
    configuration = Configuration(settings_from_flags(args), os.environ)
    for problem in configuration.problems:
        print_message(problem, f"infill-ls {args.command}")
    return configuration.settings
