"""Sphinx builds these pages without the network, and every warning is an error."""

from __future__ import annotations

import importlib
from importlib import metadata
from typing import Any

from sphinx.ext.napoleon import Config, GoogleDocstring

project = "kube-informer"
author = "The kube-informer authors"
copyright = author  # noqa: A001 - Sphinx asks for this name
release = metadata.version("kube-informer")

extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
default_role = "code"  # docstrings write `name`, as Markdown does

html_theme = "furo"
html_title = f"kube-informer {release}"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"

nitpicky = True
# Names of the standard library and of other projects: linking them would need their inventories, hence the network.
nitpick_ignore_regex = [
    (r"py:class", r"tuple\[.*"),  # napoleon splits tuple[X, ...] at its comma
    (r"py:.*", r"(asyncio|builtins|collections|contextlib|datetime|enum|logging|pathlib|types|typing)\..*"),
    (r"py:.*", r"(aiohttp|attrs|attr|kubernetes_asyncio|msgspec|prometheus_client)\..*"),
    (r"py:class", r"(Any|Self|ApiClient|CollectorRegistry|TracebackType|Path|datetime|timedelta|optional)"),
    (r"py:class", r"(.*\.)?(T|T_co|Json|Key|State|Reason|Verdict)"),
    (r"py:exc", r"[A-Z]\w*"),
    # What public classes are made from, and users never make themselves.
    (r"py:class", r"(.*\.)?(Indexer|Content|Entry|Probed)"),
    (r"py:.*", r"([a-z_]+\.)*_[\w.]+"),
]

PACKAGES = ["informer", "eviction", "informer.testing", "informer.degraded.checks"]

for _package in PACKAGES:  # what a package imports only when asked for would be missing on the page
    _module = importlib.import_module(_package)
    vars(_module).update({name: getattr(_module, name) for name in _module.__all__})


def _public_names() -> dict[int, str]:
    """Every public object, and the name it is documented under."""
    names: dict[int, str] = {}
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            names.setdefault(id(getattr(module, name)), f"{package}.{name}")
    return names


def _resolve(app: Any, env: Any, node: Any, contnode: Any) -> Any:
    """Annotations name the module where a class is written; lead to the public name instead."""
    module, _, name = node.get("reftarget", "").rpartition(".")
    # A bare name is one that is imported for annotations only.
    module = module or next((one for one in PACKAGES if name in importlib.import_module(one).__all__), "")
    try:
        target = _public_names().get(id(getattr(importlib.import_module(module), name)))
    except (ImportError, AttributeError, ValueError):
        return None
    if target is None:
        return None
    domain = env.get_domain("py")
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", target, node, contnode)


def _read_google_style(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """The sections of a docstring. As an extension, napoleon would take `this: that` in an attribute's text for a type."""
    if what not in {"attribute", "data", "property"}:
        lines[:] = GoogleDocstring(lines, Config(napoleon_use_ivar=True), app, what, name, obj, options).lines()


def setup(app: Any) -> None:
    app.connect("missing-reference", _resolve)
    app.connect("autodoc-process-docstring", _read_google_style)
