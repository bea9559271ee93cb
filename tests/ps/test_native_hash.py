"""The bindings of the hash: bitmaps, offsets, seeds, and arguments that do not fit. Values are held in test_keys."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xpsql.platform.ps._native import hash_bytes, hash_int32, hash_int64, hash_int64_text

DATA = np.frombuffer(b"onetwothree", np.uint8)
OFFSETS = np.array([0, 3, 6, 11], np.int32)


@given(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 10**9), st.integers(0, 2**64 - 1))
def test_the_text_of_a_number_hashes_as_its_string(number: int, seed: int) -> None:
    text = np.frombuffer(str(number).encode(), np.uint8)
    expected = hash_bytes(np.array([0, len(text)], np.int64), text, None, 0, seed)
    assert hash_int64_text(np.array([number]), None, 0, seed).tolist() == expected.tolist()


@pytest.mark.parametrize("bit_offset", [0, 1, 7, 8])
def test_a_null_keeps_its_seed(bit_offset: int) -> None:
    valid = np.array([1, 0, 1], np.uint8)
    bitmap = np.packbits(np.concatenate([np.zeros(bit_offset, np.uint8), valid]), bitorder="little")
    seeds = np.array([5, 6, 7], np.uint64)
    values = np.array([10, 20, 30])
    hashes = hash_int64(values, bitmap, bit_offset, seeds)
    assert hashes.tolist() == [*hash_int64(values[:1], None, 0, 5).tolist(), 6, *hash_int64(values[2:], None, 0, 7).tolist()]


def test_offsets_of_both_widths_give_the_same() -> None:
    assert hash_bytes(OFFSETS, DATA).tolist() == hash_bytes(OFFSETS.astype(np.int64), DATA).tolist()


def test_arrays_of_jax_are_taken() -> None:
    assert hash_int32(jnp.arange(5)).tolist() == hash_int32(np.arange(5, dtype=np.int32)).tolist()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((OFFSETS[::-1].copy(), DATA), ValueError, "offsets must ascend"),
        ((OFFSETS, DATA[:10]), ValueError, "stay within data"),
        ((np.array([-1, 3], np.int32), DATA), ValueError, "stay within data"),
        ((np.empty(0, np.int32), DATA), ValueError, "one element more"),
        ((OFFSETS.astype(np.int16), DATA), TypeError, r"offsets must be a C-contiguous array int64\[n\], got int16\[4\]"),
        ((OFFSETS, DATA, np.empty(0, np.uint8)), ValueError, "validity must hold 3 bits, got 0 bytes"),
        ((OFFSETS, DATA, None, 0, np.zeros(2, np.uint64)), ValueError, r"seeds must be .* uint64\[3\], got uint64\[2\]"),
        ((OFFSETS, DATA, None, 0, np.zeros(3)), TypeError, "got float64"),
        ((OFFSETS, DATA, None, 0, -1), ValueError, "seeds must lie in"),
        ((OFFSETS, DATA, None, 0, "seed"), TypeError, "seeds"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_in_words(arguments, error, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=message):
        hash_bytes(*arguments)


def test_the_text_of_every_length_of_number_hashes_as_its_string() -> None:
    numbers = [sign * (10**power + step) for power in range(18) for step in (-1, 0, 1) for sign in (1, -1)]
    texts = [np.frombuffer(str(number).encode(), np.uint8) for number in numbers]
    offsets = np.cumsum([0, *map(len, texts)])
    assert hash_int64_text(np.array(numbers)).tolist() == hash_bytes(offsets, np.concatenate(texts)).tolist()
