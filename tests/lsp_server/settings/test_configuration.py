"""The settings of a document: by its workspace folder, and reread when their file changes."""

import os
from pathlib import Path

import pytest

from lsp_server.settings.configuration import Configuration


def started(*folders: Path, options: object = None, **environment: str) -> Configuration:
    return Configuration({}, environment, options, [folder.as_uri() for folder in folders])


def folder(parent: Path, name: str, settings: str = "") -> Path:
    path = parent / name
    path.mkdir(parents=True)
    if settings:
        (path / "infill-ls.toml").write_text(settings)
    return path


def test_a_document_has_the_settings_of_its_folder(tmp_path: Path) -> None:
    a, b = folder(tmp_path, "a", 'marker = "@a"'), folder(tmp_path, "b", 'marker = "@b"')
    inner = folder(a, "inner", 'marker = "@inner"')
    configuration = started(a, b, inner)
    markers = [configuration.for_uri((path / "m.py").as_uri()).marker for path in (a, b, inner, tmp_path)]
    assert markers == ["@a", "@b", "@inner", "???"]
    assert configuration.for_uri("untitled:Untitled-1").marker == "@a"
    assert configuration.settings_files == [path / "infill-ls.toml" for path in (a, b, inner)]


def test_each_file_above_a_document_counts_and_secrets_add_up(tmp_path: Path) -> None:
    a = folder(tmp_path, "a", 'marker = "@a"\nsecretGlobs = ["x.py"]\n')
    sub = folder(a, "sub", 'marker = "@sub"\nmaxSteps = 3\nsecretGlobs = ["y.py"]\nmodel = "x/y"\n')
    deep = folder(sub, "deep", 'marker = "@deep"\n')
    configuration = started(a)
    assert configuration.refresh([deep / "m.py"])
    assert not configuration.refresh([deep / "m.py"])
    settings = [configuration.at_path(path / "m.py") for path in (a, sub, deep)]
    assert [(one.marker, one.max_steps) for one in settings] == [("@a", None), ("@sub", 3), ("@deep", 3)]
    assert [one.secret_globs for one in settings] == [("x.py",), ("x.py", "y.py"), ("x.py", "y.py")]
    (problem,) = configuration.problems
    assert problem.startswith(f"{sub}/infill-ls.toml: model is ignored")
    (sub / "infill-ls.toml").unlink()
    assert configuration.refresh([deep / "m.py"])
    assert configuration.at_path(deep / "m.py").secret_globs == ("x.py",)


def test_files_above_the_folders_count_as_for_the_commands(tmp_path: Path) -> None:
    """The editor may have opened a part of a repository, or a file alone."""
    repository = folder(tmp_path, "repository", 'secretGlobs = ["x.py"]\n')
    (repository / ".git").mkdir()
    part = folder(repository, "part", 'secretGlobs = ["y.py"]\n')
    folders = (part,), (folder(tmp_path, "elsewhere"),), ()
    for configuration in [*(started(*each) for each in folders), Configuration({}, {}, names=[part / "x.py"])]:
        for name in ("x.py", "y.py"):
            assert "may hold secrets" in str(configuration.unreadable_reason(part / name, "python"))
        assert configuration.unreadable_reason(part / "z.py", "python") is None


def test_files_above_a_repository_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "infill-ls.toml").write_text('marker = "@above"\n')
    repository = folder(tmp_path, "repository", "maxSteps = 3\n")
    (repository / ".git").mkdir()
    configuration = started(folder(repository, "part"))
    configuration.refresh([repository / "part" / "m.py"])
    settings = configuration.at_path(repository / "part" / "m.py")
    assert (settings.marker, settings.max_steps) == ("???", 3)


def test_a_path_that_cannot_be_looked_at_is_no_error(tmp_path: Path) -> None:
    out_of_reach = tmp_path / ("a" * 300) / "m.py"  # as in a folder whose owner lets nobody in, but for root too
    configuration = started(folder(tmp_path, "a"), out_of_reach.parent, INFILL_LS_MARKER="@mine")
    assert configuration.unreadable_reason(out_of_reach, "python") is None
    assert started().unreadable_reason(out_of_reach, "python") is None
    for found in (configuration, Configuration({}, {"INFILL_LS_MARKER": "@mine"}, names=[out_of_reach])):
        assert found.at_path(out_of_reach).marker == "@mine"


