"""A corpus from wheels: permissive packages, some held out whole, and no repeats of held-out files."""

import json
import zipfile
from pathlib import Path

from inference.bench import make_data_held_out
from inference.training import corpus, wheels

_HELD_OUT = next(name for name in (f"project{number}" for number in range(1000)) if wheels.is_held_out_package(name))
_TRAINED = next(name for name in (f"project{number}" for number in range(1000)) if not wheels.is_held_out_package(name))


def _text(word: str, functions: int = 12) -> str:
    """A file of functions of which no other word's file has a line."""
    parts = [
        f"def {word}_{number}(first, second):\n    {word} = first + {number}\n    return {word} * second\n"
        for number in range(functions)
    ]
    return "\n".join(parts)


def _wheel(folder: Path, name: str, licence: str, **files: str) -> None:
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        about = f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.0\nLicense-Expression: {licence}\n"
        archive.writestr(f"{name}-1.0.dist-info/METADATA", about)
        for module, text in files.items():
            archive.writestr(f"{name}/{module}.py", text)


def _corpus(folder: Path) -> dict[str, bool]:
    """Each file's name within its wheel, and whether it is held out; of installed packages there are none."""
    files = wheels.collect([wheels.read(file) for file in sorted(folder.glob("*.whl"))], installed=())
    return {file.name: file.held_out for file in files}


def test_a_package_is_held_out_whole(tmp_path: Path) -> None:
    _wheel(tmp_path, _HELD_OUT, "MIT", **{f"part{n}": _text(f"hidden{n}") for n in range(8)})
    assert _corpus(tmp_path) == {f"{_HELD_OUT}/part{n}.py": True for n in range(8)}


def test_a_file_that_repeats_what_is_held_out_is_not_trained_on(tmp_path: Path) -> None:
    _wheel(tmp_path, _HELD_OUT, "MIT", original=_text("hidden"))
    copied = "\n".join([_text("fresh", 20), _text("hidden", 4)])
    _wheel(tmp_path, _TRAINED, "MIT", copy=copied, alone=_text("fresh2"))
    found = _corpus(tmp_path)
    assert found[f"{_HELD_OUT}/original.py"] is True
    assert f"{_TRAINED}/copy.py" not in found
    assert f"{_TRAINED}/alone.py" in found


def test_only_permissive_licences_come_in() -> None:
    stated = ["MIT", "BSD-3-Clause", "Apache-2.0", "MIT OR GPL-2.0", "LGPL-3.0", "MPL-2.0", "", "Proprietary"]
    assert [wheels.Wheel("a", "1", licence, Path()).is_permissive for licence in stated] == [True] * 3 + [False] * 5


def test_run_folder_gets_corpus_and_sources(tmp_path: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    _wheel(tmp_path / "wheels", _HELD_OUT, "MIT", original=_text("hidden"))
    _wheel(tmp_path / "wheels", _TRAINED, "MIT", module=_text("known"))
    _wheel(tmp_path / "wheels", "copyleft", "GPL-3.0-or-later", module=_text("copyleft"))
    assert wheels.main([str(tmp_path / "wheels"), str(tmp_path / "run"), "--only-wheels"]) == 0
    table = {row["name"]: row for row in json.loads((tmp_path / "run/sources.json").read_text())}
    assert table[_HELD_OUT]["licence"] == "MIT"
    assert table[_HELD_OUT]["held_out"]
    assert "copyleft" not in table
    files = corpus.load(tmp_path / "run/corpus.msgpack", 0.0, ())
    assert {file.name: file.held_out for file in files}[f"{_HELD_OUT}/original.py"]
    arguments = [str(tmp_path / "run/corpus.msgpack"), str(tmp_path / "out"), "--packages"]
    assert make_data_held_out.main([*arguments, "--tuning", _TRAINED]) == 2
    assert not (tmp_path / "out").exists()
    capsys.readouterr()
    assert make_data_held_out.main([*arguments, "--tuning", _HELD_OUT]) == 0
    assert _HELD_OUT in json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [file.relative_to(tmp_path / "out").as_posix() for file in (tmp_path / "out").rglob("original.py")] == [
        f"tuning/{_HELD_OUT}/original.py"
    ]


def test_no_wheels_is_an_error(tmp_path: Path) -> None:
    assert wheels.main([str(tmp_path), str(tmp_path / "run")]) == 2
