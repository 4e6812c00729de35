"""Resident memory of this process, in MB. Linux tells both for this program alone; elsewhere the peak stands for both."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")


def peak_mb() -> int:
    """The highest so far."""
    return _told("VmHWM")


def resident_mb() -> int:
    return _told("VmRSS")


def _told(name: str) -> int:
    if _STATUS.exists():
        return next(int(line.split()[1]) // 1024 for line in _STATUS.read_text().splitlines() if line.startswith(name))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak / (1 << 20 if sys.platform == "darwin" else 1 << 10))
