"""How much of a text still stands: one minus the edit distance as a share of the longer text."""

_MOST_CHARACTERS = 20_000
"""Of each text: what is longer is cut, for the time grows with the product of both."""


def similarity(taken: str, stands: str) -> float:
    """1: the same but for white space at the ends; 0: nothing in common."""
    one, other = taken.strip()[:_MOST_CHARACTERS], stands.strip()[:_MOST_CHARACTERS]
    longest = max(len(one), len(other))
    return 1.0 if longest == 0 or one == other else 1.0 - _distance(one, other) / longest


def _distance(one: str, other: str) -> int:
    """The Levenshtein distance by Myers' bit vectors (1999), each column of the table being one whole number."""
    if not one:
        return len(other)
    places: dict[str, int] = {}
    for row, character in enumerate(one):
        places[character] = places.get(character, 0) | 1 << row
    every, last = (1 << len(one)) - 1, 1 << (len(one) - 1)
    more, less, distance = every, 0, len(one)
    for character in other:
        same = places.get(character, 0)
        diagonal = (((same & more) + more) ^ more) | same
        right_more, right_less = less | (every & ~(diagonal | more)), more & diagonal
        distance += bool(right_more & last) - bool(right_less & last)
        right_more, right_less = (right_more << 1 | 1) & every, (right_less << 1) & every
        more, less = right_less | (every & ~(same | less | right_more)), right_more & (same | less)
    return distance
