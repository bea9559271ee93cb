"""Causal encoders of users' events, HSTU and SASRec, over windows that lie side by side in strips; see `blocks/events.py`.

Two streams: what an event was, which later events see, and what is asked of it, which sees what was strictly before its moment,
and itself as it is asked. Without questions there is one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from ...platform.operators.base import DenseSpec
from ..blocks.events import Events, States
from ..learns import Parameters
from .causal_attention import BUCKETS, Ago, by_silu, softly
from .dense_layers import EPSILON, dropped
from .event_views import after, places_of, sights

BIAS, LONGEST_TURN = 0.2, 10_000.0
"""The standard deviation of new biases; how many places the slowest pair takes for an angle of 1."""
Streams = tuple[jax.Array, jax.Array | None]
"""What events were, and what is asked of them, float32[S, L, dim] both."""


class EncoderSizes(NamedTuple):
    """The sizes of an encoder.

    Attributes:
        layers, dim, heads: how many there are, and the elements of an event.
        length: the most events of a window.
        dropout: the share of elements that a training step leaves out of what a layer adds.
    """

    layers: int
    dim: int
    heads: int
    length: int
    dropout: float


class EncoderInput(NamedTuple):
    """What an encoder reads.

    Attributes:
        parameters: its own among them.
        were: float32[S, L, dim], what events were; asked: the same of what is asked of them, None where nothing is.
        random: for dropout; None: nothing is left out.
    """

    parameters: Parameters
    were: jax.Array
    asked: jax.Array | None
    events: Events
    random: jax.Array | None = None


class EventEncoder(ABC):
    """Makes of the vectors of events what is known after each, and of questions what is known before them.

    Attributes:
        specs: the dense parameters.
    """

    specs: tuple[DenseSpec, ...]

    def apply(self, read: EncoderInput) -> Streams:
        """Return both streams."""
        return self._streams(read)[0]

    def states(self, parameters: Parameters, were: jax.Array, events: Events) -> States:
        """Return the keys and values of events."""
        return self._streams(EncoderInput(parameters, were, None, events))[1]

    @abstractmethod
    def _streams(self, read: EncoderInput) -> tuple[Streams, States]:
        """Return both streams, and the keys and values of each layer."""


class Hstu(EventEncoder):
    """Hierarchical sequential transduction units: attention by SiLU in place of softmax, with a bias by place and by time.

        U, V, Q, K = split(silu(LN(x) W));   A = silu(Q K^T + place[i - j] + time[bucket(asked_i - t_j)]) / length
        y = x + (U * LN(A V)) W_o

    Source: Zhai et al., "Actions Speak Louder than Words", ICML 2024.
    """

    def __init__(self, sizes: EncoderSizes) -> None:
        self._sizes, dim = sizes, sizes.dim
        self.specs: tuple[DenseSpec, ...] = tuple(
            spec
            for n in range(sizes.layers)
            for spec in (
                DenseSpec(f"encoder_{n}.kernel", (dim, 4 * dim), glorot(900 + 10 * n, dim, 4 * dim)),
                DenseSpec(f"encoder_{n}.output", (dim, dim), glorot(901 + 10 * n, dim, dim)),
                DenseSpec(f"encoder_{n}.place", (sizes.length,)),
                DenseSpec(f"encoder_{n}.time", (BUCKETS,)),
            )
        )

    def _streams(self, read: EncoderInput) -> tuple[Streams, States]:
        (parameters, were, asked, events, random), kept = read, list[tuple[jax.Array, jax.Array]]()
        (before, earlier), (known, wanted) = sights(events), agos(events)
        for n in range(self._sizes.layers):
            own = {name: parameters[f"encoder_{n}.{name}"] for name in ("kernel", "output", "place", "time")}
            biases = own["place"], own["time"]
            u, v, q, k = self._split(own["kernel"], were)
            kept.append((k, v))
            k, v = after(events.prefix, n, k, v)
            later = were + self._added(own["output"], u, by_silu(q, k, v, before, *biases, known), random, 2 * n)
            if asked is not None:
                u, self_v, q, self_k = self._split(own["kernel"], asked)
                past = by_silu(q, k, v, earlier, *biases, wanted)
                itself = jax.nn.silu((q * self_k).sum(axis=3) + own["place"][0] + own["time"][0]) / self._sizes.length
                asked = asked + self._added(own["output"], u, past + itself[..., None] * self_v, random, 2 * n + 1)
            were = later
        return (were, asked), tuple(kept)

    def _split(self, kernel: jax.Array, x: jax.Array) -> list[jax.Array]:
        """Return U, V, Q and K, float32[S, L, heads, dim / heads] each."""
        strips, length, dim = x.shape
        made = jax.nn.silu(normed(x) @ kernel).reshape(strips, length, 4, self._sizes.heads, dim // self._sizes.heads)
        return [made[:, :, part] for part in range(4)]

    def _added(self, kernel: jax.Array, u: jax.Array, seen: jax.Array, random: jax.Array | None, number: int) -> jax.Array:
        flat = (*u.shape[:2], self._sizes.dim)
        gated = u.reshape(flat) * normed(seen.reshape(flat))
        if self._sizes.dropout and random is not None:
            gated = dropped(gated, self._sizes.dropout, random, 300 + number)
        return gated @ kernel


class Sasrec(EventEncoder):
    """A causal transformer: attention by softmax with rotary places, and a network over each event.

    Queries and keys, with a bias each, are turned by angles in proportion to their places, so that their products depend on how
    many places lie between: what is learned of them holds in sequences longer than those that were learned from.

    Source: Kang and McAuley, "Self-Attentive Sequential Recommendation", ICDM 2018, with its learned places replaced: Su et
    al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021.
    """

    def __init__(self, sizes: EncoderSizes) -> None:
        self._sizes, dim = sizes, sizes.dim
        self.specs: tuple[DenseSpec, ...] = tuple(
            spec
            for n in range(sizes.layers)
            for spec in (
                DenseSpec(f"encoder_{n}.kernel", (dim, 3 * dim), glorot(900 + 10 * n, dim, 3 * dim)),
                DenseSpec(f"encoder_{n}.bias", (2 * dim,), normal(904 + 10 * n, BIAS, (2 * dim,))),
                DenseSpec(f"encoder_{n}.output", (dim, dim), glorot(901 + 10 * n, dim, dim)),
                DenseSpec(f"encoder_{n}.first", (dim, dim), glorot(902 + 10 * n, dim, dim)),
                DenseSpec(f"encoder_{n}.first_bias", (dim,)),
                DenseSpec(f"encoder_{n}.second", (dim, dim), glorot(903 + 10 * n, dim, dim)),
                DenseSpec(f"encoder_{n}.second_bias", (dim,)),
            )
        )

    def _streams(self, read: EncoderInput) -> tuple[Streams, States]:
        (parameters, were, asked, events, random), kept = read, list[tuple[jax.Array, jax.Array]]()
        prefix, (before, earlier), (begun, place, opens) = events.prefix, sights(events), places_of(events)
        begun = begun if prefix is None else begun - prefix.size
        known, wanted = (turns(at - begun, self._sizes.dim // self._sizes.heads) for at in (place, opens))
        for n in range(self._sizes.layers):
            q, k, v = self._split(parameters, n, were, known)
            kept.append((k, v))
            k, v = after(prefix, n, k, v)
            later = self._through(parameters, n, were, softly(q, k, v, before), random, 0)
            if asked is not None:
                q, self_k, self_v = self._split(parameters, n, asked, wanted)
                past = softly(q, k, v, earlier, (self_k, self_v))
                asked = self._through(parameters, n, asked, past, random, 1)
            were = later
        return (normed(were), None if asked is None else normed(asked)), tuple(kept)

    def _split(self, parameters: Parameters, n: int, x: jax.Array, angles: tuple[jax.Array, jax.Array]) -> list[jax.Array]:
        """Return Q and K, turned, and V, float32[S, L, heads, dim / heads] each."""
        strips, length, dim = x.shape
        made = normed(x) @ parameters[f"encoder_{n}.kernel"] + jnp.pad(parameters[f"encoder_{n}.bias"], (0, dim))
        parts = made.reshape(strips, length, 3, self._sizes.heads, dim // self._sizes.heads)
        return [*(turned(parts[:, :, part], angles) for part in range(2)), parts[:, :, 2]]

    def _through(
        self, parameters: Parameters, n: int, x: jax.Array, seen: jax.Array, random: jax.Array | None, stream: int
    ) -> jax.Array:
        """Return what a layer makes of a stream, after attention."""
        own = {name: parameters[f"encoder_{n}.{name}"] for name in ("output", "first", "first_bias", "second", "second_bias")}
        x = x + self._thinned(seen.reshape(x.shape) @ own["output"], random, 4 * n + 2 * stream)
        hidden = jax.nn.relu(normed(x) @ own["first"] + own["first_bias"])
        return x + self._thinned(hidden @ own["second"] + own["second_bias"], random, 4 * n + 2 * stream + 1)

    def _thinned(self, x: jax.Array, random: jax.Array | None, number: int) -> jax.Array:
        return dropped(x, self._sizes.dropout, random, 300 + number) if self._sizes.dropout and random is not None else x


ENCODERS: dict[str, Callable[[EncoderSizes], EventEncoder]] = {"hstu": Hstu, "sasrec": Sasrec}


def turns(places: jax.Array, size: int) -> tuple[jax.Array, jax.Array]:
    """Return the sines and cosines of the angles at places, int32[S, L], float32[S, L, 1, size // 2] each."""
    pairs = size // 2
    rates = LONGEST_TURN ** (-jnp.arange(pairs) / max(1, pairs))
    angles = (places[:, :, None] * rates)[:, :, None]
    return jnp.sin(angles), jnp.cos(angles)


def turned(x: jax.Array, by: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Return float32[S, L, heads, size] whose first half and second half are turned as pairs; an odd last element stays."""
    sine, cosine = by
    pairs = sine.shape[3]
    one, other = x[..., :pairs], x[..., pairs : 2 * pairs]
    return jnp.concatenate([one * cosine - other * sine, one * sine + other * cosine, x[..., 2 * pairs :]], axis=3)


def agos(events: Events) -> tuple[Ago, Ago]:
    """Return how far back what events see stands of them, and of questions."""
    prefix, (_, place, opens) = events.prefix, places_of(events)
    cells, seconds = jax.lax.iota(jnp.int32, events.window.shape[1]), events.seconds
    if prefix is not None:
        cells = jnp.concatenate([jax.lax.iota(jnp.int32, prefix.mask.shape[1]) - prefix.size, cells])
        seconds = jnp.concatenate([prefix.seconds, seconds], axis=1)
    return Ago(place, events.until, cells, seconds), Ago(opens, events.seconds, cells, seconds)


def normed(x: jax.Array) -> jax.Array:
    """Return x with each vector less its mean, over its standard deviation; without gain and bias, which layers have."""
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred * centred).mean(axis=-1, keepdims=True) + EPSILON)


def glorot(number: int, inputs: int, units: int) -> Callable[[int], jax.Array]:
    """Return an initializer that keeps the variance of what goes through a linear layer.

    Source: Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks", AISTATS 2010.
    """

    def init(seed: int) -> jax.Array:
        limit = (6 / (inputs + units)) ** 0.5
        return jax.random.uniform(keyed(seed, number), (inputs, units), minval=-limit, maxval=limit)

    return init


def normal(number: int, scale: float, shape: tuple[int, ...]) -> Callable[[int], jax.Array]:
    """Return an initializer with this standard deviation."""
    return lambda seed: scale * jax.random.normal(keyed(seed, number), shape)


def keyed(seed: int, number: int) -> jax.Array:
    return jax.random.fold_in(jax.random.key(seed), number)
