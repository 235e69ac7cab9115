"""Generates files of 5,000 lines with an unfinished line in the middle."""

from collections.abc import Iterator
from dataclasses import dataclass

from lsp_server.documents.document import ContentChange, Document, Snapshot
from lsp_server.documents.positions import Encoding

_PYTHON = '''
def name_{0}(first, second):
    """Add what is {0}."""
    total = first + {0}
    for value in second:
        if value > total:
            total += value
    return total
'''
_RUST = """
fn name_{0}(first: i32, second: &[i32]) -> i32 {{
    // Add what is {0}.
    let total = first + {0};
    for value in second {{
        if *value > total {{
            total += value;
        }}
    }}
    total
}}
"""
_TYPESCRIPT = """
function name_{0}(first: number, second: number[]): number {{
  // Add what is {0}.
  let total = first + {0}
  for (const value of second) {{
    if (value > total) {{
      total += value
    }}
  }}
  return total
}}
"""
TEMPLATES = {"python": _PYTHON, "rust": _RUST, "typescript": _TYPESCRIPT}
TYPED = " + compute(total, [first, second])"


@dataclass(frozen=True)
class LongFile:
    """A text, and the offset after `first + …` in its middle, where `TYPED` is typed."""

    language_id: str
    text: str
    offset: int


def long_file(language_id: str, lines: int = 5000) -> LongFile:
    template = TEMPLATES[language_id]
    count = max(lines // template.count("\n"), 1)
    text = "".join(template.format(number) for number in range(count))
    sum_ = f"first + {count // 2}"
    return LongFile(language_id, text, text.index(sum_) + len(sum_))


def typing(file: LongFile, typed: str = TYPED) -> Iterator[tuple[Snapshot, int]]:
    document = Document("file:///long", file.language_id, 0, file.text)
    line, start = document.snapshot().lines.position(file.offset, Encoding.UTF16)
    for count, key in enumerate(typed, 1):
        place = line, start + count - 1
        document.apply([ContentChange(place, place, key)], count, Encoding.UTF16)
        yield document.snapshot(), file.offset + count
