"""What is run on every change: `nox -l` lists it, and each session installs what it needs from pyproject's groups."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import sys

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.error_on_external_run = True
nox.options.reuse_existing_virtualenvs = True

RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"
SUPPORTED = ["3.11", "3.12", "3.13"]
# `nox -s tests` asks for one Python and gets the one that is there; `nox -t all-pythons` adds the others that are installed.
OTHERS = [version for version in SUPPORTED if version != RUNNING]
# How long eight threads hammer the throttle; a plain `pytest` does it for one second.
THREADS = {"EVICTION_HAMMER_SECONDS": os.environ.get("EVICTION_HAMMER_SECONDS", "5")}

nox.options.sessions = ["tests", "lint", "types", "docs"]


def _install(session: nox.Session, *groups: str) -> None:
    session.install("-e", ".", *(f"--group={group}" for group in groups))


def _pytest(session: nox.Session, *arguments: str, env: dict[str, str] | None = None) -> None:
    session.run("python", "-m", "pytest", *arguments, *session.posargs, env=env)


@nox.session
def tests(session: nox.Session) -> None:
    """The tests that need no server, on the running Python and all of its cores."""
    _install(session, "tests", "types", "clients", "peers")
    _pytest(session, "-m", "not real", "--numprocesses=auto", "--dist=worksteal", env=THREADS)


@nox.session(python=["3.13t", "3.14t"], tags=["free-threaded"])
def threads(session: nox.Session) -> None:
    """What threads do to the throttle and the cache, on a free-threaded Python, where one is installed."""
    _install(session, "tests")
    _pytest(session, "tests/eviction/test_throttle_model.py", "tests/informer/test_lister.py", env=THREADS)


@nox.session(python=OTHERS, tags=["all-pythons"])
def tests_on(session: nox.Session) -> None:
    """The same on the other supported Pythons, where installed."""
    _install(session, "tests", "types", "clients", "peers")
    _pytest(session, "-m", "not real")


@nox.session
def coverage(session: nox.Session) -> None:
    """The same tests, and which lines they reach."""
    _install(session, "tests", "types", "clients", "peers")
    session.run("coverage", "run", "-m", "pytest", "-m", "not real", *session.posargs)
    session.run("coverage", "report", "--skip-covered", "--show-missing")


@nox.session
def real(session: nox.Session) -> None:
    """The tests against real API servers: INFORMER_TEST_KUBECONFIGS names their kubeconfigs, as PATH names directories."""
    if not os.environ.get("INFORMER_TEST_KUBECONFIGS"):
        session.error("INFORMER_TEST_KUBECONFIGS names no kubeconfig; every test would be skipped")
    _install(session, "tests", "types", "clients")
    _pytest(session, "-m", "real", "tests/real")


@nox.session
def faults(session: nox.Session) -> None:
    """Random schedules of every fault for as long as you like: `INFORMER_FAULT_EXAMPLES=5000 nox -s faults`."""
    _install(session, "tests")
    _pytest(session, "tests/faults", env={"INFORMER_FAULT_EXAMPLES": os.environ.get("INFORMER_FAULT_EXAMPLES", "1000")})


@nox.session
def soak(session: nox.Session) -> None:
    """Twenty minutes under load and a trouble each minute: memory, tasks and sockets stay flat. `-- --minutes N`."""
    _install(session, "tests")
    session.run("python", "-m", "tests.soak.run", *session.posargs)


@nox.session(python="3.11")
def fuzz(session: nox.Session) -> None:
    """Coverage-guided fuzzing of all that reads bytes; atheris has wheels for Linux only, and not for every Python."""
    session.install("-e", ".", "--group=tests", "atheris")
    session.run("python", "-m", "tests.hostile.fuzz", *(session.posargs or ["-max_total_time=300"]))


@nox.session
def oldest(session: nox.Session) -> None:
    """The tests on the oldest dependencies that pyproject allows, those of the extras included.

    Without the official package, whose asyncio client wants aiohttp 3.14.3 from its first version on; nothing of it is required.
    """
    project = nox.project.load_toml("pyproject.toml")["project"]
    allowed = [*project["dependencies"], *itertools.chain(*project["optional-dependencies"].values())]
    session.install("-e", ".", *(one.replace(">=", "==") for one in allowed), "--group=tests")
    # What mypy says does not depend on them, and it is not installed here.
    typed = ("--ignore=tests/test_typing.py", "--deselect=tests/docs/test_programs.py::test_programs_are_typed")
    _pytest(session, "-m", "not real", "--numprocesses=auto", *typed)


@nox.session
def audit(session: nox.Session) -> None:
    """Known vulnerabilities of what a user gets installed."""
    session.install("pip-audit")
    session.run("pip-audit", "--strict", *session.posargs, ".")


@nox.session
def bench(session: nox.Session) -> None:
    """What an informer costs, beside its peers: `-- --quick`, `-- --out docs` for the page's own figures.

    client-go joins in where INFORMER_BENCH_PEERS or INFORMER_TEST_SHARED leads to its program.
    """
    session.install("-e", ".")
    with contextlib.suppress(nox.command.CommandFailed):  # a peer; the row is left out without it
        session.install("kubernetes>=37")
    session.run("python", "-m", "bench", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """ruff, both ways."""
    session.install("--group=lint")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """mypy --strict over both packages, and over programs that use them as a user would."""
    _install(session, "types")
    session.run("mypy", "--strict", "informer", "eviction", "tests/typing", "docs/examples")


@nox.session
def docs(session: nox.Session) -> None:
    """The HTML pages, where every warning is an error. `nox -s docs -- serve` shows them."""
    _install(session, "docs")
    shutil.rmtree("docs/_build", ignore_errors=True)
    session.run("python", "-m", "sphinx", "-W", "-n", "--keep-going", "-E", "-b", "html", "docs", "docs/_build/html")
    if session.posargs == ["serve"]:
        session.run("python", "-m", "http.server", "--directory", "docs/_build/html")
