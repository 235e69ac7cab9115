"""Where training text comes from: the interpreter's standard library and locked dependencies, and their licences.

Only permissive licences stand here; copyleft packages (hypothesis, pathspec, tqdm: MPL-2.0) and packages that are
mostly tables are left out. The model card prints this table.
"""

import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path


@dataclass(frozen=True)
class Source:
    """One package. `cap_mb` keeps big packages from setting the style of everything; 10^6 bytes."""

    name: str
    licence: str
    cap_mb: float


STANDARD_LIBRARY = Source("python-standard-library", "PSF-2.0", 40.0)

SOURCES = (
    STANDARD_LIBRARY,
    Source("accelerate", "Apache-2.0", 2.0),
    Source("anyio", "MIT", 2.0),
    Source("attrs", "MIT", 2.0),
    Source("cattrs", "MIT", 2.0),
    Source("click", "BSD-3-Clause", 2.0),
    Source("filelock", "MIT", 2.0),
    Source("fsspec", "BSD-3-Clause", 2.0),
    Source("h11", "MIT", 2.0),
    Source("httpcore2", "BSD-3-Clause", 2.0),
    Source("httpx2", "BSD-3-Clause", 2.0),
    Source("huggingface_hub", "Apache-2.0", 3.0),
    Source("iniconfig", "MIT", 2.0),
    Source("Jinja2", "BSD-3-Clause", 2.0),
    Source("markdown-it-py", "MIT", 2.0),
    Source("mpmath", "BSD-3-Clause", 1.0),
    Source("msgspec", "BSD-3-Clause", 2.0),
    Source("mypy", "MIT", 3.0),
    Source("networkx", "BSD-3-Clause", 3.0),
    Source("numpy", "BSD-3-Clause", 3.0),
    Source("packaging", "Apache-2.0 OR BSD-2-Clause", 2.0),
    Source("platformdirs", "MIT", 2.0),
    Source("pluggy", "MIT", 2.0),
    Source("psutil", "BSD-3-Clause", 2.0),
    Source("pydantic", "MIT", 3.0),
    Source("pygls", "Apache-2.0", 2.0),
    Source("Pygments", "BSD-2-Clause", 1.0),
    Source("pytest", "MIT", 2.0),
    Source("pytest-asyncio", "Apache-2.0", 2.0),
    Source("PyYAML", "MIT", 2.0),
    Source("rich", "MIT", 2.0),
    Source("safetensors", "Apache-2.0", 2.0),
    Source("shellingham", "ISC", 1.0),
    Source("sortedcontainers", "Apache-2.0", 1.0),
    Source("sympy", "BSD-3-Clause", 4.0),
    Source("tokenizers", "Apache-2.0", 1.0),
    Source("torch", "BSD-3-Clause", 8.0),
    Source("transformers", "Apache-2.0", 6.0),
    Source("truststore", "MIT", 1.0),
    Source("typer", "MIT", 2.0),
    Source("typing_extensions", "PSF-2.0", 1.0),
    Source("typing-inspection", "MIT", 1.0),
)


def files_of(source: Source) -> Iterator[tuple[str, Path]]:
    """The Python files of an installed source as (name within it, path); none where it is not installed."""
    if source == STANDARD_LIBRARY:
        root = Path(sysconfig.get_paths()["stdlib"])
        found = (path for path in root.rglob("*.py") if "site-packages" not in path.parts)
        yield from ((path.relative_to(root).as_posix(), path) for path in found)
        return
    try:
        files = distribution(source.name).files or []
    except PackageNotFoundError:
        return
    yield from ((file.as_posix(), Path(str(file.locate()))) for file in files if file.suffix == ".py")
