"""The engine contract: token ids in, logits out. An engine never sees text, SQL or the answer store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from quail_engine.batching.batch import Batch
from quail_engine.prompts.request import Logits
from quail_engine.roofline import Roofline


class Launched(Protocol):
    """A batch on its way."""

    def logits(self) -> list[Logits]:
        """Waits for the batch and gives what `Engine.score` does, or raises as it does; whenever it is called."""
        ...


@dataclass(frozen=True)
class Scored:
    """A batch that had run when it was submitted."""

    found: list[Logits]

    def logits(self) -> list[Logits]:
        return self.found


class Engine(Protocol):
    """Prefills batches. One thread at a time; the batches of a schedule come in order.

    An engine that computes beside its host launches a batch and returns; another one runs it there and then. Whoever submits
    batches ahead of the first one's logits has answers that many batches later, and must not hope that they change the next.
    """

    weights: str
    """sha256 of the source weights; part of every answer's key."""

    precision: str
    """Precision class, part of every answer's key: 'full' for fp32, bf16 and fp16."""

    dtype: str
    """Number format of the weights in use, such as 'bfloat16'; kept with answers as provenance, part of no key."""

    device: str
    """Where it computes, for people: 'cpu', or the name of an accelerator."""

    remarks: tuple[str, ...] = ()
    """What a user is told once it is loaded, a sentence each."""

    in_flight: int = 1
    """Batches that may be submitted before the first one's logits are taken."""

    @property
    def roofline(self) -> Roofline:
        """How long work is expected to take here; for estimates only."""
        ...

    def score(self, batch: Batch) -> list[Logits]:
        """One float32 vector a read of `batch`, in the order of `batch.reads`.

        Of a read of `HIDDEN` it is the engine's hidden features: always as many, and small enough for float16.
        A NaN says that the request failed. KV of the nodes in `batch.keep` stays until a batch comes that no longer keeps it.
        Raises MemoryError where the batch does not fit into memory.
        """
        ...

    def submit(self, batch: Batch) -> Launched:
        """Launches a batch behind those before it. What cannot even be launched raises here, as `score` does."""
        return Scored(self.score(batch))

    def close(self) -> None:
        """Frees weights and KV; the engine is not used afterwards."""
        ...
