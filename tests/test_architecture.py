"""The table in CONTRIBUTING.md, checked: which room imports which, followed through every module in between.

Also what fresh interpreters load, and the rules for tests: nothing mocked, and no reaching into another object. The
graph of imports is grimp's, import-linter's own; it holds imports inside functions too, so a room cannot hide one.
"""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("lsp_server", "inference")


@dataclass(frozen=True)
class Row:
    """One row of the table: a room, and what it may not import, directly or through others."""

    room: str
    banned: tuple[str, ...]


def table() -> list[Row]:
    """The rows of CONTRIBUTING.md's table, top to bottom."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    cells = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| `")]
    return [Row(_module(row[0]), tuple(map(_module, re.findall(r"`[^`]+`", row[2])))) for row in cells]


def _module(cell: str) -> str:
    return cell.strip(" `").removesuffix(".py").replace("/", ".")


ROWS = table()
ROOMS = [row.room for row in ROWS]


def room_of(module: str) -> str | None:
    """The room of the table that a module belongs to: the longest that fits."""
    rooms = [room for room in ROOMS if module == room or module.startswith(f"{room}.")]
    return max(rooms, key=len, default=None)


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    """Every import of both packages, those for annotations alone left out."""
    return grimp.build_graph(*PACKAGES, include_external_packages=True, exclude_type_checking_imports=True)


def is_any_of(module: str, packages: tuple[str, ...]) -> bool:
    """Whether a module is one of `packages` or inside one."""
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def _way(graph: grimp.ImportGraph, room: str, module: str) -> str:
    inside = sorted({room, *graph.find_descendants(room)})
    chains = (graph.find_shortest_chain(importer, module) for importer in inside)
    return " -> ".join(min(filter(None, chains), key=len))


@pytest.mark.parametrize("row", ROWS, ids=ROOMS)
def test_a_room_imports_nothing_that_its_row_bans(graph: grimp.ImportGraph, row: Row) -> None:
    assert row.room in graph.modules
    reached = graph.find_upstream_modules(row.room, as_package=True)
    assert not [_way(graph, row.room, module) for module in sorted(reached) if is_any_of(module, row.banned)]


def test_a_room_imports_only_rooms_of_lower_rows(graph: grimp.ImportGraph) -> None:
    """By the order of the table's rows in each package."""
    for module in sorted(graph.modules):
        here = room_of(module)
        for imported in sorted(graph.find_modules_directly_imported_by(module)) if here else ():
            there = room_of(imported)
            assert there in (None, here) or ROOMS.index(there) > ROOMS.index(here), f"{module} -> {imported}"


def test_no_modules_import_each_other_in_a_circle(graph: grimp.ImportGraph) -> None:
    ours = [module for module in graph.modules if is_any_of(module, PACKAGES)]
    TopologicalSorter({module: graph.find_modules_directly_imported_by(module) for module in ours}).prepare()


def test_every_module_has_a_row(graph: grimp.ImportGraph) -> None:
    ours = {module for module in graph.modules if is_any_of(module, PACKAGES)} - set(PACKAGES)
    assert not [module for module in ours if room_of(module) is None]


@pytest.mark.parametrize("room", ["inference.engine", "inference.remote"])
def test_no_family_is_known_to(room: str) -> None:
    folders = {file.parent.name for file in (ROOT / "inference" / "models").glob("*/__init__.py")} - {"gguf"}
    banned = next(row.banned for row in ROWS if row.room == room)
    assert {f"inference.models.{name}" for name in folders} <= set(banned)


@pytest.mark.parametrize("library", ["mlx", "mlx_vlm"])
def test_mlx_is_imported_in_its_own_folder_alone(graph: grimp.ImportGraph, library: str) -> None:
    importers = graph.find_modules_that_directly_import(library)
    assert importers
    assert not [name for name in importers if not name.startswith("inference.models.mlx.")]


def test_the_roots_hold_entry_points_and_what_both_share() -> None:
    roots = {package: {file.stem for file in (ROOT / package).glob("*.py")} - {"__init__"} for package in PACKAGES}
    assert roots["lsp_server"] <= {"cli", "features", "server"}
    assert roots["inference"] <= {"deadline", "ending", "install_hints", "messages", "terminal", "worker"}


