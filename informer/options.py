"""How an informer works, as one frozen value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from attrs import field, frozen

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


@frozen(kw_only=True)
class InformerOptions:
    """How an informer works; the defaults suit a controller.

    Attributes:
        initial_list: `list` pages through the objects; `stream` asks for a streaming list (Kubernetes 1.32 and later
            serve them; others are recognised, within 60 s at the worst) and spares server and client a large answer;
            `auto` does the same but gives up after 10 s.
        resync_period: seconds after which every handler is told of every object again; None for never. No request.
        max_backlog: pending changes of one handler from which on they are merged by key.
        registry: where metrics go; None for no metrics.
        name: tells apart several informers of one resource, in metrics, log lines, errors and probes. A factory adds
            the scope: `ns=shop labels=app=web`.
    """

    initial_list: Literal["list", "stream", "auto"] = field(default="list")
    resync_period: float | None = None
    max_backlog: int = 10_000
    registry: CollectorRegistry | None = None
    name: str = ""

    def __attrs_post_init__(self) -> None:
        if self.initial_list not in {"list", "stream", "auto"}:
            raise ValueError(f"initial_list is {self.initial_list!r}; it must be 'list', 'stream' or 'auto'")
        if self.resync_period is not None and not self.resync_period >= 1.0:
            raise ValueError(f"resync_period is {self.resync_period!r}; it must be at least 1 s, or None for never")
        if self.max_backlog < 1:
            raise ValueError(f"max_backlog is {self.max_backlog}; it must be at least 1")