def test_a_file_is_judged_under_each_name_by_the_settings_there(tmp_path: Path) -> None:
    a = folder(tmp_path, "a")
    folder(a, "sub", 'secretGlobs = ["hidden.py"]\n')
    (a / "sub" / "hidden.py").write_text("")
    (a / "link.py").symlink_to("sub/hidden.py")
    (a / "linked").symlink_to("sub", target_is_directory=True)
    (tmp_path / "outside").symlink_to(a, target_is_directory=True)
    names = ("a/sub/hidden.py", "a/link.py", "a/linked/hidden.py", "outside/sub/hidden.py", "outside/link.py")
    for root in (a, tmp_path / "outside"):
        for name in names:
            assert "may hold secrets" in str(started(root).unreadable_reason(tmp_path / name, "python")), (root, name)
    assert started(a).unreadable_reason(a / "sub" / "open.py", "python") is None


def test_a_folder_with_a_similar_name_is_another(tmp_path: Path) -> None:
    a = folder(tmp_path, "a", 'marker = "@a"')
    assert started(a).for_uri((folder(tmp_path, "ab") / "m.py").as_uri()).marker == "???"
    assert started(a).for_uri(f"{a.as_uri()}/../ab/m.py").marker == "???"


def test_the_environment_beats_the_file_and_the_file_the_editor(tmp_path: Path) -> None:
    a = folder(tmp_path, "a", "maxSteps = 3\ndebounceMs = 3\n")
    options = {"maxSteps": 1, "debounceMs": 1, "candidates": {"invoked": 1}, "marker": "@1"}
    configuration = started(a, options=options, INFILL_LS_DEBOUNCE_MS="4")
    configuration.set_editor_settings({"maxSteps": 2, "debounceMs": 2, "candidates": {"invoked": 2}})
    settings = configuration.for_uri((a / "m.py").as_uri())
    assert (settings.debounce_ms, settings.max_steps, settings.candidates.invoked, settings.marker) == (4, 3, 2, "@1")


def test_what_the_editor_sends_for_a_folder_holds_there_alone(tmp_path: Path) -> None:
    a, b = folder(tmp_path, "a"), folder(tmp_path, "b")
    configuration = started(a, b)
    configuration.set_editor_settings({"marker": "@@"})
    configuration.set_editor_settings({"marker": "@b"}, b.as_uri())
    assert [configuration.for_uri((path / "m.py").as_uri()).marker for path in (a, b)] == ["@@", "@b"]
    configuration.set_editor_settings(None, b.as_uri())
    assert configuration.for_uri((b / "m.py").as_uri()).marker == "@@"


def test_a_file_is_read_again_when_it_changes_comes_or_goes(tmp_path: Path) -> None:
    a = folder(tmp_path, "a")
    configuration, file = started(a), a / "infill-ls.toml"
    assert not configuration.refresh()
    for text, marker in (('marker = "@1"', "@1"), ('marker = "@long"', "@long"), (None, "???")):
        file.unlink() if text is None else file.write_text(text)
        assert configuration.refresh()
        assert configuration.settings.marker == marker
    assert not configuration.refresh()


def test_folders_come_and_go(tmp_path: Path) -> None:
    a, b = folder(tmp_path, "a", 'marker = "@a"'), folder(tmp_path, "b", 'marker = "@b"\nmodel = "x/y"')
    configuration = started(a)
    assert configuration.problems == []
    configuration.change_folders([b.as_uri()], [a.as_uri()])
    assert [configuration.for_uri((path / "m.py").as_uri()).marker for path in (a, b)] == ["???", "@b"]
    (problem,) = configuration.problems
    assert problem.startswith(str(b / "infill-ls.toml"))


