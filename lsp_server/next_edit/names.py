"""Resolves names in a parsed text: their occurrences, roles and scopes. Visits only what is asked for."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain, islice, pairwise

from tree_sitter import Node

from lsp_server.syntax.parsing import Source
from lsp_server.syntax.table import BindingRules
from lsp_server.syntax.view import View

_BARE = frozenset({"return_statement", "parenthesized_expression", "statement_block"})
"""Kinds of nodes between an object and the function that returns it."""
_VALUES = re.compile(r"(?:\w+\.)?(?:Literal|Annotated)\[")
_EXPORTS = re.compile(r"__all__\b")
_NEAR = 12
MOST_OCCURRENCES = 1000
"""Do not follow a name that occurs more often."""
_TYPE_NAME = re.compile(r"(\w+)\s*(?:[\[<].*)?\)?$", re.DOTALL)
_UNPARSED = re.compile(r"(\w+(?:\.\w+)*)\.$")
_MOST_RECEIVER = 80
_NO_RULES = BindingRules(names=frozenset(), scopes=frozenset(), binds=frozenset())
_MEMBERS_ALONE = frozenset({"property_identifier", "field_identifier", "private_property_identifier"})
"""Kinds of tokens that are never plain names."""


def type_of_literal(view: View, above: Sequence[Node]) -> str:
    """The declared type of the object around a key; empty if there is none. `above` starts at the key's pair."""
    in_list = False
    for node in above[2:]:
        if node.type == "array":
            in_list = True
        elif typed := node.child_by_field_name("type") or node.child_by_field_name("return_type"):
            code = re.sub(r"^:\s*(?:Promise<(?=.*>$))?|>$", "", view.code(typed))
            return code if not in_list else code.removesuffix("[]") if code.endswith("[]") else ""
        elif node.type not in _BARE:
            return ""
    return ""


def variable_of_literal(view: View, above: Sequence[Node]) -> str:
    """The constant that holds the object around a key; empty if it is no constant. `above` starts at the key's pair."""
    node = next((each for each in above[2:] if each.type not in ("as_expression", "satisfies_expression")), None)
    around = None if node is None or node.type != "variable_declarator" else node.parent
    is_constant = around is not None and bool(around.children) and around.children[0].type == "const"
    named = node.child_by_field_name("name") if node is not None and is_constant else None
    return "" if named is None else view.code(named)


def is_quoted_name(view: View, node: Node, above: Sequence[Node]) -> bool:
    """Whether a string is a name: an annotation, or one of the names that a module exports."""
    if node.type != "string_content" or not view.code(node).isidentifier():
        return False
    for around in islice(above, 1, _NEAR):
        if around.type == "type" and not any(_VALUES.match(view.code(each)) for each in above[1:_NEAR]):
            return True
        if around.type == "assignment":
            return _EXPORTS.match(view.code(around)) is not None
        if around.type not in ("list", "tuple", "binary_operator"):
            return False
    return False


class Role(Enum):
    """The role of one occurrence of a name."""

    USE = "use"
    DEFINITION = "definition"
    PARAMETER = "parameter"
    MEMBER = "definition of a member of a class"
    FIELD = "use of a member"
    KEYWORD = "name of an argument"


@dataclass(frozen=True, eq=False)
class Name:
    """One occurrence.

    `above` holds the nodes around it, innermost first, and `scopes` the ids of those whose names it sees. `binder` is
    the scope that a definition binds in. `receiver` is the object of a FIELD, and the callee of a KEYWORD. `owner` is
    the class of a MEMBER, and of a FIELD of the object itself. `joint` joins two names if this one means both, as in
    `{name}`.
    """

    start: int
    end: int
    text: str
    role: Role
    node: Node
    above: Sequence[Node]
    scopes: tuple[int, ...]
    binder: Node | None = None
    receiver: str = ""
    owner: str = ""
    joint: str = ""


