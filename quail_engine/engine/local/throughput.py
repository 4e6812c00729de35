"""How fast this machine prefills: a short measurement of a few layers, which chooses the dtype and fits the roofline.

Layers of the model's own shape with random weights are run by the engine's own forward pass, over batches that differ in what
they stress: matrix products, attention of runs to themselves and to prefixes, forks of the forest, and the fixed part of a
pass. So the rates have in them whatever stands around the products. It takes a second or two, once: `rates` keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from time import perf_counter, process_time

import numpy as np
import torch
import torch.nn.functional as F

from quail_engine.batching.batch import Batch, Node, Read, work_of
from quail_engine.engine.local.attention_kernel import AttentionKernel
from quail_engine.engine.local.linear import linear, stacked
from quail_engine.engine.local.model import Decoder, Layer, forward, room_for
from quail_engine.engine.local.packing import pack
from quail_engine.engine.local.rope import rotations
from quail_engine.engine.local.weights import Config
from quail_engine.engine.rates import Rates, fastest, is_undisturbed
from quail_engine.roofline import Machine, Roofline

DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}
_LAYERS = 3
_SECONDS = 0.05  # a batch is run so long, at least `_RUNS` times; the fastest run counts, for other programs only slow down
_MOST_SECONDS = 0.3  # so long, where other programs took a part of every run
_RUNS = 3
_COPIED = 1 << 24  # floats
_PRODUCT_ROWS = 64
_FAR = 3.0  # a dtype whose plain product is so many times as slow as the other's is not measured further
_PREFIX_TOKENS = 1_024


def choose(config: Config, kernel: AttentionKernel, dtype: str, threads: int, rates: Rates) -> tuple[str, Roofline]:
    """The dtype to run in ('auto': the faster one) and its roofline, from `rates` or measured now and kept there.

    A processor without instructions for bfloat16 takes a minute to be measured in it. So a dtype whose plain product is far
    slower than another's is known by that alone, as not measured, until somebody asks for it by name.
    """
    known = rates.recall()
    wanted = list(DTYPES) if dtype == "auto" else [dtype]
    unknown = [name for name in wanted if name not in known or (dtype != "auto" and not known[name].machine.measured)]
    plain = {name: _product_flops(config, DTYPES[name]) for name in DTYPES} if dtype == "auto" and unknown else {}
    for name in unknown:
        if plain and plain[name] * _FAR < max(plain.values()):
            machine = Machine(plain[name], plain[name], _bandwidth(threads), measured=False)
            known[name] = Roofline(rates.shaped(name), machine)
        else:
            known[name] = measure(config, kernel, name, threads, rates)
        rates.remember(name, known[name])
    chosen = fastest({name: known[name] for name in wanted})
    return chosen, known[chosen]


@torch.inference_mode()
def _product_flops(config: Config, dtype: torch.dtype) -> float:
    """Operations a second of a small product with one of the model's matrices."""
    weight = torch.ones(config.intermediate_size, config.hidden_size, dtype=dtype)
    given = torch.ones(_PRODUCT_ROWS, config.hidden_size, dtype=dtype)
    return 2 * _PRODUCT_ROWS * weight.numel() / _best(lambda: F.linear(given, weight), torch.get_num_threads())


@torch.inference_mode()
def measure(config: Config, kernel: AttentionKernel, dtype: str, threads: int, rates: Rates) -> Roofline:
    """Measured now, whatever is kept."""
    decoder = _decoder(config, kernel, DTYPES[dtype])
    shape = replace(rates.shaped(dtype), layers=1)
    # The last layer projects every token, but goes on with those that are read only.
    projected = config.head_dim * (config.num_heads + 2 * config.num_kv_heads) * config.hidden_size
    full = _LAYERS - 1 + projected / (shape.projections + shape.mlps)
    counts, seconds = [], []
    for batch, held in _batches():
        packing = pack(batch, held, dict.fromkeys(held, -1), decoder.config, threads)
        contexts = {node: _kv(decoder.config, tokens, DTYPES[dtype]) for node, tokens in held.items()}
        work = work_of(batch.nodes, held)
        layers = (work.own_pairs, work.prefix_pairs, work.forks, 1)
        counts.append([full * packing.rows, *(_LAYERS * count for count in layers)])
        seconds.append(_best(partial(forward, decoder, packing, contexts, {}), threads))
    token, pair, prefix_pair, fork, pass_ = _fitted(np.array(counts, dtype=float), np.array(seconds))
    machine = Machine(
        matrix_flops=2 * (shape.projections + shape.mlps) / token,
        attention_flops=4 * shape.heads * shape.head_dim / pair,
        bandwidth=_bandwidth(threads),
        pass_seconds=pass_,
        fork_seconds=fork,
        prefix_gain=pair / prefix_pair,
        measured=True,
    )
    return Roofline(rates.shaped(dtype), machine)


