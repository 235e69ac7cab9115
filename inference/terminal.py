"""Formats text for a terminal, which obeys control characters. Imports nothing of ours."""

import io
import logging
import os
import sys


def printable(text: object) -> str:
    """A text in one line: control characters, line breaks and what reorders text become escapes, such as `\\x1b`."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in str(text))


def printable_lines(text: str) -> str:
    """`printable`, but keeps line breaks."""
    return "\n".join(map(printable, text.split("\n")))


def print_message(message: object, command: str = "infill-ls") -> None:
    """Prints a message of one of the program's commands in one line on stderr."""
    print(f"{command}: {printable(' '.join(str(message).split()))}", file=sys.stderr)


def escape_unencodable_output() -> None:
    """Prints what the terminal's encoding lacks, which may be ASCII, as escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def format_bytes(count_bytes: float) -> str:
    """An amount of memory or data: `418 MB`, `51.2 GB`."""
    return f"{count_bytes / 1e9:.1f} GB" if count_bytes >= 1e9 else f"{count_bytes / 1e6:.0f} MB"


class PrintableLogFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable_lines(super().format(record))


def git_quoted(name: str) -> str:
    """A file's name as git writes it in a diff: if a character is not printable, in quotes, as octal numbers."""
    if name.isprintable() and '"' not in name and "\\" not in name:
        return name
    safe = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}" for byte in os.fsencode(name))
    return f'"{"".join(safe)}"'
