"""Fitting does no harm: code cut from real files comes back unchanged, even if the model writes on."""

import ast
import inspect
import json.decoder
import random
import textwrap
import types

import pytest

from lsp_server import carve
from lsp_server.fill import fitting
from lsp_server.syntax.parsing import Source

MODULES = [json.decoder, random, textwrap, types]


def source_of(module: types.ModuleType) -> str:
    return inspect.getsource(module)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_the_rest_of_a_line_comes_back(module: types.ModuleType) -> None:
    text, rng = source_of(module), random.Random(3)
    lines = text.split("\n")
    for number in rng.sample([n for n, line in enumerate(lines) if len(line.strip()) > 5], 40):
        line = lines[number].rstrip()
        column = rng.randrange(len(line) - len(line.lstrip()), len(line))
        cursor = sum(len(line) + 1 for line in lines[:number]) + column
        rest = line[column:]
        source = Source.parse("python", text[:cursor] + text[cursor + len(rest) :])
        span = carve.at_cursor(source, cursor)
        fill = source.text[span.start : cursor] + rest
        assert fitting.Fitter(source).fit(span, fill) == fill, f"line {number + 1}: {line}"


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_a_body_comes_back_without_what_follows_it(module: types.ModuleType) -> None:
    text = source_of(module)
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    for node in random.Random(3).sample(functions, min(len(functions), 10)):
        first, last = node.body[0], node.body[-1]
        start, end = starts[first.lineno - 1] + first.col_offset, starts[last.end_lineno - 1] + last.end_col_offset
        source = Source.parse("python", text[:start] + text[end:])
        span = carve.at_cursor(source, start)
        if first.lineno == node.lineno or span is None or span.kind != "body":  # `def f(): ...`, or a comment behind it
            continue
        assert fitting.Fitter(source).fit(span, text[start:end] + text[end : end + 300]) == text[start:end], node.name
