"""What went wrong, as one line that ends with the next step."""

from __future__ import annotations

from informer.errors import ApiError
from informer.problems import excerpt

_LONGEST = 1000


class CommandError(Exception):
    """The command cannot do what it was asked for. Its text is one line for the terminal; the exit code is 2."""


def one_line(text: object) -> str:
    """Somebody else's text, short and without anything a terminal would act on."""
    return excerpt(" ".join(str(text).split()), _LONGEST)


def explain(error: ApiError, server: str) -> str:
    """What the server, as `Connection.cluster` names it, answered, and what to do about it."""
    said = one_line(error) + (f", says {server}" if error.status else "")
    match error.status:
        case 401:
            return f"{said}; log in again, or choose another user with --context"
        case 403:
            return f"{said}; ask for the right to list and watch, or try one namespace with -n"
        case 400:
            return f"{said}; check the selectors"
        case 429 | 503:
            return f"{said}; the server is busy or starting: try again in a minute"
    if error.reason in {"ConnectionError", "Timeout"}:
        return f"cannot reach {server}: {one_line(error)}; check the server's address, the network, and --context"
    if error.reason == "UnreadableAnswer":
        return f"{one_line(error)}; is {server} really a Kubernetes API server, and no proxy or login page?"
    return said
