"""What work costs: counted without a machine, and timed by the roofline of one.

`Work` is what planner, batches and engines speak of; counts of parts add up to the whole's. A `Roofline` turns it into
seconds: of each part of a forward pass the slower of computing and moving bytes, and what every pass and every call takes
however little it does.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass

CHUNK_TOKENS = 512
"""A longer segment is a chain of runs, cut every so many tokens from its own start."""

_SETTLED = 8  # past batches from which on they alone say how far the rates are off


@dataclass(frozen=True)
class Work:
    """Prefill, in tokens. Whole numbers where requests are counted, fractions where they are estimated."""

    tokens: float = 0  # fresh: prefilled
    own_pairs: float = 0  # (query, key) pairs of attention within a run
    prefix_pairs: float = 0  # pairs of a fresh token and one before its run
    kv_written: float = 0  # whose KV a later run reads
    kv_read: float = 0  # of KV read: what stands before each run, once a run
    forks: float = 0  # runs that others go on from

    def __add__(self, other: Work) -> Work:
        return Work(*map(operator.add, self.counts, other.counts))

    def __mul__(self, times: float) -> Work:
        return Work(*(count * times for count in self.counts))

    @property
    def counts(self) -> tuple[float, float, float, float, float, float]:
        return self.tokens, self.own_pairs, self.prefix_pairs, self.kv_written, self.kv_read, self.forks

    @property
    def pairs(self) -> float:
        """All (query, key) pairs that fresh tokens attend to."""
        return self.own_pairs + self.prefix_pairs


def run(before: float, tokens: float, read_on: bool) -> Work:
    """`tokens` fresh ones behind `before` others; `read_on`: something comes behind them in turn.

    >>> run(10, 3, read_on=False)
    Work(tokens=3, own_pairs=6.0, prefix_pairs=30.0, kv_written=0, kv_read=10.0, forks=0)
    """
    full = max(0, -(-tokens // CHUNK_TOKENS) - 1)  # chunks with another one behind them
    own = full * _triangle(CHUNK_TOKENS) + _triangle(tokens - full * CHUNK_TOKENS)
    return Work(
        tokens=tokens,
        own_pairs=own,
        prefix_pairs=tokens * before + _triangle(tokens) - own,
        kv_written=tokens if read_on else full * CHUNK_TOKENS,
        kv_read=(full + 1) * before + CHUNK_TOKENS * full * (full + 1) / 2 if tokens else 0,
        forks=full + (read_on and tokens > 0),
    )


def _triangle(tokens: float) -> float:
    return tokens * (tokens + 1) / 2


@dataclass(frozen=True)
class ModelShape:
    """The dimensions of a decoder that its time follows from."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp: int
    bytes: int = 2  # of a number of its matrices and its KV

    @property
    def projections(self) -> int:
        """Parameters of all attention projections."""
        return self.layers * 2 * self.hidden * self.head_dim * (self.heads + self.kv_heads)

    @property
    def mlps(self) -> int:
        return self.layers * 3 * self.hidden * self.mlp

    @property
    def kv_bytes(self) -> int:
        """Of one token."""
        return 2 * self.bytes * self.layers * self.kv_heads * self.head_dim


@dataclass(frozen=True)
class Machine:
    """Rates of one machine, for one number format."""

    matrix_flops: float  # FLOP/s of matrix products, with the elementwise work around them
    attention_flops: float  # FLOP/s of attention, of a run to itself
    bandwidth: float  # bytes/s
    pass_seconds: float = 0.0  # of a layer in a forward pass, however small
    fork_seconds: float = 0.0  # of a layer, for each run that others go on from
    prefix_gain: float = 1.0  # how many times as fast attention to a prefix is, whose keys many tokens read side by side
    measured: bool = False  # False: assumed


ASSUMED = Machine(matrix_flops=1e11, attention_flops=3e10, bandwidth=1e10, pass_seconds=2e-4, fork_seconds=5e-5)
"""A machine that nobody has measured: a few cores of the usual kind."""


@dataclass(frozen=True)
class Roofline:
    shape: ModelShape
    machine: Machine
    past: tuple[float, ...] = ()  # measured seconds of past batches, as multiples of the estimated ones; the newest last

    @property
    def correction(self) -> float:
        """By which factor batches take longer than the machine's rates say.

        Whatever else runs only slows a batch down, so the faster ones tell more of the machine: the lower quartile of the past.
        While that is short, the rates as they were measured stand in its place.
        """
        known = sorted([*self.past, *[1.0] * (_SETTLED - len(self.past))])
        return known[len(known) // 4]

    def seconds(self, work: Work, token_budget: int) -> float:
        """Expected time in the engine, in forward passes of at most `token_budget` fresh tokens."""
        shape, machine = self.shape, self.machine
        passes = max(1.0, work.tokens / token_budget) if work.tokens else 0.0
        pairs = work.own_pairs + work.prefix_pairs / machine.prefix_gain
        attention = 4 * shape.heads * shape.head_dim * shape.layers * pairs
        kv = shape.kv_bytes * (work.kv_written + work.kv_read)
        total = max(attention / machine.attention_flops, kv / machine.bandwidth)
        for parameters in (shape.projections, shape.mlps):
            computing = 2 * parameters * work.tokens / machine.matrix_flops
            total += max(computing, parameters * shape.bytes * passes / machine.bandwidth)
        total += shape.layers * (machine.pass_seconds * passes + machine.fork_seconds * work.forks)
        return self.correction * total

    @property
    def tokens_per_second(self) -> float:
        """Of prompts of 128 tokens that share nothing: for people."""
        prompts = run(0, 128, read_on=False) * 16
        return prompts.tokens / self.seconds(prompts, int(prompts.tokens))

    @property
    def source(self) -> str:
        return "measured" if self.machine.measured else "assumed"