def _batches() -> Iterator[tuple[Batch, dict[int, int]]]:
    """One that stresses matrix products, one attention of a run to itself, one that of many to a prefix, one forks, and one
    that has little of anything; with the tokens of a node that is held.

    What a batch stresses is a good part of what it costs, or it could not be told from the matrix products beside it: so the
    prefix is held, and not prefilled with it."""
    yield _batch([(64, ())] * 8), {}
    yield _batch([(448, ())]), {}
    yield _below_a_prefix([32] * 8), {0: _PREFIX_TOKENS}
    yield _batch([(24, (8,))] * 16), {}
    yield _batch([(32, ())]), {}


def _below_a_prefix(lengths: list[int]) -> Batch:
    """Runs below a node that is held."""
    nodes = tuple(Node(number, 0, (0,) * length) for number, length in enumerate(lengths, 1))
    return Batch(nodes, (Read(nodes[-1].number, (0,), 0, 0),), frozenset())


def _kv(config: Config, tokens: int, dtype: torch.dtype) -> torch.Tensor:
    """As a held node has it."""
    return torch.randn(config.num_layers, 2, config.num_kv_heads, tokens, config.head_dim).to(dtype)


def _batch(trees: list[tuple[int, tuple[int, ...]]]) -> Batch:
    """Trees of a run of tokens, and runs behind it."""
    nodes: list[Node] = []
    for tokens, behind in trees:
        root = len(nodes)
        nodes.append(Node(root, -1, (0,) * tokens))
        nodes += [Node(root + 1 + i, root, (0,) * count) for i, count in enumerate(behind)]
    return Batch(tuple(nodes), (Read(len(nodes) - 1, (0,), 0, 0),), frozenset())


def _decoder(config: Config, kernel: AttentionKernel, dtype: torch.dtype) -> Decoder:
    """A few layers of the model's shape; one set of random weights serves all."""
    small = replace(config, num_layers=_LAYERS, vocab_size=1, context=2 * _PREFIX_TOKENS)
    generator = torch.Generator().manual_seed(0)

    def matrix(rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, columns, generator=generator).mul_(columns**-0.5).to(dtype)

    hidden, heads, room = config.hidden_size, config.num_heads * config.head_dim, room_for(config)
    projected = heads + 2 * config.num_kv_heads * config.head_dim
    layer = Layer(
        attention_norm=torch.ones(hidden),
        qkv=linear(matrix(projected, hidden), torch.zeros(projected, dtype=dtype) if config.attention_bias else None),
        qk_norms=torch.ones(2, config.head_dim) if config.qk_norm else None,
        attention_output=linear(matrix(hidden, heads)),
        mlp_norm=torch.ones(hidden),
        gate_up=stacked([matrix(2 * config.intermediate_size, hidden).bfloat16()], dtype, room),
        down=stacked([matrix(hidden, config.intermediate_size).bfloat16()], dtype, room),
    )
    embedding = matrix(1, hidden)
    rotation = rotations(torch.arange(small.context), config)
    return Decoder(small, (layer,) * _LAYERS, embedding, embedding, torch.ones(hidden), rotation, kernel)


def _best(run: Callable[[], object], threads: int) -> float:
    """Seconds of the fastest run, after one that compiles kernels for the shapes."""
    run()
    best, runs, undisturbed, begun = float("inf"), 0, False, perf_counter()
    spent = 0.0
    while runs < _RUNS or spent < (_SECONDS if undisturbed else _MOST_SECONDS):
        start, cpu_start = perf_counter(), process_time()
        run()
        seconds = perf_counter() - start
        undisturbed |= is_undisturbed(seconds, process_time() - cpu_start, threads)
        best, runs, spent = min(best, seconds), runs + 1, perf_counter() - begun
    return best


def _fitted(counts: np.ndarray, seconds: np.ndarray) -> list[float]:
    """The costs, none negative, with which `counts` come nearest to `seconds`, relatively; 0 is read as next to nothing."""
    rows = counts / seconds[:, None]
    used = list(range(counts.shape[1]))
    while True:
        found, *_ = np.linalg.lstsq(rows[:, used], np.ones(len(rows)), rcond=None)
        if (found > 0).all() or len(used) == 1:
            break
        del used[int(found.argmin())]
    costs = dict(zip(used, found.tolist(), strict=True))
    return [max(costs.get(i, 0.0), 1e-15) for i in range(counts.shape[1])]


@cache
def _bandwidth(threads: int) -> float:
    """Bytes/s of a copy that no cache holds: read and written. `threads`: what torch has been set to."""
    source, target = torch.ones(_COPIED), torch.empty(_COPIED)
    return 2 * source.nbytes / _best(lambda: target.copy_(source), threads)
