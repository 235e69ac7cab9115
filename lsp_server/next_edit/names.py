"""Resolves the names of a parsed text: their occurrences, roles and scopes. Resolves only the names asked for."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain, islice, pairwise

from tree_sitter import Node

from lsp_server.syntax.language_table import BindingRules
from lsp_server.syntax.parsing import Source
from lsp_server.syntax.view import SyntaxView

_TRANSPARENT_NODES = frozenset({"return_statement", "parenthesized_expression", "statement_block"})
"""The kinds of nodes that may be between an object and the function that returns it."""
_LITERAL = re.compile(r"(?:\w+\.)?(?:Literal|Annotated)\[")
_EXPORTS = re.compile(r"__all__\b")
_MAX_ANCESTORS = 12
MAX_OCCURRENCES = 1000
"""A name that occurs more often is not followed."""
_TYPE_NAME = re.compile(r"(\w+)\s*(?:[\[<].*)?\)?$", re.DOTALL)
_UNPARSED = re.compile(r"(\w+(?:\.\w+)*)\.$")
_MAX_RECEIVER_CHARS = 80
_NO_RULES = BindingRules(names=frozenset(), scopes=frozenset(), binds=frozenset())
_MEMBER_TOKENS = frozenset({"property_identifier", "field_identifier", "private_property_identifier"})
"""Kinds of tokens that are never plain names."""


def object_type_around_key(view: SyntaxView, ancestors: Sequence[Node]) -> str:
    """Returns the declared type of the object around a key, or "". `ancestors` begin with the key's pair."""
    in_list = False
    for node in ancestors[2:]:
        if node.type == "array":
            in_list = True
        elif typed := node.child_by_field_name("type") or node.child_by_field_name("return_type"):
            code = re.sub(r"^:\s*(?:Promise<(?=.*>$))?|>$", "", view.code(typed))
            return code if not in_list else code.removesuffix("[]") if code.endswith("[]") else ""
        elif node.type not in _TRANSPARENT_NODES:
            return ""
    return ""


def is_quoted_name(view: SyntaxView, node: Node, ancestors: Sequence[Node]) -> bool:
    """Whether a string is a name: an annotation, or one of the names that a module exports."""
    if node.type != "string_content" or not view.code(node).isidentifier():
        return False
    for ancestor in islice(ancestors, 1, _MAX_ANCESTORS):
        if ancestor.type == "type" and not any(_LITERAL.match(view.code(node)) for node in ancestors[1:_MAX_ANCESTORS]):
            return True
        if ancestor.type == "assignment":
            return _EXPORTS.match(view.code(ancestor)) is not None
        if ancestor.type not in ("list", "tuple", "binary_operator"):
            return False
    return False


class Role(Enum):
    USE = "use"
    DEFINITION = "definition"
    PARAMETER = "parameter"
    MEMBER = "definition of a member of a class"
    FIELD = "use of a member"
    KEYWORD = "name of an argument"


@dataclass(frozen=True, eq=False)
class Occurrence:
    """One occurrence.

    `ancestors` are the nodes around it, innermost first, and `scopes` the ids of those whose names it sees. `binder` is
    the scope that a definition binds in. `receiver` is the object of a FIELD, and the callee of a KEYWORD. `owner` is
    the class of a MEMBER, and of a FIELD of the object itself. `joint` joins two names if this one means both, as in
    `{name}`.
    """

    start: int
    end: int
    text: str
    role: Role
    node: Node
    ancestors: Sequence[Node]
    scopes: tuple[int, ...]
    binder: Node | None = None
    receiver: str = ""
    owner: str = ""
    joint: str = ""


