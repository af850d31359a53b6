"""What the tests of the pages share: the pages, their blocks of code and their tables."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = "README"
PAGES = [
    README,
    *sorted(str(file.relative_to(DOCS).with_suffix("")) for file in DOCS.rglob("*.md") if "_build" not in file.parts),
]


def page(name: str) -> str:
    """The text of a page, such as `informer` or `howto/typed`."""
    return (ROOT / "README.md" if name == README else DOCS / f"{name}.md").read_text()


def blocks(name: str, language: str = "python") -> list[str]:
    """The code of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page(name), re.MULTILINE | re.DOTALL)


def defined(text: str) -> str:
    """What a block of Python is known by: the last function or class that it defines at the top, or else the last name."""
    names = re.findall(r"^(?:async )?(?:def|class) (\w+)", text, re.MULTILINE)
    names = names or re.findall(r"^(\w+) =", text, re.MULTILINE)
    return names[-1] if names else ""


def program(name: str, function: str) -> dict[str, Any]:
    """Run the block of a page that defines a function; its names."""
    (text,) = [text for text in blocks(name) if defined(text) == function]
    module = ModuleType("program_of_a_page")
    sys.modules[module.__name__] = module  # pydantic looks up the names of annotations there
    exec(compile(text, f"{name}.md: {function}", "exec", dont_inherit=True), module.__dict__)
    return module.__dict__


def tables(text: str) -> dict[str, list[list[str]]]:
    """The rows of the first table under each heading, without its head."""
    found: dict[str, list[list[str]]] = {}
    for section in re.split(r"^#+ ", text, flags=re.MULTILINE)[1:]:
        rows = [line for line in section.splitlines() if line.startswith("|")]
        if rows:
            found[section.splitlines()[0]] = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]
    return found