def test_contributing_names_what_both_packages_share(graph: grimp.ImportGraph) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    shared = text.partition("`lsp_server` imports of it only")[2].partition("1. **")[0]
    named = re.findall(r"`(inference/[^`]+)`", shared)
    ours = [module for module in graph.modules if is_any_of(module, ("lsp_server",))]
    used = {name for module in ours for name in graph.find_modules_directly_imported_by(module)}
    packages = {"inference", "inference.models", "inference.remote"}
    assert set(map(_module, named)) == {name for name in used if is_any_of(name, ("inference",))} - packages


def test_what_contributing_names_exists() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    cited = re.findall(r"`((?:lsp_server|inference|tests|editors)/[\w/.-]*)(?::([\w.]+))?`", text)
    assert len(cited) > 40
    for path, name in cited:
        assert (ROOT / path).exists(), path
        for part in name.split(".") if name else ():
            assert re.search(rf"\b(def|class) {part}\b|^{part}\b", (ROOT / path).read_text("utf-8"), re.M), (path, name)


TESTS = sorted((ROOT / "tests").rglob("*.py"))


@pytest.mark.parametrize(
    ("package", "but", "banned"),
    [
        ("lsp_server", ("lsp_server.http.app",), {"torch", "transformers", "tokenizers", "safetensors", "accelerate"}),
        (
            "inference",
            ("inference.bench", "inference.models.mlx", "inference.models.triton_kernels"),
            {"lsprotocol", "pygls", "lsp_server", "tree_sitter"},
        ),
        ("inference.messages", (), {"torch", "transformers", "numpy", "lsprotocol", "lsp_server"}),
        ("inference.models.registry", (), {"torch", "transformers", "mlx", "mlx_vlm"}),
    ],
)
def test_a_fresh_interpreter_loads_none_of(
    graph: grimp.ImportGraph, package: str, but: tuple[str, ...], banned: set[str]
) -> None:
    """By all the modules of a package, but for some: also what other projects import in turn."""
    names = [name for name in sorted(graph.modules) if is_any_of(name, (package,)) and not name.startswith(but or " ")]
    code = f"import sys\nimport {', '.join(names)}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not set(done.stdout.split()) & banned


def test_a_public_class_name_is_used_once() -> None:
    names = Counter(
        node.name
        for package in PACKAGES
        for file in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert not [name for name, count in names.items() if count > 1]


@pytest.mark.parametrize(
    "program", ["editors.bench", "gpu.shapes", "release_check", "replay.__main__", "served.llama", "storm.__main__"]
)
def test_a_program_of_the_tests_finds_what_it_imports(program: str) -> None:
    import_module(f"tests.{program}")


def test_tests_run_the_real_thing() -> None:
    fake = re.compile(r"^\s*(from|import) (unittest|mock|pytest_mock)\b|monkeypatch\.setattr\(", re.MULTILINE)
    assert not [file for file in TESTS if fake.search(file.read_text(encoding="utf-8"))]


STARTING = {"subprocess.run", "subprocess.Popen", "asyncio.create_subprocess_exec"}
ALLOWED_PRIVATE = {"_attn_implementation"}
"""Names of other projects that have no public equivalent: transformers' configurations take their attention so."""

NAMED_TUPLE = {"_replace", "_asdict", "_fields"}
"""Public, for all their underscore."""


def test_no_test_reaches_into_another_object() -> None:
    assert not [f"{file}: {found}" for file in TESTS for found in private_uses(file.read_text("utf-8"))]


def private_uses(code: str) -> list[str]:
    """Where a module uses a private name of an object that is neither `self` nor `cls`, or imports a private name."""
    nodes = ast.walk(ast.parse(code))
    return [ast.unparse(node) for node in nodes if any(map(_is_private, _used_names(node)))]


def _used_names(node: ast.AST) -> Iterator[str]:
    """The names that a node takes from another object or module, written as an attribute, a string or an import."""
    if isinstance(node, ast.Attribute) and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
        yield node.attr
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("getattr", "setattr", "delattr")
    ):
        yield from (str(each.value) for each in node.args[1:2] if isinstance(each, ast.Constant))
    elif isinstance(node, ast.ImportFrom):
        yield from (alias.name for alias in node.names)


def test_no_child_reads_the_editors_pipe() -> None:
    """Its stdin is the editor's pipe. A command's child in the foreground may read the terminal."""
    for file in (ROOT / "lsp_server").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if file.parent.name != "commands" else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) in STARTING:
                assert "stdin" in {word.arg for word in node.keywords}, f"{file}:{node.lineno}"


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in ALLOWED_PRIVATE | NAMED_TUPLE
