"""Progress of AI statements through dbt's logger: under `--quiet`, in JSON logs and between other threads' lines."""

from __future__ import annotations

import threading
import time

from dbt.adapters.events.logging import AdapterLogger
from dbt_common.events.contextvars import get_node_info
from dbt_common.invocation import get_invocation_id

from quail_engine import Answered, Asking, Event, Warned

_EVERY_SECONDS = 10.0
_WORTH_A_LINE_SECONDS = 1.0  # a round that is expected to take less goes to the debug log

logger = AdapterLogger("Quail")


class ProgressLog:
    """A listener for a session. Called on the thread that runs the statement, so that dbt adds the node to each line."""

    def __init__(self) -> None:
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
        elif isinstance(event, Asking):
            self._thread.last = time.monotonic()
            (logger.info if event.seconds >= _WORTH_A_LINE_SECONDS else logger.debug)(text)
        elif isinstance(event, Answered) and time.monotonic() - self._thread.last >= _EVERY_SECONDS:
            self._thread.last = time.monotonic()
            logger.info(text)
