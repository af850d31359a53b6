"""A few fields of many objects at once: paths compiled into one decoder that skips everything else.

One pass over an object costs about as much as reading its head, whatever the number of fields, so all checks of a resource
share one pass; `read_head` puts the head into the same pass, where a field then costs about 0.1 µs. The answer here is only
"all fine" or "look closer": what exactly is wrong is found by the exact, slow way (`find`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec
from attrs import define, field, frozen
from msgspec import Raw

from informer._meta import Head, read_head
from informer._wire import DECODE_ERRORS

# None stands for `[*]`: every item of a list, or every value of a map.
Steps: TypeAlias = tuple[str | None, ...]
Judge: TypeAlias = Callable[[bytes], str | None]

_REMEMBERED = 256
_SHORT = 64
_ABSENT = Raw(b"")

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_elements = msgspec.json.Decoder(list[Raw]).decode


@define
class _Node:
    """One place in an object: a leaf with its rules, or a map or list with more below."""

    judges: list[Judge] = field(factory=list)
    below: dict[str, _Node] = field(factory=dict)
    each: _Node | None = None
    accepted: set[bytes] = field(factory=set)

    def add(self, steps: Steps, judge: Judge) -> bool:
        """Take a rule in; False when this place is already something else, such as a list of all and one member."""
        if not steps:
            if self.below or self.each:
                return False
            self.judges.append(judge)
            return True
        if self.judges:
            return False
        step, rest = steps[0], steps[1:]
        if step is None:
            if self.below:
                return False
            self.each = self.each or _Node()
            return self.each.add(rest, judge)
        if self.each:
            return False
        return self.below.setdefault(step, _Node()).add(rest, judge)

    def fine(self, value: Any) -> bool:
        if self.judges:
            return self.accepts(bytes(value))
        if value is None:
            return True
        if self.each is not None:
            each = self.each
            return all(each.fine(item) for item in (value.values() if isinstance(value, dict) else value))
        return all(node.fine(getattr(value, f"f{i}")) for i, node in enumerate(self.below.values()))

    def accepts(self, text: bytes) -> bool:
        if not text or text in self.accepted:  # an absent field is no problem
            return True
        if any(judge(text) is not None for judge in self.judges):
            return False
        if len(text) <= _SHORT:
            _remember(self.accepted, text)
        return True

    def decoded(self, *, head: bool = False) -> Any:
        """The type msgspec decodes this place into."""
        if self.judges:
            return Raw
        if self.each is not None:
            item = self.each.decoded()
            return list[item] | dict[str, item] | None  # type: ignore[valid-type]  # types are made here, not checked
        fields: list[Any] = [("head", Head)] if head else []
        names = {"head": "metadata"}
        for i, (name, node) in enumerate(self.below.items()):
            kind = node.decoded()
            default: Any = _ABSENT if node.judges else None
            if node.below:
                # Where the parent is absent too, an empty one stands in, so that the way to the leaf never breaks off.
                default, kind = kind(), kind | None
            fields.append((f"f{i}", kind, default))
            names[f"f{i}"] = name
        return msgspec.defstruct("Projected", fields, rename=names, gc=False, frozen=True)

    def plain_leaves(self, prefix: str = "") -> Iterator[tuple[str, _Node]]:
        """The attributes that lead to a leaf or to a `[*]` without meeting another `[*]`."""
        for i, node in enumerate(self.below.values()):
            path = f"{prefix}f{i}"
            if node.judges or node.each is not None:
                yield path, node
            else:
                yield from node.plain_leaves(f"{path}.")


class _Tree:
    """One decoder, and how to get from what it decodes to the rules."""

    def __init__(self) -> None:
        self.root = _Node()

    def compile(self) -> None:
        self._decode = msgspec.json.Decoder(self.root.decoded()).decode
        found = dict(self.root.plain_leaves())
        leaves = {path: node for path, node in found.items() if node.judges}
        self._leaves = [*leaves.values()]
        self._values: Callable[[Any], tuple[Raw, ...]] = lambda _: ()
        if leaves:  # the first one twice, where it is the only one: of one, `attrgetter` makes no tuple
            self._values = attrgetter(*leaves) if len(leaves) > 1 else attrgetter(*leaves, *leaves)
        self._others = [(attrgetter(path), node) for path, node in found.items() if not node.judges]
        self._accepted: set[bytes] = set()

    def passes(self, raw: bytes) -> bool:
        try:
            return self.judge(self._decode(raw))
        except DECODE_ERRORS:
            return False

    def judge(self, found: Any) -> bool:
        try:
            values = self._values(found)
            # Nearly all objects of a cluster have the same few values, so they are asked about together. No two rows of
            # JSON texts read alike once they are joined: each text says itself where it ends, and none begins with NUL.
            together = b"\0".join(values)
            if together not in self._accepted and not self._accepts(values, together):
                return False
            # Loops, since generators would cost as much as the pass itself.
            for get, node in self._others:
                if not node.fine(get(found)):
                    return False
        except AttributeError:  # the way to a leaf breaks off: a parent is null
            return False
        return True

    def _accepts(self, values: tuple[Raw, ...], together: bytes) -> bool:
        for node, value in zip(self._leaves, values, strict=False):
            if not node.accepts(bytes(value)):
                return False
        if len(together) <= _SHORT * len(values):
            _remember(self._accepted, together)
        return True


def _remember(accepted: set[bytes], text: bytes) -> None:
    """What is seen in one object is seen in the next; the bounds keep it a note, not a store."""
    if len(accepted) >= _REMEMBERED:
        accepted.clear()
    accepted.add(text)


class Projection:
    """All fields of a resource that are looked at, as one decoder.

    Args:
        fields: where each field is and the rule for its raw JSON, which says why it is refused or returns None. A rule
            must say the same of the same bytes every time: what it has accepted is remembered.
    """

    def __init__(self, fields: Iterable[tuple[Steps, Judge]]) -> None:
        self._trees: list[_Tree] = []
        for steps, judge in fields:
            # Nearly always there is one tree; `limits.cpu` beside `limits[*]` is what takes a second pass.
            if not any(tree.root.add(steps, judge) for tree in self._trees):
                self._trees.append(_Tree())
                self._trees[-1].root.add(steps, judge)
        for tree in self._trees:
            tree.compile()
        self._with_head: Callable[[bytes], Any] | None = None
        if len(self._trees) == 1 and "metadata" not in self._trees[0].root.below:
            self._with_head = msgspec.json.Decoder(self._trees[0].root.decoded(head=True)).decode

    def passes(self, raw: bytes) -> bool:
        """True when every field is surely fine; False: look closer."""
        for tree in self._trees:  # noqa: SIM110
            if not tree.passes(raw):
                return False
        return True

    def read_head(self, raw: bytes) -> tuple[Head | None, bool]:
        """The head as `_meta.read_head` reads it, and `passes`, in one pass where possible."""
        if self._with_head is not None:
            try:
                found = self._with_head(raw)
            except DECODE_ERRORS:
                return read_head(raw), False
            return found.head, self._trees[0].judge(found)
        return read_head(raw), self.passes(raw)


@frozen
class Found:
    """A value on its way down: where it is, and its JSON text. `wanted` says what a parent that is in the way should be."""

    path: tuple[str | int, ...]
    raw: bytes
    wanted: str = ""


def find(raw: bytes, steps: Steps) -> Iterator[Found]:
    """Everything at a path, and every parent that is neither null nor what the path needs.

    Raises:
        ValueError: the bytes are not valid JSON.
    """
    yield from _descend((), raw, steps)


def _descend(path: tuple[str | int, ...], raw: bytes, steps: Steps) -> Iterator[Found]:
    if not steps:
        yield Found(path, raw)
        return
    if path and raw == b"null":
        return
    step, rest = steps[0], steps[1:]
    opening = raw[:1]
    if opening == b"{":
        members = object_members(raw)
        for name in members if step is None else [step] if step in members else []:
            yield from _descend((*path, name), members[name], rest)
    elif opening == b"[" and step is None:
        for i, element in enumerate(list_elements(raw)):
            yield from _descend((*path, i), element, rest)
    else:
        yield Found(path, raw, "a list or an object" if step is None else "an object")


def object_members(raw: bytes) -> dict[str, bytes]:
    """The members of a JSON object, undecoded.

    Raises:
        ValueError: it is no valid JSON object.
    """
    try:
        return {name: bytes(member) for name, member in _members(raw).items()}
    except DECODE_ERRORS as error:
        raise ValueError(f"not readable as JSON: {error}") from None


def list_elements(raw: bytes) -> Sequence[bytes]:
    """The elements of a JSON list, undecoded.

    Raises:
        ValueError: it is no valid JSON list.
    """
    try:
        return [bytes(element) for element in _elements(raw)]
    except DECODE_ERRORS as error:
        raise ValueError(f"not readable as JSON: {error}") from None


def value_at(raw: bytes, path: Iterable[str | int]) -> bytes | None:
    """The JSON text at one exact path; None when there is nothing, or nothing readable."""
    try:
        for part in path:
            raw = list_elements(raw)[part] if isinstance(part, int) else object_members(raw)[part]
    except (ValueError, LookupError):
        return None
    return raw