class NameIndex:
    """The names of one source. Not thread-safe."""

    def __init__(self, view: SyntaxView, rules: BindingRules) -> None:
        self.view = view
        self.rules = rules
        self._cached: dict[str, tuple[Occurrence, ...]] = {}
        self._owners = dict(rules.owners)
        self._fields = dict(rules.fields)
        self._joints = dict(rules.shorthand)
        self._calls = {kind: called for kind, called, _ in rules.calls} | dict.fromkeys(rules.elements, "name")
        self._foreign = {path.rpartition("/")[2] for path in rules.foreign}
        paths = chain(
            *(rules.binds, rules.parameters, rules.passes, rules.outside, rules.members, rules.assigned),
            *(rules.keywords, self._foreign, rules.cases, rules.keys, self._fields, self._joints),
        )
        self._kinds = frozenset(path.partition(".")[0] for path in paths)

    @classmethod
    def from_source(cls, source: Source) -> "NameIndex | None":
        """The names of a source; None if it has no tree, or is no code. Without rules for its language, no names."""
        view = SyntaxView.from_source(source)
        return None if view is None or not view.table.functions else cls(view, view.table.binding or _NO_RULES)

    def occurrences(self, word: str) -> tuple[Occurrence, ...]:
        """Returns the occurrences of a name in code and annotations, in order; none if there are too many."""
        if word not in self._cached:
            matches = re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", self.view.text)
            starts = [match.start() for match in islice(matches, MAX_OCCURRENCES + 1)]
            names = map(self.at_offset, starts if len(starts) <= MAX_OCCURRENCES else [])
            self._cached[word] = self._without_nonlocal_definitions([name for name in names if name is not None])
        return self._cached[word]

    def at_offset(self, offset: int) -> Occurrence | None:
        """Returns the name that starts at `offset`; None if that is no name, or a name without a meaning of its own."""
        view = self.view
        node = view.leaf_at(offset)
        if node is None or view.start(node) != offset:
            return None
        ancestors = view.ancestors(node)[1:]
        is_name = node.type in self.rules.names or (self.rules.quoted and is_quoted_name(view, node, ancestors))
        return self._classify(node, ancestors) if ancestors and is_name else None

    def binding_scope_id(self, name: Occurrence) -> int:
        """The id of the scope that binds a plain name; 0 if the file does not define it."""
        if name.binder is not None:
            return name.binder.id
        binding = self.binding_scope_ids(name.text)
        return next((scope for scope in name.scopes if scope in binding), 0)

    def binding_scope_ids(self, word: str) -> set[int]:
        return {name.binder.id for name in self.occurrences(word) if name.binder is not None}

    def definitions(self, word: str, near: Occurrence) -> list[Occurrence]:
        """The definitions of `word` in the scopes that are visible at `near`."""
        return [name for name in self.occurrences(word) if name.binder is not None and name.binder.id in near.scopes]

    def owners_of(self, word: str) -> set[str]:
        """The classes that define a member of that name."""
        return {name.owner for name in self.occurrences(word) if name.role is Role.MEMBER}

    def resolves_at(self, name: Occurrence, offset: int) -> bool:
        """Whether a name used elsewhere has a meaning at `offset`, too, as far as the file defines it."""
        ancestors = self.view.ancestors(self.view.leaf_at(offset))
        if name.role is not Role.USE:
            owners = self.owners_of(name.text)
            return name.owner not in owners or self.class_around(ancestors) in owners
        visible = self._visible_scope_ids(ancestors[0], ancestors[1:]) if ancestors else ()
        return not self.binding_scope_id(name) or not self.binding_scope_ids(name.text).isdisjoint(visible)

    def field_path(self, child: Node, parent: Node) -> str:
        """Returns `kind.field` of a child, or `kind.` for one without a field; "" if no rule covers it."""
        if parent.type not in self._kinds:
            return ""
        index = next((index for index, node in enumerate(parent.children) if node.id == child.id), 0)
        return f"{parent.type}.{parent.field_name_for_child(index) or ''}"

    def own_class(self, name: Occurrence, receiver: str) -> str:
        """Returns the class around a name if `receiver` there is an instance of it; otherwise ""."""
        is_own = receiver in self.rules.selves or receiver in self._receivers(name.ancestors)
        return self.class_around(name.ancestors) if is_own else ""

    def _classify(self, node: Node, ancestors: Sequence[Node]) -> Occurrence | None:
        rules = self.rules
        view = self.view
        path = self.field_path(node, ancestors[0])
        joint = self._joints.get(node.type) or self._joints.get(path) or ""
        role = Role.USE
        binder = None
        receiver = ""
        owner = ""
        if path in rules.foreign:
            return None
        if len(ancestors) > 1 and f"{ancestors[1].type}/{path}" in rules.foreign:
            role, receiver = Role.KEYWORD, self.callee_of(ancestors)
        elif path in rules.members:
            role, owner = Role.MEMBER, self.class_around(ancestors)
        elif path in rules.keys and (receiver := object_type_around_key(self.view, ancestors)):
            role = Role.KEYWORD
        elif not self._is_path(path, ancestors) and (definition := self._definition_at(node, ancestors)):
            role, binder = definition
            owner = self.class_around(ancestors) if role is Role.MEMBER else ""
        elif path in rules.keywords or (
            len(ancestors) > 1 and self.field_path(ancestors[0], ancestors[1]) in rules.keywords
        ):
            role, receiver = Role.KEYWORD, self.callee_of(ancestors)
        elif path in self._fields and (receiver_node := ancestors[0].child_by_field_name(self._fields[path])):
            receiver = view.code(receiver_node)
            if not rules.typed or receiver != view.code(node):  # otherwise a constructor, whose name is its class's
                role, owner = self._role_of_member(ancestors, receiver)
        elif ancestors[0].type in rules.unparsed and (object_ := self._unparsed_receiver(view.start(node))):
            role, receiver = Role.FIELD, object_
            owner = self.class_around(ancestors) if receiver in rules.selves else ""
        elif (
            (ancestors[0].type in rules.unparsed and self._is_foreign(view.start(node), view.end(node)))
            or node.type in _MEMBER_TOKENS
            or any(ancestor.type in rules.paths for ancestor in ancestors)
        ):
            return None
        scopes = tuple(self._visible_scope_ids(node, ancestors))
        return Occurrence(
            view.start(node),
            view.end(node),
            view.code(node),
            role,
            node,
            ancestors,
            scopes,
            binder,
            receiver,
            owner,
            joint,
        )

    def _without_nonlocal_definitions(self, names: Sequence[Occurrence]) -> tuple[Occurrence, ...]:
        """The names, without the definition role for those that a scope declares to be an outer scope's."""
        outward = {name.scopes[0] for name in names if name.ancestors[0].type in self.rules.outward and name.scopes}
        return tuple(
            replace(name, role=Role.USE, binder=None) if name.binder is not None and name.binder.id in outward else name
            for name in names
        )

    def _definition_at(self, node: Node, ancestors: Sequence[Node]) -> tuple[Role, Node] | None:
        """Returns a definition's role and the scope it binds in; None for any other name."""
        rules = self.rules
        paths = (
            (self.field_path(child, parent), height)
            for height, (child, parent) in enumerate(pairwise((node, *ancestors)))
        )
        path, height = next(((path, height) for path, height in paths if path not in rules.passes), ("", 0))
        parent = ancestors[height]
        is_parameter = path in rules.parameters
        is_constructor = parent.type in rules.typed and parent.child_by_field_name("type") is None
        if is_constructor or not (is_parameter or path in rules.binds):
            return None
        names_scope = parent.type in rules.scopes and not is_parameter and path.endswith((".name", ".declarator"))
        scopes = [node for node in ancestors[height + names_scope :] if node.type in rules.scopes]
        if any(node.type in rules.hoisted for node in ancestors):  # `var`
            scopes = [node for node in scopes if node.type not in self.view.table.blocks] or scopes
        if not scopes:
            return None
        binder = scopes[0]
        if is_parameter:
            return Role.PARAMETER, binder
        holder = ancestors[min(ancestors.index(binder) + 1, len(ancestors) - 1)]
        is_member = binder.type in self._owners or holder.type in self._owners
        return Role.MEMBER if is_member else Role.DEFINITION, binder

    def _visible_scope_ids(self, node: Node, ancestors: Sequence[Node]) -> Iterator[int]:
        """The ids of the scopes visible here, innermost first."""
        skipped = inside = False
        for child, parent in pairwise((node, *ancestors)):
            skipped = skipped or self.field_path(child, parent) in self.rules.outside
            if parent.type not in self.rules.scopes:
                continue
            is_class = parent.type in self._owners and parent.type not in self.view.table.functions
            hidden = inside and is_class and not self.rules.members_in_scope
            if not skipped and not hidden:
                yield parent.id
            skipped, inside = False, True

    def _role_of_member(self, ancestors: Sequence[Node], receiver: str) -> tuple[Role, str]:
        """Returns the role of a name after an object, and its class if the object is the one around it."""
        is_own = receiver in self.rules.selves or receiver in self._receivers(ancestors)
        is_target = len(ancestors) > 1 and self.field_path(ancestors[0], ancestors[1]) in self.rules.assigned
        return Role.MEMBER if is_own and is_target else Role.FIELD, self.class_around(ancestors) if is_own else ""

    def _unparsed_receiver(self, offset: int) -> str:
        """The object before a member at `offset` in code that the grammar does not parse; empty if there is none."""
        match = _UNPARSED.search(self.view.text, max(offset - _MAX_RECEIVER_CHARS, 0), offset)
        return match[1] if match else ""

    def _is_foreign(self, start: int, end: int) -> bool:
        """Whether an unparsed name is a member of something, the end of a path, or a field's name in a literal."""
        prefix = self.view.text[max(start - 2, 0) : start]
        suffix = self.view.text[end : end + 2]
        is_member = prefix[-1:] == "." and prefix != ".."
        return prefix == "::" or is_member or (suffix[:1] == ":" and suffix != "::")

    def _is_path(self, path: str, ancestors: Sequence[Node]) -> bool:
        """Whether a member's name in a pattern is no definition, as in `Kind::Name`."""
        return path in self._fields and not any(ancestor.type in self.rules.paths for ancestor in ancestors)

    def callee_of(self, nodes: Iterable[Node]) -> str:
        """The callee of the first call among the nodes; empty if none is a call."""
        call = next((node for node in nodes if node.type in self._calls), None)
        callee = None if call is None else call.child_by_field_name(self._calls[call.type])
        return "" if callee is None else self.view.code(callee)

    def class_around(self, ancestors: Sequence[Node]) -> str:
        node = next((node for node in ancestors if node.type in self._owners), None)
        name = None if node is None else node.child_by_field_name(self._owners[node.type])
        match = None if name is None else _TYPE_NAME.search(self.view.code(name))
        return match[1] if match else ""

    def _receivers(self, ancestors: Sequence[Node]) -> tuple[str, ...]:
        """A method's name for its own object, in languages where each method declares one."""
        node = next((node for node in ancestors if self._owners.get(node.type) == "receiver"), None)
        receiver = None if node is None else node.child_by_field_name("receiver")
        return () if receiver is None else tuple(re.findall(r"\w+", self.view.code(receiver))[:1])
