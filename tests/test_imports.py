"""Who imports whom: the rooms of the house, read from the source, and what an import costs a user."""

from __future__ import annotations

import ast
import functools
import graphlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HEAVY = ["kubernetes_asyncio", "aiohttp", "prometheus_client", "yaml", "pytest"]
MAX_LINES = 350

# What each module of the vocabulary may import of this package. Whoever adds a line adds a dependency for everybody.
VOCABULARY = {
    "_meta": {"_scan", "_wire"},
    "_projection": {"_meta", "_wire"},
    "_scan": set(),
    "_slices": set(),
    "_wire": {"_scan"},
    "changes": {"problems"},
    "errors": set(),
    "fixes": set(),
    "listerwatcher": {"problems", "resource"},
    "objects": {"_meta", "_wire", "resource"},
    "options": set(),
    "problems": {"_wire", "errors", "fixes", "objects", "resource"},
    "resource": set(),
    "selectors": set(),
}
ROOMS = {
    "vocabulary": set(VOCABULARY),
    "source": {"_client", "_http", "_identify", "_lists", "_redirects", "api"},
    "degraded": {"degraded"},
    "contrib": {"contrib"},
    "factory": {"factory"},
    "testing": {"testing"},
    "programs": {"__main__", "_demo", "cli"},
    "front": {"__init__"},
}
MAY_IMPORT = {
    "vocabulary": {"vocabulary"},
    "source": {"vocabulary", "source"},
    "cache": {"vocabulary", "cache"},
    "degraded": {"vocabulary", "degraded"},
    "contrib": {"vocabulary", "source", "degraded"},
    "factory": {"vocabulary", "source", "cache", "degraded"},
    "testing": {"vocabulary", "source", "cache", "degraded", "factory", "testing"},
    "programs": {"vocabulary", "source", "cache", "degraded", "factory", "testing", "programs", "front"},
    "front": {"vocabulary", "source", "cache", "degraded", "factory"},
}


@functools.cache
def sources(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 2 else parts)


def statements(tree: ast.AST, *, lazy: bool) -> Iterator[ast.stmt]:
    """The statements that run on import, without `if TYPE_CHECKING:`; with `lazy`, those inside functions too."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not lazy:
            continue
        if isinstance(node, ast.stmt):
            yield node
        yield from statements(node, lazy=lazy)


@functools.cache
def imports(path: Path, *, lazy: bool = True) -> set[str]:
    """Full names of the modules that a file imports. `from package import x` counts as `package.x`."""
    found: set[str] = set()
    for node in statements(ast.parse(path.read_text()), lazy=lazy):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def own_modules(path: Path, package: str, *, lazy: bool = True) -> set[str]:
    """The modules of the package that a file imports, as they are named there."""
    known = {name_of(source) for source in sources(package)}
    found = set()
    for name in imports(path, lazy=lazy):
        module = name
        while module and module not in known:
            module = module.rpartition(".")[0]  # an object of a module, or of the package's own front
        if module or name.split(".")[0] == package:
            found.add(module or f"{package}.__init__")
    return found


def room_of(module: str) -> str:
    first = module.split(".")[1]
    rooms = [room for room, modules in ROOMS.items() if first in modules]
    return rooms[0] if rooms else "cache"  # where new helpers live; it may look at the vocabulary and itself


@pytest.mark.parametrize(
    ("statement", "forbidden"),
    [
        ("import informer", HEAVY),
        ("import informer.testing", ["aiohttp", "kubernetes_asyncio", "prometheus_client", "pytest"]),
        ("import eviction", [*HEAVY, "informer", "asyncio"]),
        ("import eviction.budgets, eviction.metrics", [*HEAVY, "informer", "asyncio"]),
    ],
    ids=["informer", "informer.testing", "eviction", "eviction, all of it"],
)
def test_cost_of_an_import(statement: str, forbidden: list[str]) -> None:
    """When a package is imported in a fresh interpreter, it should not import what costs time and memory."""
    program = f"import sys; before = set(sys.modules); {statement}; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert loaded.intersection({"informer", "eviction"})
    assert loaded.isdisjoint(forbidden), f"{statement} loads {sorted(loaded.intersection(forbidden))}"


@pytest.mark.parametrize(("package", "other"), [("informer", "eviction"), ("eviction", "informer")])
def test_two_packages(package: str, other: str) -> None:
    """When one package is read, it should never mention an import of the other, not even inside a function."""
    offenders = [
        name_of(path) for path in sources(package) if any(name.split(".")[0] == other for name in imports(path))
    ]
    assert offenders == []


@pytest.mark.parametrize(("module", "allowed"), VOCABULARY.items(), ids=VOCABULARY)
def test_vocabulary(module: str, allowed: set[str]) -> None:
    """When a module of the vocabulary imports another one, it should be one that it is allowed to know."""
    found = own_modules(ROOT / "informer" / f"{module}.py", "informer")
    assert {name.removeprefix("informer.") for name in found} <= allowed


@pytest.mark.parametrize("path", sources("informer"), ids=name_of)
def test_rooms(path: Path) -> None:
    """When a module imports another one, it should be of a room that its own may look into."""
    room = room_of(name_of(path))
    seen = {room_of(name): name for name in own_modules(path, "informer")}
    strangers = {other: name for other, name in seen.items() if other not in MAY_IMPORT[room]}
    assert strangers == {}, f"{name_of(path)} is of the room {room}"


@pytest.mark.parametrize("package", ["informer", "eviction"])
def test_no_circles(package: str) -> None:
    """When the imports that run on import are followed, they should never lead back."""
    graph = {name_of(path): own_modules(path, package, lazy=False) - {name_of(path)} for path in sources(package)}
    for module, found in graph.items():
        # `from package.wing import module` runs the wing's front first, which only collects names.
        graph[module] = {name for name in found if not module.startswith(f"{name}.")}
    list(graphlib.TopologicalSorter(graph).static_order())


@pytest.mark.parametrize("module", ["throttle", "requeue", "deadline", "refusal"])
def test_eviction_pieces_work_alone(module: str) -> None:
    """When a controller takes one piece of `eviction`, it should need neither Kubernetes nor asyncio, at any time."""
    todo, seen = {f"eviction.{module}"}, set[str]()
    while todo:
        name = todo.pop()
        seen.add(name)
        path = ROOT / f"{name.replace('.', '/')}.py"
        foreign = {found.split(".")[0] for found in imports(path)}
        assert foreign.isdisjoint({"asyncio", "kubernetes_asyncio", "aiohttp"}), name
        todo |= own_modules(path, "eviction") - seen


@pytest.mark.parametrize("path", [*sources("informer"), *sources("eviction")], ids=name_of)
def test_size(path: Path) -> None:
    """When a module has one idea, it should be short enough to be read in one go, and begin by saying it."""
    text = path.read_text()
    assert text.count("\n") <= MAX_LINES
    assert ast.get_docstring(ast.parse(text)), "no docstring"
    assert "from __future__ import annotations" in text


@pytest.mark.parametrize("package", ["informer", "eviction"])
def test_typed(package: str) -> None:
    """When a type checker reads an installed package, it should find the mark that its annotations count."""
    assert (ROOT / package / "py.typed").exists()


def test_twins() -> None:
    """When one of the two modules that refuse redirects changes, so should the other: the packages never import each other."""
    assert (ROOT / "eviction/_redirects.py").read_text() == (ROOT / "informer/_redirects.py").read_text()
