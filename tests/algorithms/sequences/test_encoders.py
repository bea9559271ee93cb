"""Causal encoders against loops in NumPy, and what each event may see."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import costly, costly_after_first, lengthy
from xpsql.algorithms.blocks.events import Prefix
from xpsql.algorithms.layers import causal_attention
from xpsql.algorithms.layers.causal import ENCODERS, EncoderInput, EncoderSizes
from xpsql.platform.training.online.kept_past import part, start_of_last

from .events import ABSENT_ROW, cut, event_rows

DIM, LENGTH = 8, 6
SIZES = EncoderSizes(2, DIM, 2, LENGTH, 0.0)


def silu(x):
    return x / (1 + np.exp(-x))


def norm(x):
    return (x - x.mean()) / np.sqrt(x.var() + 1e-5)


def halves(x):
    return x.reshape(SIZES.heads, -1)


def bucket(seconds):
    return min(127, max(0, int(np.log(max(1, seconds)) / 0.301)))


def hstu_event(p, n, x, others, asked):
    """Return what a layer makes of x, which sees `others`: (vector before the layer, how far back, seconds)."""
    u, _, q, _ = np.split(silu(norm(x) @ p[f"encoder_{n}.kernel"]), 4)
    total = np.zeros((SIZES.heads, DIM // SIZES.heads))
    for other, back, seconds in others:
        _, v, _, k = np.split(silu(norm(other) @ p[f"encoder_{n}.kernel"]), 4)
        bias = p[f"encoder_{n}.place"][min(back, LENGTH - 1)] + p[f"encoder_{n}.time"][bucket(seconds)]
        total += (silu((halves(q) * halves(k)).sum(1) + bias) / LENGTH)[:, None] * halves(v)
    return x + (u * norm(total.reshape(-1))) @ p[f"encoder_{n}.output"]


def turned(x, back):
    """Return keys of each head, turned back by so many places: pairs by angles of 10,000^-(number / pairs) a place."""
    pairs = x.shape[1] // 2
    angles = -back * 10_000.0 ** (-np.arange(pairs) / pairs)
    one, other = x[:, :pairs], x[:, pairs : 2 * pairs]
    found = one * np.cos(angles) - other * np.sin(angles), one * np.sin(angles) + other * np.cos(angles)
    return np.concatenate([*found, x[:, 2 * pairs :]], axis=1)


def sasrec_event(p, n, x, others, asked):
    """Return the same for SASRec."""
    bias = np.split(p[f"encoder_{n}.bias"], 2)
    q = np.split(norm(x) @ p[f"encoder_{n}.kernel"], 3)[0] + bias[0]
    scores, values = [], []
    for other, back, _ in others:
        _, k, v = np.split(norm(other) @ p[f"encoder_{n}.kernel"], 3)
        scores.append((halves(q) * turned(halves(k + bias[1]), back)).sum(1) / np.sqrt(DIM // SIZES.heads))
        values.append(halves(v))
    weights = np.exp(np.array(scores) - np.max(scores, axis=0))
    seen = ((weights / weights.sum(0))[:, :, None] * np.array(values)).sum(0).reshape(-1)
    x = x + seen @ p[f"encoder_{n}.output"]
    hidden = np.maximum(norm(x) @ p[f"encoder_{n}.first"] + p[f"encoder_{n}.first_bias"], 0)
    return x + hidden @ p[f"encoder_{n}.second"] + p[f"encoder_{n}.second_bias"]


EVENT = {"hstu": hstu_event, "sasrec": sasrec_event}


def oracle(name, p, were, asked, times):
    """Return both streams of one window by loops: a question is appended to the events before its moment, one at a time."""
    length, layer = len(times), EVENT[name]
    opens = [times.index(time) for time in times]
    until = [next((t for t in times[i:] if t > times[i]), times[i]) for i in range(length)]
    states = [list(were)]
    for n in range(SIZES.layers):
        x = states[-1]
        states.append(
            [layer(p, n, x[i], [(x[j], i - j, until[i] - times[j]) for j in range(i + 1)], False) for i in range(length)]
        )
    questions = []
    for i in range(length):
        x = asked[i]
        for n in range(SIZES.layers):
            others = [(states[n][j], opens[i] - j, times[i] - times[j]) for j in range(i) if times[j] < times[i]]
            x = layer(p, n, x, [*others, (x, 0, 0)], True)
        questions.append(x)
    last = [norm(x) for x in states[-1]] if name == "sasrec" else states[-1]
    return np.array(last), np.array([norm(x) for x in questions] if name == "sasrec" else questions)


def parameters_of(encoder, seed):
    random = np.random.default_rng(seed)
    return {spec.name: random.normal(0, 0.5, spec.shape).astype(np.float32) for spec in encoder.specs}


def encoded(name, p, batch, were, asked):
    """Return the streams of the cells that events have, by the number of the event: were and asked are of events."""
    rows = np.asarray(batch.rows)[0]
    index = np.where(batch.mask, rows, 0)
    found = ENCODERS[name](SIZES).apply(EncoderInput(p, jnp.asarray(were[index]), jnp.asarray(asked[index]), batch))
    return [np.asarray(one).reshape(-1, DIM)[batch.own] for one in found]


@costly_after_first
@pytest.mark.parametrize("name", ENCODERS)
@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 400), min_size=1, max_size=LENGTH), st.integers(0, 5), st.integers(0, 100))
def test_both_streams_are_those_of_loops_over_the_events(name, times, others, seed):
    times, random = sorted(times), np.random.default_rng(seed)
    n = len(times)
    were, asked = random.normal(size=(2, n + others, DIM)).astype(np.float32)
    batch = cut(event_rows([7] * n + [9] * others, [*times, *range(others)], LENGTH))
    p = parameters_of(ENCODERS[name](SIZES), seed)
    found = encoded(name, p, batch, were, asked)
    for stream, expected in zip(found, oracle(name, p, were[:n], asked[:n], times), strict=True):
        np.testing.assert_allclose(stream[:n], expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", ENCODERS)
def test_what_an_event_was_changes_no_answer_at_its_moment_or_before(name):
    random = np.random.default_rng(1)
    times = [10, 20, 20, 20, 35, 50]
    were, asked = random.normal(size=(2, 6, DIM)).astype(np.float32)
    batch = cut(event_rows([7] * 6, times, LENGTH))
    p = parameters_of(ENCODERS[name](SIZES), 1)
    before = encoded(name, p, batch, were, asked)[1]
    for changed in range(6):
        other = were.copy()
        other[changed] = random.normal(size=DIM)
        after = encoded(name, p, batch, other, asked)[1]
        same = [i for i in range(6) if times[i] <= times[changed]]
        assert np.array_equal(before[same], after[same])
        later = [i for i in range(6) if times[i] > times[changed]]
        assert all(not np.allclose(before[i], after[i]) for i in later)


@pytest.mark.parametrize("name", ENCODERS)
def test_a_question_changes_only_its_own_answer(name):
    random = np.random.default_rng(2)
    were, asked = random.normal(size=(2, 4, DIM)).astype(np.float32)
    batch = cut(event_rows([7] * 4, [1, 2, 2, 3], LENGTH))
    p = parameters_of(ENCODERS[name](SIZES), 2)
    events, answers = encoded(name, p, batch, were, asked)
    other = asked.copy()
    other[1] = random.normal(size=DIM)
    events_after, answers_after = encoded(name, p, batch, were, other)
    assert np.array_equal(events, events_after)
    assert np.array_equal(answers[[0, 2, 3]], answers_after[[0, 2, 3]])
    assert not np.allclose(answers[1], answers_after[1])


@pytest.mark.parametrize("name", ENCODERS)
def test_other_users_and_padding_change_nothing(name):
    random = np.random.default_rng(3)
    were, asked = random.normal(size=(2, 12, DIM)).astype(np.float32)
    p = parameters_of(ENCODERS[name](SIZES), 3)
    alone = encoded(name, p, cut(event_rows([7] * 5, range(5), LENGTH)), were[:5], asked[:5])
    users = [7] * 5 + [1] * 3 + [2] * 4
    among = encoded(name, p, cut(event_rows(users, [*range(5), *range(3), *range(4)], LENGTH)), were, asked)
    for one, other in zip(alone, among, strict=True):
        np.testing.assert_allclose(one, other[:5], rtol=1e-5, atol=1e-6)


@lengthy
@pytest.mark.parametrize("name", ENCODERS)
def test_gradients_are_those_of_differences(name):
    encoder, random = ENCODERS[name](SIZES), np.random.default_rng(4)
    were, asked = (jnp.asarray(one) for one in random.normal(size=(2, 1, 16, DIM)).astype(np.float32))
    batch = cut(event_rows([7] * 5, [1, 2, 2, 30, 900], LENGTH))
    batch = batch._replace(
        **{
            key: np.pad(getattr(batch, key), ((0, 0), (0, 16 - batch.mask.shape[1])))
            for key in ("mask", "moment", "seconds", "until")
        },
        window=np.pad(batch.window, ((0, 0), (0, 16 - batch.mask.shape[1])), constant_values=-1),
    )
    p = {key: jnp.asarray(value) for key, value in parameters_of(encoder, 4).items()}

    def total(p):
        one, other = encoder.apply(EncoderInput(p, were, asked, batch))
        return ((one[0, :5] ** 2).sum() + (other[0, :5] ** 3).sum()) / 10

    gradients = jax.grad(total)(p)
    for key in p:
        direction = random.normal(size=p[key].shape).astype(np.float32)
        step = 1e-2 * direction / np.linalg.norm(direction)
        ahead, behind = (float(total({**p, key: p[key] + sign * step})) for sign in (1, -1))
        slope = float((gradients[key] * step).sum())
        assert slope == pytest.approx((ahead - behind) / 2, rel=0.05, abs=2e-4), key


@costly
@pytest.mark.parametrize("name", ENCODERS)
def test_candidates_behind_a_prefix_that_layers_have_read_are_answered_as_behind_its_events(name):
    draw = np.random.default_rng(3)
    times = sorted(draw.integers(0, 40, 17).tolist()) + [60] * 5
    sizes = EncoderSizes(2, DIM, 2, 32, 0.0)
    encoder, n = ENCODERS[name](sizes), len(times)
    parameters = {spec.name: jnp.asarray(draw.normal(size=spec.shape), jnp.float32) for spec in encoder.specs}
    events = cut(event_rows([1] * n, times, 32))
    first, cells = start_of_last(events, n), events.mask.shape[1]
    assert first == 0, "not all ask for one moment"
    asking = events._replace(own=np.asarray(events.own)[17:], before=np.asarray(events.before)[17:])
    first = start_of_last(asking, 5)
    assert times[first] == times[16] > times[first - 1]
    were, asked = (jnp.asarray(draw.normal(size=(1, cells, DIM)), jnp.float32) for _ in range(2))
    _, whole = encoder.apply(EncoderInput(parameters, were, asked, events))
    past, rest = part(events, 0, first, 32, ABSENT_ROW), part(events, first, n, 16, ABSENT_ROW)
    padded = jnp.zeros((1, 32 - first, DIM))
    states = encoder.states(parameters, jnp.concatenate([were[:, :first], padded], axis=1), past)
    prefix = Prefix(states, past.seconds, past.mask, jnp.int32(first))
    padded = jnp.zeros((1, 16 - (n - first), DIM))
    of_rest = [jnp.concatenate([one[:, first:n], padded], axis=1) for one in (were, asked)]
    _, found = encoder.apply(EncoderInput(parameters, *of_rest, rest._replace(prefix=prefix)))
    np.testing.assert_allclose(found[0, 17 - first : n - first], whole[0, 17:n], atol=2e-5)


def runs_of(random, strips, length):
    """Return what cells see: neighbours from one up to another, and for some nothing."""
    low = random.integers(0, length, (strips, length))
    return low.astype(np.int32), np.minimum(length, low + random.integers(0, length, low.shape)).astype(np.int32)


@pytest.mark.parametrize("name", ["soft", "silu"])
@pytest.mark.parametrize(("strips", "length", "heads", "width"), [(1, 1, 1, 3), (3, 37, 2, 8), (2, 130, 1, 40)])
def test_native_attention_and_its_gradients_are_those_of_jax(name, strips, length, heads, width):
    random = np.random.default_rng(length)
    floats = [random.normal(size=(strips, length, heads, width)).astype(np.float32) for _ in range(3)]
    numbers = list(runs_of(random, strips, length))
    native, anywhere = causal_attention.soft_runs, causal_attention.soft_anywhere
    if name == "silu":
        native, anywhere = causal_attention.silu_runs, causal_attention.silu_anywhere
        floats += [random.normal(size=size).astype(np.float32) for size in (50, causal_attention.BUCKETS)]
        numbers += [random.integers(0, most, (strips, length)).astype(np.int32) for most in (length, 2_000_000, 1_000_000)]
    outer = [jnp.asarray(random.normal(size=(strips, length, heads, n)), jnp.float32) for n in (width, 1)]

    def told(function):
        def loss(*floats):
            found = function(*floats, *map(jnp.asarray, numbers))
            seen, total = found if isinstance(found, tuple) else (found, jnp.zeros((strips, length, heads)))
            return (seen * outer[0]).sum() + (
                jnp.where(numbers[0][..., None] < numbers[1][..., None], total, 0) * outer[1][..., 0]
            ).sum()

        return jax.jit(jax.value_and_grad(loss, argnums=tuple(range(len(floats)))))(*floats)

    for own, expected in zip(jax.tree.leaves(told(native)), jax.tree.leaves(told(anywhere)), strict=True):
        np.testing.assert_allclose(own, expected, rtol=2e-4, atol=2e-4)
