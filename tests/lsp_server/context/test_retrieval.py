"""The pieces of open files that the model sees, and the files it must never see."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from inference.messages import Snippet, estimate_tokens, fit_snippets
from lsp_server.context.retrieval import (
    MAX_LATE_THREADS,
    ContextGatherer,
    ContextQuery,
    OpenFile,
    select_context,
)
from lsp_server.settings.configuration import Configuration
from lsp_server.syntax.languages import language_id_of_path
from tests.workers import poll

OTHERS = "def parse_invoice(invoice, currency):\n    total = invoice.total\n    return convert(total, currency)\n"
ABOVE = "def bill(invoice, currency):\n"


class Workspace:
    """A folder with files, and queries about documents in it."""

    def __init__(self, root: Path, **settings: object) -> None:
        self.root = root
        root.mkdir(exist_ok=True)
        self.configuration = Configuration({}, {}, settings, [root.as_uri()])

    def at(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def opened(self, name: str, text: str) -> OpenFile:
        """A saved document."""
        self.at(name, text)
        return self.buffer(name, text)

    def query(self, name: str, text: str, *others: OpenFile, line: int = 0, max_tokens: int = 10_000) -> ContextQuery:
        """The document with this text, its cursor in `line`, and what else is open."""
        known = self.configuration
        return ContextQuery(
            self.buffer(name, text),
            line,
            others,
            max_tokens,
            folders=known.roots,
            unreadable_reason=known.unreadable_reason,
        )

    def buffer(self, name: str, text: str) -> OpenFile:
        return OpenFile(self.root / name, language_id_of_path(name), 1, text)

    def shown(self, name: str, text: str, *others: OpenFile, line: int = 0) -> dict[str, str]:
        """The pieces by their paths, of files with one piece each."""
        found = select_context(self.query(name, text, *others, line=line), None).snippets
        assert len({snippet.path for snippet in found}) == len(found)
        return {snippet.path: snippet.text for snippet in found}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "work")


def test_most_similar_lines_of_open_files_come_first(workspace: Workspace) -> None:
    far = "".join(f"unrelated_{number} = {number}\n" for number in range(200))
    other = workspace.opened("billing.py", f"{far}{OTHERS}{far}")
    found = select_context(workspace.query("main.py", f"{ABOVE}    total = \n", other, line=1), None).snippets
    assert "parse_invoice" in found[0].text
    assert found[0].text.count("\n") <= 24
    assert workspace.shown("main.py", "import antigravity\n\n", other, line=1) == {}


@pytest.mark.parametrize("is_far", [False, True])
def test_far_parts_of_the_document_are_shown(workspace: Workspace, is_far: bool) -> None:
    between = "unrelated = 1\n" * 200 * is_far
    here = f"{ABOVE}    total = \n"
    for text in (f"{OTHERS}{between}{here}", f"{here}{between}{OTHERS}"):
        line = text[: text.index("    total = \n")].count("\n")
        found = select_context(workspace.query("main.py", text, line=line, max_tokens=200), None).snippets
        assert bool(found) is is_far, "a model sees near ones anyway"
        assert all(OTHERS in snippet.text and snippet.path == "main.py" for snippet in found[:1])
        assert all(here not in snippet.text for snippet in found)


@pytest.mark.parametrize("unusual", ["\f", "\x85", "\u2028"])
def test_lines_of_the_document_end_as_in_an_editor(workspace: Workspace, unusual: str) -> None:
    between = f"unrelated = 1 # {unusual}\n" * 200
    query = workspace.query("main.py", f"{OTHERS}{between}{ABOVE}    total = \n", line=204, max_tokens=200)
    found = select_context(query, None).snippets
    assert OTHERS in found[0].text


def test_far_parts_that_have_changed_are_not_shown(workspace: Workspace) -> None:
    """After a name is changed throughout the file, the model would copy the old one."""
    rest = "unrelated = 1\n" * 200 + f"{ABOVE}    total = "
    line = (OTHERS + rest).count("\n")
    last = select_context(workspace.query("main.py", f"\ud800{OTHERS}{rest}\n", line=line, max_tokens=200), None)
    assert "convert" in last.snippets[0].text
    typed = workspace.query("main.py", f"\ud800{OTHERS}{rest}1\n", line=line, max_tokens=200)
    assert select_context(typed, last) is last
    renamed = OTHERS.replace("convert", "exchange")
    now = select_context(workspace.query("main.py", f"{renamed}{rest}\n", line=line, max_tokens=200), last)
    assert "exchange" in now.snippets[0].text
    assert not any("convert" in snippet.text for snippet in now.snippets)


def test_far_parts_and_open_files_are_ranked_together(workspace: Workspace) -> None:
    between = "unrelated = 1\n" * 100
    text = f"{OTHERS}{between}{ABOVE}    total = \n"
    unlike, alike = workspace.opened("a.py", "invoice = 1\n" * 30), workspace.opened("b.py", f"{OTHERS}{ABOVE}")
    found = select_context(workspace.query("main.py", text, unlike, alike, line=104, max_tokens=120), None).snippets
    assert [snippet.path for snippet in found][:2] == ["b.py", "main.py"]


def test_words_count_by_their_parts(workspace: Workspace) -> None:
    other = workspace.opened("billing.py", OTHERS)
    assert workspace.shown("main.py", "parseCSV()\n\n", other, line=1) == {"billing.py": OTHERS}


def test_pieces_of_one_file_do_not_overlap(workspace: Workspace) -> None:
    lines = [f"currency_{number} = convert({number})\n" for number in range(100)]
    other = workspace.opened("a.py", "".join(lines))
    found = select_context(workspace.query("main.py", "convert()\n\n", other, line=1), None).snippets
    shown = [line for snippet in found for line in snippet.text.splitlines()]
    assert len(shown) == len(set(shown)) >= 72


def test_same_language_comes_first(workspace: Workspace) -> None:
    others = [workspace.opened(name, OTHERS) for name in ("a.txt", "b.py", "c.txt", "d.py")]
    assert list(workspace.shown("main.py", OTHERS, *others)) == ["b.py", "d.py", "a.txt", "c.txt"]


def test_imported_files_follow_the_open_ones(workspace: Workspace) -> None:
    workspace.at("pkg/billing.py", OTHERS)
    workspace.at("pkg/unrelated.py", OTHERS)
    others = [workspace.opened(name, OTHERS) for name in ("pkg/a.txt", "pkg/b.py")]
    text = f"from .billing import parse_invoice\nimport json\n{OTHERS}"
    assert list(workspace.shown("pkg/main.py", text, *others)) == ["pkg/b.py", "pkg/billing.py", "pkg/a.txt"]
    open_now = workspace.buffer("pkg/billing.py", f"# not saved\n{OTHERS}")
    assert workspace.shown("pkg/main.py", text, open_now)["pkg/billing.py"].startswith("# not saved")


def test_names_without_end_are_not_looked_for(workspace: Workspace) -> None:
    workspace.at("first.py", OTHERS)
    workspace.at("last.py", OTHERS)
    names = ", ".join(f"n{number}" for number in range(50_000))
    text = f"import first\nfrom first import ({names})\nimport last\n{OTHERS}"
    assert list(workspace.shown("main.py", text)) == ["first.py"]


def test_imports_that_may_not_be_read_are_not(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "work", disabledGlobs=["gen_*"])
    (tmp_path / "outside.py").write_text(OTHERS)
    workspace.at("infill-ls.toml", "")
    workspace.at("deep/infill-ls.toml", 'secretGlobs = ["hidden.py"]\n')
    for name in ("gen_code.py", "deep/hidden.py", "deep/seen.py", "site-packages/lib.py"):
        workspace.at(name, OTHERS)
    (workspace.root / "linked.py").symlink_to(tmp_path / "outside.py")
    (workspace.root / "huge.py").write_text(OTHERS * 5_000)
    (workspace.root / "folder.py").mkdir()
    modules = ("gen_code", "deep.hidden", "deep.seen", "linked", "huge", "folder", "nowhere", "...outside")
    text = "".join(f"from {module} import f\n" for module in modules) + "import lib\n" + OTHERS
    assert list(workspace.shown("main.py", text)) == ["deep/seen.py"]


def test_a_workspace_behind_a_link_is_like_any_other(workspace: Workspace, tmp_path: Path) -> None:
    workspace.at("billing.py", "")
    (tmp_path / "link").symlink_to(workspace.root, target_is_directory=True)
    linked = Workspace(tmp_path / "link")
    assert linked.shown("main.py", OTHERS, linked.buffer("billing.py", OTHERS)) == {"billing.py": OTHERS}


def test_what_utf_8_cannot_hold_is_replaced(workspace: Workspace) -> None:
    workspace.at("billing.py", "")
    other = workspace.buffer("billing.py", f"half = '\ud83d'\n{OTHERS}")
    assert workspace.shown("main.py", OTHERS, other)["billing.py"] == f"half = '\ufffd'\n{OTHERS}"


def test_secret_and_switched_off_files_are_never_shown(tmp_path: Path) -> None:
    off = {"disabledGlobs": ["gen_*"], "secretGlobs": ["private/*"], "disabledLanguages": ["ruby"]}
    workspace = Workspace(tmp_path / "work", **off)
    workspace.at("sub/infill-ls.toml", 'secretGlobs = ["hidden.py"]\n')
    names = ("gen_a.py", "private/key.py", "secrets.json", "sub/hidden.py", "sub/deep/hidden.py", "link.py", "ok.py")
    for name in names:
        if name != "link.py":
            workspace.at(name, OTHERS)
    (workspace.root / "link.py").symlink_to("sub/hidden.py")
    others = [workspace.buffer(name, OTHERS) for name in names]
    others.append(replace(workspace.opened("script", OTHERS), language_id="ruby"))
    assert set(workspace.shown("main.py", OTHERS, *others)) == {"ok.py"}


def test_what_becomes_secret_is_no_longer_shown(workspace: Workspace) -> None:
    workspace.at("b.py", OTHERS)
    query = workspace.query("main.py", f"import b\n{OTHERS}", workspace.opened("a.py", OTHERS))
    last = select_context(query, None)
    assert [snippet.path for snippet in last.snippets] == ["a.py", "b.py"]
    assert select_context(query, last) is last
    workspace.at("infill-ls.toml", 'secretGlobs = ["b.py"]\n')
    assert [snippet.path for snippet in select_context(query, last).snippets] == ["a.py"]
    secret = replace(query, unreadable_reason=lambda path, language: "secret")
    assert select_context(secret, last).snippets == ()


def test_secret_behind_a_link_is_not_shown(tmp_path: Path) -> None:
    hiding, other = Workspace(tmp_path / "hiding"), Workspace(tmp_path / "other")
    hiding.at("infill-ls.toml", 'secretGlobs = ["hidden_*"]\n')
    (hiding.root / "hidden_x.py").symlink_to(other.at("x.py", OTHERS))
    known = Configuration({}, {}, {}, [hiding.root.as_uri(), other.root.as_uri()])
    query = replace(other.query("main.py", ""), folders=known.roots, unreadable_reason=known.unreadable_reason)
    assert query.allowed_path(hiding.root / "hidden_x.py") is None
    assert query.allowed_path(other.root / "x.py") == (other.root / "x.py").resolve()


def test_nothing_outside_of_the_workspace_is_shown(workspace: Workspace, tmp_path: Path) -> None:
    outside = Workspace(tmp_path / "workshop")  # whose name begins as that of the workspace
    secret = outside.at("secret.py", OTHERS)
    workspace.at("key.pem", OTHERS)
    (workspace.root / "linked.py").symlink_to(secret)
    (workspace.root / "folder").symlink_to(outside.root, target_is_directory=True)
    (workspace.root / "disguised.py").symlink_to("key.pem")
    (workspace.root / "loop.py").symlink_to("loop.py")
    (workspace.root / "detour.py").symlink_to("token")
    (workspace.root / "token").symlink_to("plain.py")
    workspace.at("plain.py", OTHERS)
    workspace.at("real.py", OTHERS)
    (workspace.root / "alias.py").symlink_to("real.py")
    names = (
        "linked.py",
        "folder/secret.py",
        "disguised.py",
        "loop.py",
        "detour.py",
        "alias.py",
        "../workshop/secret.py",
    )
    others = [workspace.buffer(name, OTHERS) for name in names]
    assert workspace.shown("main.py", OTHERS, *others) == {"real.py": OTHERS}


def test_without_a_workspace_nothing_is_shown(workspace: Workspace) -> None:
    query = workspace.query("main.py", OTHERS, workspace.opened("a.py", OTHERS))
    assert select_context(replace(query, folders=Configuration({}, {}).roots), None).snippets == ()


def test_a_huge_and_a_binary_text_are_passed_over(workspace: Workspace) -> None:
    texts = {
        "huge.py": OTHERS * 3_000,
        "binary.py": f"{OTHERS}\0",
        "wide.py": f"{OTHERS}{'x' * 2_000}\n",
        "a.py": OTHERS,
    }
    others = [workspace.opened(name, text) for name, text in texts.items()]
    assert set(workspace.shown("main.py", OTHERS, *others)) == {"a.py"}


def test_editing_a_region_does_not_change_what_is_shown(workspace: Workspace) -> None:
    """Otherwise the model would read its prompt again at every keystroke."""
    others = [workspace.opened(f"{name}.py", f"{name} = 1\n{OTHERS}" * 20) for name in ("alpha", "beta")]
    above = "def f():\n" * 40
    last = select_context(workspace.query("main.py", f"{above}{ABOVE}x = 1\n", *others, line=41), None)
    for line, typed in ((41, "y = alpha.beta"), (43, "parse_invoice(\nalpha)"), (60, ""), (22, "total")):
        now = select_context(workspace.query("main.py", f"{above}{ABOVE}{typed}\n", *others, line=line), last)
        assert now.snippets is last.snippets
    far = select_context(workspace.query("main.py", f"{above}{ABOVE}x\n", *others, line=10), last)
    assert far is not last
    edited = replace(others[0], version=2, text=OTHERS)
    assert select_context(workspace.query("main.py", ABOVE, edited, others[1], line=41), last) is not last


@pytest.mark.parametrize("budget", [64, 200, 1_000])
def test_the_budget_is_kept_and_filled(workspace: Workspace, budget: int) -> None:
    others: list[OpenFile] = [workspace.opened(f"mod_{number}.py", f"{OTHERS}\n" * 20) for number in range(8)]
    found = select_context(workspace.query("main.py", OTHERS, *others, max_tokens=budget), None).snippets
    used = sum(estimate_tokens(snippet.path) + estimate_tokens(snippet.text) for snippet in found)
    assert budget - 30 <= used <= budget


def test_a_piece_that_does_not_fit_is_cut_after_a_line() -> None:
    snippets = [Snippet("a", "x = 1\n" * 5), Snippet("b", "x = 1\n" * 50), Snippet("c", "x\n")]
    assert list(fit_snippets(snippets, 22)) == [snippets[0], Snippet("b", "x = 1\n" * 5)]
    assert not list(fit_snippets(snippets, 0))


async def test_queries_do_not_pile_up_while_a_drive_hangs(workspace: Workspace) -> None:
    """As a lost network drive does: each query holds the text of every open document."""
    drive_is_back, source = threading.Event(), ContextGatherer()
    query = workspace.query("main.py", OTHERS, workspace.opened("a.py", OTHERS))
    query = replace(query, unreadable_reason=lambda path, language: None if drive_is_back.wait() else "")
    for _ in range(20):
        assert await source.gather(query, 1) == ()
    assert len(source.unfinished) == MAX_LATE_THREADS
    drive_is_back.set()
    assert await poll(lambda: source.gather(query, 60_000), bool) == (Snippet("a.py", OTHERS),)
