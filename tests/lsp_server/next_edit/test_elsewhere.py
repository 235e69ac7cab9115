"""What a change, «old→new», in one document offers, ⟦old→new⟧, in another open one, and that nothing else is."""

import pytest

from lsp_server.next_edit.elsewhere import ChangedDocument
from lsp_server.next_edit.finder import next_edits
from lsp_server.syntax.parsing import Source
from tests.lsp_server.next_edit.drawing import drawn, read

STORE = "def «load→read»(path):\n    return path\n"
BOX = "class Box:\n    def «open_it→open_box»(self):\n        pass\n"
MODULE = "export function «load→read»(path: string): string {\n  return path;\n}\n"
PACKAGE = "package p\n\ntype Box struct {\n\t«Size→Width» int\n}\n"
HELPER = "package p;\n\npublic class Helper {\n    public static int «sum→add»(int a) {\n        return a;\n    }\n}\n"
CASES = {
    "an imported function": (STORE, "store.py", "from app.store import ⟦load→read⟧, x\n\nprint(⟦load→read⟧(1), x)\n"),
    "imported relatively": (STORE, "store.py", "from .store import ⟦load→read⟧\n⟦load→read⟧(1)\n"),
    "under another name": (STORE, "store.py", "from .store import ⟦load→read⟧ as get\nget(1)\n"),
    "through its module": (STORE, "store.py", "from app import store\nimport json\nstore.⟦load→read⟧(json.load(1))\n"),
    "from another module": (STORE, "store.py", "from json import load\nfrom .store import x\nload(1)\n"),
    "not imported": (STORE, "store.py", "load(1)\n"),
    "hidden by a parameter": (
        STORE,
        "store.py",
        "from .store import ⟦load→read⟧\ndef f(load):\n    return load(1)\n",
    ),
    "defined here, too": (STORE, "store.py", "from .store import x\ndef load(y): ...\nload(1)\n"),
    "the new name is taken here": (STORE, "store.py", "from .store import ⟦load→read⟧\nread = 1\nload(1)\n"),
    "a method": (BOX, "store.py", "from .store import Box\nbox = Box()\nbox.⟦open_it→open_box⟧()\n"),
    "a method of another class": (
        BOX,
        "store.py",
        "from .store import x\nclass Mine:\n    def open_it(self): ...\nx.open_it()\n",
    ),
    "a parameter that is gone": (
        "def load(path«, mode→»):\n    return path\n",
        "store.py",
        "from .store import load\nload(1⟦, 2→⟧)\nload(3⟦, mode=4→⟧)\n",
    ),
    "a function that is async now": (
        "«→async »def load(path):\n    return path\n",
        "store.py",
        "from .store import load\nasync def f():\n    return ⟦→await ⟧load(1)\n",
    ),
    "TypeScript": (
        MODULE,
        "store.ts",
        "import { ⟦load→read⟧ } from './store';\n\nexport const f = () => ⟦load→read⟧('x');\n",
    ),
    "TypeScript, another file": (MODULE, "store.ts", "import { load } from './other';\n\nload('x');\n"),
    "Go, one package": (
        PACKAGE,
        "store.go",
        "package p\n\nfunc f(b *Box) int {\n\treturn Box{⟦Size→Width⟧: 1}.Size + b.⟦Size→Width⟧\n}\n",
    ),
    "Java, one package": (
        HELPER,
        "Helper.java",
        "package p;\n\nclass Main {\n    int x = Helper.⟦sum→add⟧(1) + sum(2);\n}\n",
    ),
    "Rust": (
        "pub fn «load→read»(path: &str) -> u32 {\n    1\n}\n",
        "store.rs",
        'use crate::store::⟦load→read⟧;\n\nfn f() -> u32 {\n    ⟦load→read⟧("x")\n}\n',
    ),
    "a change that breaks the parse": ("def «load→read»(path:\n", "store.py", "from .store import load\nload(1)\n"),
}
LANGUAGES = {"py": "python", "ts": "typescript", "go": "go", "java": "java", "rs": "rust"}


@pytest.mark.parametrize(("changed", "name", "drawing"), CASES.values(), ids=CASES)
def test_what_is_offered_in_another_document(changed: str, name: str, drawing: str) -> None:
    language_id = LANGUAGES[name.rpartition(".")[2]]
    before, after, _ = read(changed)
    text, _, _ = read(drawing)
    other = ChangedDocument(f"file:///p/app/{name}", language_id, after, [before])
    now = Source.parse(language_id, text, f"file:///p/app/main.{name.rpartition('.')[2]}")
    offered = [(edit.start, edit.end, edit.text) for edit in next_edits(now, [], [other])]
    assert drawn(text, [], sorted(offered)) == drawing
