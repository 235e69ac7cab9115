"""The parts of other files that the model sees, and the files it must never see."""

from dataclasses import replace
from pathlib import Path

import pytest

from lsp_server.context.file_cache import FileCache, TooLate
from lsp_server.context.gather import Buffer, gather
from lsp_server.settings.resolver import Configuration
from tests.lsp_server.context.conftest import HELPERS, OTHERS, Workspace, readable


def test_most_similar_lines_of_open_files_are_shown(workspace: Workspace) -> None:
    far = "\n".join(f"unrelated_{number} = {number}" for number in range(200))
    other = workspace.buffer("billing.py", f"{far}\n{OTHERS}{far}\n")
    workspace.at("billing.py", "")
    text = workspace.shown("main.py", "def bill(invoice, currency):\n    total = \n", other)["billing.py"]
    assert "parse_invoice" in text
    assert text.count("\n") <= 41
    assert workspace.shown("main.py", "import antigravity\n", other) == {}


def test_same_language_comes_first_then_what_was_used_last(workspace: Workspace) -> None:
    others = [workspace.buffer(name, OTHERS) for name in ("a.txt", "b.py", "c.txt", "d.py")]
    for buffer in others:
        workspace.at(buffer.path.name, "")
    assert list(workspace.shown("main.py", OTHERS, *others)) == ["b.py", "d.py", "a.txt", "c.txt"]


def test_a_workspace_behind_a_link_is_read_like_any_other(workspace: Workspace, tmp_path: Path) -> None:
    workspace.write(helpers="def load(): pass\n", billing=OTHERS)
    (tmp_path / "link").symlink_to(workspace.root, target_is_directory=True)
    linked = Workspace(tmp_path / "link")
    others = linked.buffer("helpers.py", "def load(new): pass\n"), linked.buffer("billing.py", OTHERS)
    shown = linked.shown("main.py", f"import helpers\n{OTHERS}", *others)
    assert shown == {"helpers.py": "def load(new): pass", "billing.py": OTHERS}


def test_what_utf_8_cannot_hold_is_replaced(workspace: Workspace) -> None:
    workspace.write(billing="")
    other = workspace.buffer("billing.py", f"half = '\ud83d'\n{OTHERS}")
    assert workspace.shown("main.py", OTHERS, other)["billing.py"] == f"half = '\ufffd'\n{OTHERS}"


def test_secret_and_switched_off_files_are_never_shown(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "work", disabledGlobs=["gen_*"], secretGlobs=["private/*"])
    workspace.at("sub/infill-ls.toml", 'secretGlobs = ["hidden.py"]\n')
    names = ("gen_a.py", "private/key.py", "secrets.json", "sub/hidden.py", "sub/deep/hidden.py", "link.py", "ok.py")
    for name in names:
        if name != "link.py":
            workspace.at(name, OTHERS)
    (workspace.root / "link.py").symlink_to("sub/hidden.py")
    others = [workspace.buffer(name, OTHERS) for name in names]
    imports = "import gen_a\nimport private.key\nimport sub.hidden\nimport sub.deep.hidden\nimport link\nimport ok\n"
    assert set(workspace.shown("main.py", imports + OTHERS, *others)) == {"ok.py"}


def test_languages_that_are_off_are_not_shown(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, disabledLanguages=["python"])
    workspace.write(ok=OTHERS)
    script = replace(workspace.buffer("script", OTHERS), language_id="python")
    workspace.at("script", "")
    assert workspace.shown("main.ts", OTHERS, workspace.buffer("ok.py", OTHERS), script) == {}


def test_secret_behind_a_link_is_not_shown(tmp_path: Path) -> None:
    hiding, other = Workspace(tmp_path / "hiding"), Workspace(tmp_path / "other")
    hiding.at("infill-ls.toml", 'secretGlobs = ["hidden_*"]\n')
    (hiding.root / "hidden_x.py").symlink_to(other.at("x.py", OTHERS))
    known = Configuration({}, {})
    known.start({}, [hiding.root.as_uri(), other.root.as_uri()])
    assert readable(known).allowed(hiding.root / "hidden_x.py") is None
    assert readable(known).allowed(other.root / "x.py") == (other.root / "x.py").resolve()


def test_no_link_leads_out_of_the_workspace(workspace: Workspace, tmp_path: Path) -> None:
    outside = Workspace(tmp_path / "outside")
    secret = outside.at("secret.py", OTHERS)
    workspace.at("key.pem", OTHERS)
    (workspace.root / "linked.py").symlink_to(secret)
    (workspace.root / "folder").symlink_to(outside.root, target_is_directory=True)
    (workspace.root / "disguised.py").symlink_to("key.pem")
    (workspace.root / "loop.py").symlink_to("loop.py")
    (workspace.root / "detour.py").symlink_to("token")
    (workspace.root / "token").symlink_to("plain.py")
    workspace.write(real="def inside(): pass\n", plain=OTHERS)
    (workspace.root / "alias.py").symlink_to("real.py")
    imports = "import linked, folder.secret, disguised, loop, detour, alias\n"
    imports += "from .. import outside\nfrom ..outside import secret\n"
    others = [workspace.buffer(name, OTHERS) for name in ("linked.py", "folder/secret.py", "disguised.py", "detour.py")]
    assert workspace.shown("main.py", imports + OTHERS, *others) == {"real.py": "def inside(): pass"}


def test_other_folders_with_a_similar_name_are_outside(workspace: Workspace, tmp_path: Path) -> None:
    Workspace(tmp_path / "workshop").write(mod=OTHERS)
    near = Buffer(tmp_path / "workshop" / "mod.py", "python", 1, OTHERS)
    assert workspace.shown("main.py", OTHERS, near) == {}


def test_without_a_workspace_nothing_is_read(workspace: Workspace) -> None:
    workspace.write(helpers=HELPERS)
    query = replace(workspace.query("main.py", "import helpers\n"), readable=readable(Configuration({}, {})))
    assert list(gather(query, FileCache())) == []


def test_nothing_more_is_read_when_nobody_waits(workspace: Workspace) -> None:
    workspace.write(helpers=HELPERS)
    cache = FileCache()
    cache.until = 0.0
    with pytest.raises(TooLate):
        list(gather(workspace.query("main.py", "import helpers\n"), cache))


def test_typing_does_not_change_what_is_shown(workspace: Workspace) -> None:
    """Otherwise the model would reread its prompt on every keystroke."""
    workspace.write(helpers=HELPERS, billing=OTHERS)
    other = workspace.buffer("billing.py", OTHERS)
    texts = [f"from helpers import load\n{OTHERS}x = {'call(arg)'[:length]}" for length in range(9)]
    found = [workspace.shown("main.py", text, other, line=4) for text in texts]
    assert all(shown == found[0] for shown in found)
    assert len(found[0]) == 2
