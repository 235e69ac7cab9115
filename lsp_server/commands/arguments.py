"""The arguments that several commands share: the model and its device."""

import argparse
import os
from collections.abc import Mapping
from typing import Any, get_args

from lsp_server.settings.environment import environment_layers
from lsp_server.settings.layers import Layer, resolve
from lsp_server.settings.schema import PARTNER, Dtype, Settings

COMMAND_LINE = "command line"
_NAMES = {
    "model": "model",
    "device": "device",
    "dtype": "dtype",
    "trust_workspace": "trustWorkspace",
    "marker": "marker",
}
"""The setting of each argument."""
_SERVER = {"server_model": "model", "server_tokenizer": "tokenizer", "plain_http": "plainHttp"}
"""The settings of the group `server`, or of `partner` if that is the model."""


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """The model and its device. A missing argument is None: then the settings decide."""
    parser.add_argument(
        "--model", metavar="MODEL", help="name (see: infill-ls models), folder, URL of a vLLM server, or partner"
    )
    parser.add_argument("--device", metavar="NAME", help="cuda, mps, mlx or cpu (default: the best)")
    parser.add_argument("--dtype", choices=get_args(Dtype), help="the number format of the weights")
    server = parser.add_argument_group("if the model is a server's URL")
    server.add_argument("--server-model", metavar="NAME", help="the server's name for the model")
    server.add_argument("--server-tokenizer", metavar="FOLDER", help="folder or hub id of its tokenizer")
    server.add_argument(
        "--plain-http", action="store_true", default=None, help="send code to another machine unencrypted"
    )


def add_shape_arguments(parser: argparse.ArgumentParser) -> None:
    """How to return a changed file; the default is its whole text."""
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print one JSON object")
    shape.add_argument("--diff", action="store_true", help="print a unified diff")
    shape.add_argument("--write", action="store_true", help="write the result to the file")


def add_trust_argument(parser: argparse.ArgumentParser) -> None:
    """Whether the current checkout may choose what otherwise only the user may."""
    parser.add_argument(
        "--trust-workspace",
        action="store_true",
        default=None,
        help="let infill-ls.toml choose the model, the server and the device",
    )


def given_settings(args: argparse.Namespace) -> dict[str, Any]:
    """The settings from the command line, under their own names."""
    given = _given(args, _NAMES)
    server = _given(args, _SERVER)
    group = "partner" if given.get("model") == PARTNER else "server"
    return {**given, group: server} if server else given


def _given(args: argparse.Namespace, names: Mapping[str, str]) -> dict[str, Any]:
    values = {setting: getattr(args, name, None) for name, setting in names.items()}
    return {setting: value for setting, value in values.items() if value is not None}


def settings_of(args: argparse.Namespace) -> tuple[Settings, list[str]]:
    """The settings of a command without a folder, and a line for each unusable variable and argument."""
    layers, problems = environment_layers(os.environ)
    settings, others = resolve([*layers, Layer(COMMAND_LINE, given_settings(args))])
    return settings, problems + others
