"""Progress of AI statements through dbt's logger: under `--quiet`, in JSON logs and between other threads' lines."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from dbt.adapters.events.logging import AdapterLogger
from dbt_common.events.contextvars import get_node_info
from dbt_common.invocation import get_invocation_id

from quail_engine import Answered, Asking, Event, Warned

_EVERY_SECONDS = 10.0
_WORTH_A_LINE_SECONDS = 1.0  # a first round that is expected to take less goes to the debug log

logger = AdapterLogger("Quail")


class ProgressLog:
    """A listener for a session. Called on the thread that runs the statement, so that dbt adds the node to each line."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._thread = threading.local()
        self._warned: set[tuple[str, str, str]] = set()  # invocation, node, text

    def __call__(self, event: Event) -> None:
        node = get_node_info().get("node_name", "")
        text = f"{node}: {event}" if node else str(event)
        if isinstance(event, Warned):
            key = (get_invocation_id(), node, event.text)
            # One node sends the same call several times, for probes and for rows.
            if key not in self._warned:
                self._warned.add(key)
                logger.warning(text)
        elif self._is_due(node, event):
            self._thread.said = self._clock()
            logger.info(text)
        else:
            logger.debug(text)

    def _is_due(self, node: str, event: Asking | Answered) -> bool:
        """A node's first round is told if it is worth a line; from then on there is a line every few seconds."""
        if getattr(self._thread, "node", None) != (get_invocation_id(), node):
            self._thread.node, self._thread.said = (get_invocation_id(), node), self._clock()
            return isinstance(event, Asking) and event.seconds >= _WORTH_A_LINE_SECONDS
        return bool(self._clock() - self._thread.said >= _EVERY_SECONDS)