class Names:
    """The names of one source. Not thread-safe."""

    def __init__(self, view: View, rules: BindingRules) -> None:
        self.view = view
        self.rules = rules
        self.crowded = set[str]()
        """The names that occurred too often to be followed."""
        self._known: dict[str, tuple[Name, ...]] = {}
        self._owners = dict(rules.owners)
        self._fields = dict(rules.fields)
        self._joints = dict(rules.shorthand)
        self._calls = {kind: called for kind, called, _ in rules.calls} | dict.fromkeys(rules.elements, "name")
        self._foreign = {place.rpartition("/")[2] for place in rules.foreign}
        places = chain(
            *(rules.binds, rules.parameters, rules.passes, rules.outside, rules.members, rules.assigned),
            *(rules.keywords, self._foreign, rules.cases, rules.keys, self._fields, self._joints),
        )
        self._kinds = frozenset(place.partition(".")[0] for place in places)

    @classmethod
    def of(cls, source: Source) -> "Names | None":
        """The names of a source; None if it has no tree, or is no code. Without rules for its language, no names."""
        view = View.from_source(source)
        return None if view is None or not view.table.functions else cls(view, view.table.binding or _NO_RULES)

    def all(self, word: str) -> tuple[Name, ...]:
        """The occurrences of a name, in order; none if there are too many. Few strings and no comments have any."""
        if word not in self._known:
            found = re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", self.view.text)
            starts = [match.start() for _, match in zip(range(MOST_OCCURRENCES + 1), found, strict=False)]
            if len(starts) > MOST_OCCURRENCES:
                self.crowded.add(word)
                starts = []
            names = map(self.at, starts)
            self._known[word] = self._outward([name for name in names if name is not None])
        return self._known[word]

    def at(self, offset: int) -> Name | None:
        """The name that starts at `offset`; None if that is no name, or a name without a meaning of its own."""
        view = self.view
        node = view.leaf_at(offset)
        if node is None or view.start(node) != offset:
            return None
        above = view.ancestors(node)[1:]
        is_name = node.type in self.rules.names or (self.rules.quoted and is_quoted_name(view, node, above))
        return self._classified(node, above) if above and is_name else None

    def binder_of(self, name: Name) -> int:
        """The id of the scope that binds a plain name; 0 if the file does not define it."""
        return self.scope_of(name.text, name) if name.binder is None else name.binder.id

    def scope_of(self, word: str, at: Name) -> int:
        """The id of the nearest scope around a name that binds a word; 0 if none does."""
        binding = self.binding(word)
        return next((scope for scope in at.scopes if scope in binding), 0)

    def binding(self, word: str) -> set[int]:
        """The ids of the scopes that bind a name."""
        return {name.binder.id for name in self.all(word) if name.binder is not None}

    def definitions(self, word: str, at: Name) -> list[Name]:
        """The definitions of a name in the scopes whose names are visible at another one."""
        return [name for name in self.all(word) if name.binder is not None and name.binder.id in at.scopes]

    def owners_of(self, word: str) -> set[str]:
        """The classes that define a member of that name."""
        return {name.owner for name in self.all(word) if name.role is Role.MEMBER}

    def has_at(self, name: Name, offset: int) -> bool:
        """Whether a name used elsewhere has a meaning at `offset`, too, as far as the file defines it."""
        above = self.view.ancestors(self.view.leaf_at(offset))
        if name.role is not Role.USE:
            owners = self.owners_of(name.text)
            return name.owner not in owners or self.owner(above) in owners
        seen = self._seen(above[0], above[1:]) if above else ()
        return not self.binder_of(name) or not self.binding(name.text).isdisjoint(seen)

    def place(self, child: Node, parent: Node) -> str:
        """`kind.field` of a child, or `kind.` for one without a field; empty if no rule covers such a place."""
        if parent.type not in self._kinds:
            return ""
        number = next((at for at, each in enumerate(parent.children) if each.id == child.id), 0)
        return f"{parent.type}.{parent.field_name_for_child(number) or ''}"

    def itself(self, name: Name, receiver: str) -> str:
        """The class around a name if `receiver` there is an instance of it; otherwise empty."""
        of_itself = receiver in self.rules.selves or receiver in self._receivers(name.above)
        return self.owner(name.above) if of_itself else ""

    def _classified(self, node: Node, above: Sequence[Node]) -> Name | None:
        rules = self.rules
        view = self.view
        place = self.place(node, above[0])
        joint = self._joints.get(node.type) or self._joints.get(place) or ""
        role = Role.USE
        binder = None
        receiver = ""
        owner = ""
        if place in rules.foreign:
            return None
        if len(above) > 1 and f"{above[1].type}/{place}" in rules.foreign:
            role, receiver = Role.KEYWORD, self.called(above)
        elif place in rules.members:
            role, owner = Role.MEMBER, self.owner(above)
        elif place in rules.keys and (receiver := type_of_literal(self.view, above)):
            role = Role.KEYWORD
        elif place in rules.keys and (owner := variable_of_literal(self.view, above)):
            role = Role.MEMBER
        elif not self._is_path(place, above) and (found := self._bound(node, above)):
            role, binder = found
            owner = self.owner(above) if role is Role.MEMBER else ""
        elif place in rules.keywords or (len(above) > 1 and self.place(above[0], above[1]) in rules.keywords):
            role, receiver = Role.KEYWORD, self.called(above)
        elif place in self._fields and (of := above[0].child_by_field_name(self._fields[place])):
            receiver = view.code(of)
            if not rules.typed or receiver != view.code(node):  # otherwise a constructor, whose name is its class's
                role, owner = self._role_of_member(above, receiver)
        elif above[0].type in rules.unparsed and (of_member := self._unparsed_receiver(view.start(node))):
            role, receiver = Role.FIELD, of_member
            owner = self.owner(above) if receiver in rules.selves else ""
        elif (
            (above[0].type in rules.unparsed and self._is_foreign(view.start(node), view.end(node)))
            or node.type in _MEMBERS_ALONE
            or any(each.type in rules.paths for each in above)
        ):
            return None
        scopes = tuple(self._seen(node, above))
        return Name(
            view.start(node), view.end(node), view.code(node), role, node, above, scopes, binder, receiver, owner, joint
        )

    def _outward(self, names: Sequence[Name]) -> tuple[Name, ...]:
        """The names, without the definition role for those that a scope declares to be an outer scope's."""
        outward = {name.scopes[0] for name in names if name.above[0].type in self.rules.outward and name.scopes}
        return tuple(
            replace(name, role=Role.USE, binder=None) if name.binder is not None and name.binder.id in outward else name
            for name in names
        )

    def _bound(self, node: Node, above: Sequence[Node]) -> tuple[Role, Node] | None:
        """A definition's role and the scope it binds in; None for any other name."""
        rules = self.rules
        places = (
            (self.place(child, parent), height) for height, (child, parent) in enumerate(pairwise((node, *above)))
        )
        place, height = next((each for each in places if each[0] not in rules.passes), ("", 0))
        parent = above[height]
        is_parameter = place in rules.parameters
        is_constructor = parent.type in rules.typed and parent.child_by_field_name("type") is None
        if is_constructor or not (is_parameter or place in rules.binds):
            return None
        names_scope = parent.type in rules.scopes and not is_parameter and place.endswith((".name", ".declarator"))
        around = [each for each in above[height + names_scope :] if each.type in rules.scopes]
        if any(each.type in rules.hoisted for each in above):  # `var`
            around = [each for each in around if each.type not in self.view.table.blocks] or around
        if not around:
            return None
        binder = around[0]
        if is_parameter:
            return Role.PARAMETER, binder
        holder = above[min(above.index(binder) + 1, len(above) - 1)]
        is_member = binder.type in self._owners or holder.type in self._owners
        return Role.MEMBER if is_member else Role.DEFINITION, binder

    def _seen(self, node: Node, above: Sequence[Node]) -> Iterator[int]:
        """The ids of the scopes visible here, innermost first."""
        skipped = inside = False
        for child, parent in pairwise((node, *above)):
            skipped = skipped or self.place(child, parent) in self.rules.outside
            if parent.type not in self.rules.scopes:
                continue
            is_class = parent.type in self._owners and parent.type not in self.view.table.functions
            hidden = inside and is_class and not self.rules.members_in_scope
            if not skipped and not hidden:
                yield parent.id
            skipped, inside = False, True

    def _role_of_member(self, above: Sequence[Node], receiver: str) -> tuple[Role, str]:
        """The role of a name behind an object, and its class if the object is the one around it."""
        of_itself = receiver in self.rules.selves or receiver in self._receivers(above)
        is_target = len(above) > 1 and self.place(above[0], above[1]) in self.rules.assigned
        return Role.MEMBER if of_itself and is_target else Role.FIELD, self.owner(above) if of_itself else ""

    def _unparsed_receiver(self, offset: int) -> str:
        """The object before a member at `offset` where the grammar does not tell; empty if there is none."""
        found = _UNPARSED.search(self.view.text, max(offset - _MOST_RECEIVER, 0), offset)
        return found[1] if found else ""

    def _is_foreign(self, start: int, end: int) -> bool:
        """Whether an unparsed name is a member of something, the end of a path, or a field's name in a literal."""
        before = self.view.text[max(start - 2, 0) : start]
        behind = self.view.text[end : end + 2]
        is_member = before[-1:] == "." and before != ".."
        return before == "::" or is_member or (behind[:1] == ":" and behind != "::")

    def _is_path(self, place: str, above: Sequence[Node]) -> bool:
        """Whether a member's name in a pattern is no definition, as in `Kind::Name`."""
        return place in self._fields and not any(each.type in self.rules.paths for each in above)

    def called(self, nodes: Iterable[Node]) -> str:
        """The callee of the first call among the nodes; empty if none is a call."""
        call = next((node for node in nodes if node.type in self._calls), None)
        called = None if call is None else call.child_by_field_name(self._calls[call.type])
        return "" if called is None else self.view.code(called)

    def owner(self, above: Sequence[Node]) -> str:
        """The name of the enclosing class."""
        node = next((each for each in above if each.type in self._owners), None)
        named = None if node is None else node.child_by_field_name(self._owners[node.type])
        found = None if named is None else _TYPE_NAME.search(self.view.code(named))
        return found[1] if found else ""

    def _receivers(self, above: Sequence[Node]) -> tuple[str, ...]:
        """A method's name for its own object, in languages where each method declares one."""
        node = next((each for each in above if self._owners.get(each.type) == "receiver"), None)
        named = None if node is None else node.child_by_field_name("receiver")
        return () if named is None else tuple(re.findall(r"\w+", self.view.code(named))[:1])
