"""Who may import what, asked of fresh interpreters, and a few rules the code keeps to."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EDGE = {"handlers", "lsp", "server", "session"}
"""The rooms of lsp_server that may know LSP types."""


def modules(package: str) -> list[str]:
    """Every module under a folder of the repository, by its dotted name."""
    names = []
    for file in sorted((ROOT / package).rglob("*.py")):
        parts = file.relative_to(ROOT).with_suffix("").parts
        names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


def loaded_by(names: list[str]) -> set[str]:
    """The top-level packages in memory after a fresh interpreter has imported `names`."""
    code = f"import sys\nimport {', '.join(names)}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def imported_by(file: Path) -> set[str]:
    """The modules a file imports, wherever in it."""
    return {name for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) for name in _names(node)}


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def files(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def test_the_server_runs_without_torch() -> None:
    """Neither when it is loaded nor in a function that imports when it is called."""
    heavy = {"torch", "transformers", "tokenizers", "safetensors", "accelerate"}
    assert not loaded_by(modules("lsp_server")) & heavy
    assert not users_of(heavy, files("lsp_server"))


def test_the_worker_and_the_engine_know_nothing_of_the_protocol() -> None:
    names = ["inference.worker", *modules("inference/engine"), *modules("inference/serving")]
    assert not loaded_by(names) & {"lsprotocol", "pygls", "lsp_server", "tree_sitter"}


def test_inference_imports_nothing_of_the_server() -> None:
    assert not users_of({"lsprotocol", "pygls", "lsp_server"}, files("inference"))


def test_the_messages_need_the_standard_library_and_msgspec_alone() -> None:
    imported = {name.partition(".")[0] for name in imported_by(ROOT / "inference/messages.py")}
    assert imported - sys.stdlib_module_names == {"msgspec"}
    assert not loaded_by(["inference.messages"]) & {"torch", "transformers", "numpy", "lsprotocol", "lsp_server"}


def test_lsp_types_stay_at_the_edge() -> None:
    inside = [file for file in files("lsp_server") if not is_edge(file.relative_to(ROOT / "lsp_server"))]
    assert not users_of({"lsprotocol", "pygls"}, inside)


def is_edge(file: Path) -> bool:
    return file.with_suffix("").parts[0] in EDGE


def test_the_server_shares_the_messages_with_the_worker_and_nothing_else() -> None:
    """Commands that run a part of `inference` import it when they run."""
    for file in files("lsp_server"):
        shared = {name for name in imported_by(file) if name.partition(".")[0] == "inference"} - {"inference"}
        assert "commands" in file.parts or all(name.startswith("inference.messages") for name in shared), file


def test_transports_know_bytes_and_nothing_of_what_is_in_them() -> None:
    names = modules("lsp_server/lsp/transports")
    assert not loaded_by(names) & {"lsprotocol", "pygls", "tree_sitter"}
    for_stdio = [name for name in names if not name.endswith(".websocket")]
    assert "websockets" not in loaded_by(for_stdio), "editors that use stdio would start later"


@pytest.mark.parametrize("package", ["syntax", "carve", "fill/fitting"])
def test_carving_and_fitting_are_about_text_alone(package: str) -> None:
    assert not loaded_by(modules(f"lsp_server/{package}")) & {"lsprotocol", "pygls", "asyncio"}


def test_tests_run_the_real_thing() -> None:
    tests = [file for file in files("tests") if file != Path(__file__)]
    assert not users_of({"mock", "pytest_mock", "unittest"}, tests)
    assert not [file for file in tests if "monkeypatch.setattr" in attributes(file)]


def attributes(file: Path) -> set[str]:
    nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    return {ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute)}


def users_of(packages: set[str], among: list[Path]) -> list[Path]:
    """The files that import one of `packages`."""
    return [file for file in among if {name.partition(".")[0] for name in imported_by(file)} & packages]
