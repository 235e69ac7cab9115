"""The sources of training text: the interpreter's standard library and locked dependencies, and their licences.

Lists only permissive licences; copyleft packages (hypothesis, pathspec, tqdm: MPL-2.0) and packages that are mostly
tables are left out. The model card prints this table.
"""

import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path


@dataclass(frozen=True)
class SourcePackage:
    """One package. `cap_mb` keeps big packages from setting the style of everything; 10^6 bytes."""

    name: str
    licence: str
    cap_mb: float


STANDARD_LIBRARY = SourcePackage("python-standard-library", "PSF-2.0", 40.0)

SOURCES = (
    STANDARD_LIBRARY,
    SourcePackage("accelerate", "Apache-2.0", 2.0),
    SourcePackage("anyio", "MIT", 2.0),
    SourcePackage("attrs", "MIT", 2.0),
    SourcePackage("cattrs", "MIT", 2.0),
    SourcePackage("click", "BSD-3-Clause", 2.0),
    SourcePackage("filelock", "MIT", 2.0),
    SourcePackage("fsspec", "BSD-3-Clause", 2.0),
    SourcePackage("h11", "MIT", 2.0),
    SourcePackage("httpcore2", "BSD-3-Clause", 2.0),
    SourcePackage("httpx2", "BSD-3-Clause", 2.0),
    SourcePackage("huggingface_hub", "Apache-2.0", 3.0),
    SourcePackage("iniconfig", "MIT", 2.0),
    SourcePackage("Jinja2", "BSD-3-Clause", 2.0),
    SourcePackage("markdown-it-py", "MIT", 2.0),
    SourcePackage("mpmath", "BSD-3-Clause", 1.0),
    SourcePackage("msgspec", "BSD-3-Clause", 2.0),
    SourcePackage("mypy", "MIT", 3.0),
    SourcePackage("networkx", "BSD-3-Clause", 3.0),
    SourcePackage("numpy", "BSD-3-Clause", 3.0),
    SourcePackage("packaging", "Apache-2.0 OR BSD-2-Clause", 2.0),
    SourcePackage("platformdirs", "MIT", 2.0),
    SourcePackage("pluggy", "MIT", 2.0),
    SourcePackage("psutil", "BSD-3-Clause", 2.0),
    SourcePackage("pydantic", "MIT", 3.0),
    SourcePackage("pygls", "Apache-2.0", 2.0),
    SourcePackage("Pygments", "BSD-2-Clause", 1.0),
    SourcePackage("pytest", "MIT", 2.0),
    SourcePackage("pytest-asyncio", "Apache-2.0", 2.0),
    SourcePackage("PyYAML", "MIT", 2.0),
    SourcePackage("rich", "MIT", 2.0),
    SourcePackage("safetensors", "Apache-2.0", 2.0),
    SourcePackage("shellingham", "ISC", 1.0),
    SourcePackage("sortedcontainers", "Apache-2.0", 1.0),
    SourcePackage("sympy", "BSD-3-Clause", 4.0),
    SourcePackage("tokenizers", "Apache-2.0", 1.0),
    SourcePackage("torch", "BSD-3-Clause", 8.0),
    SourcePackage("transformers", "Apache-2.0", 6.0),
    SourcePackage("truststore", "MIT", 1.0),
    SourcePackage("typer", "MIT", 2.0),
    SourcePackage("typing_extensions", "PSF-2.0", 1.0),
    SourcePackage("typing-inspection", "MIT", 1.0),
)


def files_of(source: SourcePackage) -> Iterator[tuple[str, Path]]:
    """The Python files of an installed source as (name within it, path); none if it is not installed."""
    if source.name == STANDARD_LIBRARY.name:
        root = Path(sysconfig.get_paths()["stdlib"])
        found = (path for path in root.rglob("*.py") if "site-packages" not in path.parts)
        yield from ((path.relative_to(root).as_posix(), path) for path in found)
        return
    try:
        files = distribution(source.name).files or []
    except PackageNotFoundError:
        return
    yield from ((file.as_posix(), Path(str(file.locate()))) for file in files if file.suffix == ".py")
