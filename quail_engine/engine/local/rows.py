"""How many rows a kernel is given, so that the bits of a row never depend on the rows beside it.

What was found on this kind of CPU (AVX-512, oneDNN for bf16, MKL for fp32), and is held by tests:

* A matrix product gives a row the same bits at any row count from 16 on and on any number of threads; below 8, the libraries
  switch to other kernels. The same holds for the query rows of an attention call.
* An attention call over a single head and few queries is a single task; its inner products are then threaded themselves, with
  other bits. Two tasks or more are each run by one thread, so a lone key-value head gets at least two blocks of 32 queries.
* exp, log1p, square roots, reductions over the last dimension and exact arithmetic are the same wherever a row lies. SiLU and
  sigmoid are not: an element in the tail of a vector loop is computed by a scalar routine that rounds otherwise. Sigmoid
  is therefore written out with exp; SiLU is too hot for that, so its rows are padded until no loop has a tail.
"""

from __future__ import annotations

ROW_STEP = 16
_LONE_HEAD_STEP = 64

# How torch splits an elementwise loop: pieces of at least so many elements, one a thread, each run in vectors of 2 x 32 bf16.
_GRAIN = 32_768
_VECTOR = 64


def round_up(count: int, step: int) -> int:
    return -(-count // step) * step


def query_step(heads: int) -> int:
    """Query rows of an attention call over `heads` heads are a multiple of this."""
    return ROW_STEP if heads > 1 else _LONE_HEAD_STEP


def padded_rows(rows: int, width: int, threads: int) -> int:
    """The smallest row count, at least `rows`, at which a linear and a SiLU over `width` columns are safe."""
    unit = _VECTOR if width % _VECTOR == 0 else width
    padded = round_up(max(rows, 1), ROW_STEP)
    while True:
        pieces = min(threads, -(-padded * width // _GRAIN))
        if -(-padded * width // pieces) % unit == 0:
            return padded
        padded += ROW_STEP
