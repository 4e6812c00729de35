"""The local engine: batches in, logits out, KV kept between batches as the schedule says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import torch
from torch import Tensor

from quail_engine.batching.batch import Batch, work_of
from quail_engine.engine.base import Engine
from quail_engine.engine.local.attention_kernel import attention_kernel
from quail_engine.engine.local.memory import memory_errors
from quail_engine.engine.local.model import Decoder, build_decoder, forward, readout
from quail_engine.engine.local.packing import Packing, pack
from quail_engine.engine.local.pooling import Sums
from quail_engine.engine.local.rows import ROW_STEP, round_up
from quail_engine.engine.local.throughput import DTYPES, choose
from quail_engine.engine.local.weights import open_checkpoint
from quail_engine.engine.rates import Pace, Rates, is_undisturbed, shape_of
from quail_engine.prompts.request import HIDDEN, Logits
from quail_engine.roofline import Roofline


class LocalEngine(Engine):
    """Implements `engine.base.Engine` on the CPU. Create it with `load`."""

    precision = "full"
    device = "cpu"

    def __init__(self, model: Decoder, weights: str, dtype: str, threads: int, pace: Pace) -> None:
        self.weights = weights
        self.dtype = dtype  # 'float32' or 'bfloat16': what 'auto' became
        self._model = model
        self._threads = threads
        self._pace = pace
        self._held: dict[int, Tensor] = {}  # node → KV [layers, 2, kv heads, tokens, head_dim]
        self._sums: dict[int, Tensor] = {}  # node → what `Sums` needs of it, for held nodes
        self._ends: dict[int, int] = {}  # node → the position after it, for held nodes
        self._parents: dict[int, int] = {}  # node → its parent, for held nodes

    @property
    def roofline(self) -> Roofline:
        return self._pace.roofline

    @memory_errors()
    @torch.inference_mode()
    def score(self, batch: Batch) -> list[Logits]:
        start, cpu_start = perf_counter(), process_time()
        # A thread that has not used torch yet starts with a setting of its own.
        if torch.get_num_threads() != self._threads:
            torch.set_num_threads(self._threads)
        work = work_of(batch.nodes, self._ends)
        packing = pack(batch, self._ends, self._parents, self._model.config, self._threads)
        kept = self._room(batch, packing)
        sums = Sums(batch, packing.ends, self._model.config, self._sums, self._parents) if batch.hidden else None
        hidden = forward(self._model, packing, self._held, kept, sums)
        logits = self._read(batch, packing, hidden, sums)
        self._hold(batch, packing, kept)
        self._sums = sums.kept(batch.keep) if sums else {n: held for n, held in self._sums.items() if n in batch.keep}
        undisturbed = is_undisturbed(perf_counter() - start, process_time() - cpu_start, self._threads)
        self._pace.ran(work, start, undisturbed)
        return logits

    def set_threads(self, threads: int) -> None:
        """Runs the next batches on so many threads; no answer changes by it."""
        self._threads = threads

    def close(self) -> None:
        self._pace.close()
        self._held.clear()
        self._sums.clear()
        del self._model

    def _room(self, batch: Batch, packing: Packing) -> dict[int, Tensor]:
        """Room for the KV of this batch's nodes that a later batch reads."""
        config = self._model.config
        return {
            node.number: torch.empty(
                config.num_layers, 2, config.num_kv_heads, len(node.ids), config.head_dim, dtype=DTYPES[self.dtype]
            )
            for node in batch.nodes
            if node.number in batch.keep
        }

    def _read(self, batch: Batch, packing: Packing, hidden: Tensor, sums: Sums | None) -> list[Logits]:
        """Reads are grouped by the head rows that they want: one product a group. Hidden features are the state that is read,
        and the means of the states before it."""
        groups: dict[tuple[int, ...], list[int]] = {}
        for number, read in enumerate(batch.reads):
            groups.setdefault(read.rows, []).append(number)
        logits: list[Logits] = [np.empty(0, np.float32)] * len(batch.reads)
        for rows, members in groups.items():
            wanted = packing.read_rows[members]
            padded = np.concatenate([wanted, np.zeros(round_up(len(wanted), ROW_STEP) - len(wanted), np.int64)])
            states = hidden.index_select(0, torch.from_numpy(padded))
            if rows[0] == HIDDEN:
                assert sums, "the batch says that it reads hidden features"
                means = torch.stack([sums.features(batch.reads[member].node, *rows[1:]) for member in members])
                found = torch.cat([states[: len(members)], means], 1).numpy()
            else:
                found = readout(self._model, states, rows).numpy()
            for member, vector in zip(members, found[: len(members)], strict=True):
                logits[member] = vector
        return logits

    def _hold(self, batch: Batch, packing: Packing, kept: Mapping[int, Tensor]) -> None:
        """Drops all KV that the schedule will not read again."""
        parents = self._parents | {node.number: node.parent for node in batch.nodes}
        self._held = {number: kept[number] if number in kept else self._held[number] for number in batch.keep}
        self._ends = {number: packing.ends[number] for number in batch.keep}
        self._parents = {number: parents[number] for number in batch.keep}


def load(folder: Path, dtype: str, cpu_threads: int | None) -> LocalEngine:
    """The engine for a converted model folder.

    `dtype` is 'float32' (the reference mode), 'bfloat16', or 'auto': the faster by a short measurement. `cpu_threads` None
    leaves torch's own number. Raises ModelError when the folder is damaged or its architecture is not supported.
    """
    checkpoint = open_checkpoint(folder)
    threads = cpu_threads or torch.get_num_threads()
    torch.set_num_threads(threads)
    config = checkpoint.config
    kernel, rates = attention_kernel(), Rates(shape_of(config), cpu_threads)
    name, roofline = choose(config, kernel, dtype, threads, rates)
    decoder = build_decoder(checkpoint, DTYPES[name], kernel)
    return LocalEngine(decoder, checkpoint.source_sha256, name, threads, Pace(roofline, rates, name))
