"""The engine contract: token ids in, logits out. An engine never sees text, SQL or the answer store."""

from __future__ import annotations

from typing import Protocol

from quail_engine.batching.batch import Batch
from quail_engine.prompts.request import Logits
from quail_engine.roofline import Roofline


class Engine(Protocol):
    """Prefills batches. One thread at a time; the batches of a schedule come in order."""

    @property
    def weights(self) -> str:
        """sha256 of the source weights; part of every answer's key."""
        ...

    @property
    def precision(self) -> str:
        """Precision class, part of every answer's key: 'full' for fp32, bf16 and fp16."""
        ...

    @property
    def dtype(self) -> str:
        """Number format of the weights in use, such as 'bfloat16'; kept with answers as provenance, part of no key."""
        ...

    @property
    def device(self) -> str:
        """Where it computes, for people: 'cpu', or the name of an accelerator."""
        ...

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

    def close(self) -> None:
        """Frees weights and KV; the engine is not used afterwards."""
        ...