def test_the_readmes_settings_file_is_one(tmp_path: Path) -> None:
    readme = (Path(__file__).parents[3] / "README.md").read_text()
    (text,) = [block for block in readme.split("```") if block.startswith("toml\n# infill-ls.toml")]
    configuration = started(folder(tmp_path, "a", text.removeprefix("toml\n")))
    settings = configuration.settings
    assert (configuration.problems, settings.deadline_ms.automatic) == ([], 4_000)
    assert "vendor/*" in settings.disabled_globs


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("marker = ", "not TOML"),
        ('markr = "@"', "did you mean 'marker'?"),
        pytest.param(f"maxSteps = {'1' * 5_000}", "the whole file is ignored", id="a number without end"),
        ("maxSteps = 0", "maxSteps: Expected"),
        ("maxSteps = 1979-05-27", "maxSteps: Expected"),
        ('model = "x/y"', "model is ignored"),
    ],
)
def test_a_problem_names_the_file(tmp_path: Path, text: str, said: str) -> None:
    (problem,) = started(folder(tmp_path, "a", text)).problems
    assert problem.startswith(f"{tmp_path}/a/infill-ls.toml: ")
    assert said in problem


def test_a_file_full_of_mistakes_is_not_told_in_full(tmp_path: Path) -> None:
    mistakes = "".join(f"mistake_{number}{'x' * 500} = 1\n" for number in range(50))
    problems = started(folder(tmp_path, "a", f"{mistakes}completion = '{'y' * 5_000}'\n")).problems
    assert len(problems) == 11
    assert max(map(len, problems)) <= 400
    assert problems[-1].startswith("41 more")


def test_a_settings_file_may_be_anything_and_is_never_waited_for(tmp_path: Path) -> None:
    pipe, huge, binary = (folder(tmp_path, name) for name in ("pipe", "huge", "binary"))
    os.mkfifo(pipe / "infill-ls.toml")
    (huge / "infill-ls.toml").write_bytes(b"#" * 100_000)
    (binary / "infill-ls.toml").write_bytes(b"\xff\x00")
    problems = started(pipe, huge, binary, folder(tmp_path, "none")).problems
    assert [problem.partition("toml: ")[2] for problem in problems] == [
        "not a regular file; ignored",
        "larger than 65536 bytes; ignored",
        "not UTF-8 (byte 0); ignored",
    ]


def test_a_folder_on_another_machine_has_no_file() -> None:
    folders = ["vscode-remote://host/p", "file://server/share", "nonsense"]
    configuration = Configuration({}, {}, {"marker": "@@"}, folders)
    assert configuration.for_uri("vscode-remote://host/p/a.py").marker == "@@"
    assert configuration.problems == []


@pytest.mark.parametrize(
    ("theirs", "own", "sends"),
    [
        ("", {"model": "https://gpu"}, True),
        ('model = "https://gpu"', {}, False),
        ('model = "https://gpu"', {"model": "https://other"}, False),
        ('model = "https://gpu"', {"model": "https://gpu"}, True),
        ("server = { plainHttp = true }", {"model": "http://gpu"}, False),
        ('server = { tokenizer = "/t" }', {"model": "http://gpu", "server": {"plainHttp": True}}, True),
    ],
)
def test_token_goes_where_the_user_sends_it(tmp_path: Path, theirs: str, own: dict[str, object], sends: bool) -> None:
    """Also where the user trusts the workspace: a token is bound to no server."""
    assert started(folder(tmp_path, "a", theirs), options={**own, "trustWorkspace": True}).sends_token is sends


def test_a_user_who_overrules_a_workspace_sends_the_token(tmp_path: Path) -> None:
    theirs = folder(tmp_path, "a", 'model = "https://gpu"')
    assert started(theirs, options={"trustWorkspace": True}, INFILL_LS_MODEL="https://other").sends_token


@pytest.mark.parametrize(
    ("theirs", "own", "sends"),
    [
        ("", {"partner": {"url": "http://gpu", "plainHttp": True}}, True),
        ('partner = { url = "https://evil" }', {}, False),
        ('partner = { url = "https://evil" }', {"partner": {"url": "https://gpu"}}, False),
        ("partner = { plainHttp = true }", {"partner": {"url": "http://gpu"}}, False),
        ('partner = { model = "other" }', {"partner": {"url": "https://gpu"}}, True),
    ],
)
@pytest.mark.parametrize("model", ["embedded", "partner"])
def test_the_partners_token_goes_only_where_the_user_sends_it(
    tmp_path: Path, theirs: str, own: dict[str, object], sends: bool, model: str
) -> None:
    options = {**own, "model": model, "trustWorkspace": True}
    configuration = started(folder(tmp_path, "a", theirs), options=options)
    assert configuration.sends_partner_token is sends
    if model == "partner":
        assert configuration.sends_token is sends
