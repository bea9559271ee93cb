"""Messages arrive as they left, their arrays are views of the received frame, and other bytes are refused as such."""

from __future__ import annotations

import contextlib
import itertools
import sys
from typing import Any, NamedTuple, TypeVar

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from numpy.typing import NDArray
from typing_extensions import TypeAliasType

from xpsql.platform import errors
from xpsql.platform.ps._native import Frame, Frames, Outgoing
from xpsql.platform.ps.service import PULL, PUSH, Pull
from xpsql.platform.ps.transport.codec import DTYPES, Codec, WireError, describe
from xpsql.platform.ps.transport.wire import (
    HEADER,
    RAISED,
    ConnectionLimits,
    Failure,
    Method,
    Status,
    error_of,
    failure_of,
    frames,
    message,
    pack,
)


class Inner(NamedTuple):
    name: str
    rows: NDArray[np.float32]


class Outer(NamedTuple):
    number: int
    real: float
    flag: bool
    text: str
    data: bytes
    keys: NDArray[np.uint64]
    anything: NDArray[Any]
    by_name: dict[str, NDArray[np.uint32]]
    inner: Inner
    maybe: Inner | None
    many: tuple[Inner, ...]
    nested: dict[str, dict[str, int]]


class Outer2(NamedTuple):
    number: int


CODEC = Codec(Outer)
LIMITS = ConnectionLimits()


def arrays(dtype: Any) -> st.SearchStrategy[NDArray[Any]]:
    return hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))


INTEGERS = st.integers(-(2**63), 2**63 - 1)
INNERS = st.builds(Inner, st.text(max_size=9), arrays(np.float32))
OUTERS = st.builds(
    Outer,
    INTEGERS,
    st.floats(),
    st.booleans(),
    st.text(max_size=9),
    st.binary(max_size=9),
    arrays(np.uint64),
    st.sampled_from(DTYPES).flatmap(arrays),
    st.dictionaries(st.text(max_size=9), arrays(np.uint32), max_size=3),
    INNERS,
    st.none() | INNERS,
    st.lists(INNERS, max_size=3).map(tuple),
    st.dictionaries(st.text(max_size=3), st.dictionaries(st.text(max_size=3), INTEGERS, max_size=2), max_size=2),
)


def received(frame: bytes) -> Frame:
    (found,) = cut(frame, frames(LIMITS), [len(frame)])
    return found


def cut(sent: bytes, incoming: Frames, pieces: list[int]) -> list[Frame]:
    """Return the frames in bytes that come in pieces of these sizes, over and over."""
    found: list[Frame] = []
    for most in itertools.cycle(pieces):
        room = incoming.room()
        count = min(most, len(room), len(sent))
        room[:count] = sent[:count]
        sent = sent[count:]
        while (frame := incoming.take(count)) is not None:
            found.append(frame)
            count = 0
        if not sent:
            return found
    raise AssertionError("it cycles")


def whole(frame: Outgoing) -> bytes:
    return frame.next(frame.left)


def framed(sent: Outer) -> bytes:
    return whole(pack(Status.REQUEST, b"kind", 7, CODEC, sent))


def frame_rest(contents: bytes, body_bytes: int) -> NDArray[np.uint8]:
    return np.frombuffer(contents + bytes(-len(contents) % 64 + body_bytes), np.uint8)


def assert_same(one: Any, two: Any) -> None:
    assert type(one) is type(two)
    if isinstance(one, np.ndarray):
        assert one.dtype == two.dtype
        np.testing.assert_array_equal(one, two)
    elif isinstance(one, tuple):
        assert len(one) == len(two)
        for a, b in zip(one, two, strict=True):
            assert_same(a, b)
    elif isinstance(one, dict):
        assert list(one) == list(two)
        assert_same(tuple(one.values()), tuple(two.values()))
    else:
        assert one == two or (one != one and two != two)


@given(OUTERS)
def test_a_message_arrives_as_it_left(sent: Outer) -> None:
    frame = received(framed(sent))
    assert (frame.status, frame.request, frame.kind) == (Status.REQUEST, 7, b"kind".ljust(16, b"\0"))
    assert_same(message(frame, CODEC), sent)


def test_arrays_are_aligned_views_of_the_received_frame() -> None:
    inner = Inner("x", np.ones((3, 5), np.float32))
    values = np.arange(7, dtype=np.uint64), np.ones(3, np.float16)
    frame = received(framed(Outer(1, 2.0, True, "", b"", *values, {"a": np.ones(1, np.uint32)}, inner, None, (), {})))
    got = message(frame, CODEC)
    for array in (got.keys, got.anything, got.by_name["a"], got.inner.rows):
        assert np.shares_memory(array, np.asarray(frame.rest))
        assert array.__array_interface__["data"][0] % 64 == 0


def test_sending_copies_no_array() -> None:
    keys = np.arange(1000, dtype=np.uint64)
    frame = pack(Status.REQUEST, b"pull", 1, PULL.request, Pull(keys, 1000, True))
    keys[:] = 7
    assert (message(received(whole(frame)), PULL.request).keys == 7).all()


def test_an_array_that_lies_apart_in_memory_arrives_whole() -> None:
    inner = Inner("x", np.arange(12, dtype=np.float32).reshape(3, 4).T[::2])
    keys = np.arange(10, dtype=np.uint64)[::-3]
    sent = Outer(1, 2.0, True, "", b"", keys, np.ones(()), {}, inner, None, (), {})
    assert_same(message(received(framed(sent)), CODEC), sent)


@given(OUTERS, st.data())
def test_a_damaged_frame_is_refused_or_read_but_never_breaks_the_reader(sent: Outer, data: st.DataObject) -> None:
    frame = bytearray(framed(sent))
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(WireError):
        for found in cut(bytes(frame), frames(ConnectionLimits(frame_bytes=1 << 20)), [len(frame)]):
            message(found, CODEC)


@given(st.lists(st.tuples(st.integers(0, 40_000), st.integers(0, 3)), max_size=6), st.lists(st.integers(1, 9000), min_size=1))
def test_frames_are_found_in_whatever_pieces_they_come(shapes: list[tuple[int, int]], pieces: list[int]) -> None:
    codec = Codec(Inner)
    sent = [Inner("x" * (n % 50), np.full((n, axes), n, np.float32)) for n, axes in shapes]
    stream = b"".join(whole(pack(Status.ANSWER, b"kind", i, codec, one)) for i, one in enumerate(sent))
    incoming = frames(LIMITS)
    found = cut(stream, incoming, [max(piece, len(stream) // 200) for piece in pieces]) if sent else []
    assert [frame.request for frame in found] == list(range(len(sent)))
    for frame, one in zip(found, sent, strict=True):
        assert_same(message(frame, codec), one)
    assert incoming.is_between


@given(st.binary(max_size=200), st.integers(0, 500))
def test_garbage_is_refused_or_is_a_message_of_those_very_bytes(contents: bytes, body_bytes: int) -> None:
    try:
        got = CODEC.decode(frame_rest(contents, body_bytes), len(contents))
    except WireError:
        return
    assert CODEC.encode(got).contents[: len(contents)] == contents


@pytest.mark.parametrize("shape", [(2**33, 2**33), (2**63, 2), (0, 2**39, 2**39, 2**39)])
def test_an_array_of_an_absurd_shape_is_refused(shape: tuple[int, ...]) -> None:
    import struct

    class Only(NamedTuple):
        values: NDArray[np.float32]

    contents = struct.pack(f"<BB{len(shape)}Q", DTYPES.index(np.dtype("f4")), len(shape), *shape)
    with pytest.raises(WireError, match="array"):
        Codec(Only).decode(frame_rest(contents, 0), len(contents))


def test_bytes_that_are_left_over_are_refused() -> None:
    encoded = Codec(Outer2).encode(Outer2(5))
    contents = encoded.contents[: encoded.contents_bytes]
    for longer, body_bytes in ((contents + b"x", 0), (contents, 64)):
        with pytest.raises(WireError, match=r"ends \d \+ \d+ bytes before its frame"):
            Codec(Outer2).decode(frame_rest(longer, body_bytes), len(longer))
    with pytest.raises(WireError, match="ends after 7 bytes"):
        Codec(Outer2).decode(frame_rest(contents[:-1], 0), 7)
    with pytest.raises(WireError, match="a frame ends after 8 bytes"):
        Codec(Outer2).decode(np.zeros(8, np.uint8), 8)


def test_a_message_of_another_declaration_is_refused() -> None:
    frame = whole(pack(Status.REQUEST, b"kind", 7, Codec(Outer2), Outer2(5)))
    with pytest.raises(WireError, match="not the Outer of this version"):
        message(received(frame), CODEC)


def test_sizes_beyond_the_limits_are_refused_before_memory_is_taken() -> None:
    for contents, body in ((1 << 30, 0), (0, 1 << 62)):
        head = HEADER.pack(b"XPSQ", 1, 0, 0, contents, body, 1, b"kind")
        with pytest.raises(WireError, match="the limits are"):
            received(head)


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (HEADER.pack(b"HTTP", 1, 0, 0, 0, 0, 1, b"k"), "starts with"),
        (HEADER.pack(b"XPSQ", 9, 0, 0, 0, 0, 1, b"k"), "version 1 of the protocol, got 9"),
        (HEADER.pack(b"XPSQ", 1, 7, 0, 0, 0, 1, b"k"), "status 7"),
    ],
)
def test_a_header_of_something_else_is_refused_with_the_reason(head: bytes, reason: str) -> None:
    with pytest.raises(WireError, match=reason):
        received(head)


def test_a_value_of_another_type_is_refused_where_it_is_sent() -> None:
    with pytest.raises(TypeError, match=r"expected an array of uint64, got float64\(3,\)"):
        PULL.request.encode(Pull(np.ones(3), 3, True))  # type: ignore[arg-type]


def test_an_alias_is_what_it_stands_for() -> None:
    scalar = TypeVar("scalar", bound=np.generic)
    alias = TypeAliasType("alias", np.ndarray[Any, np.dtype[scalar]], type_params=(scalar,))  # as NumPy 2.5 has NDArray
    assert describe(alias[np.int64], "") == describe(np.ndarray[Any, np.dtype[np.int64]], "")
    assert describe(str | alias[np.int64], "") == describe(alias[np.int64], "")


def test_a_field_that_cannot_travel_is_refused_at_its_declaration() -> None:
    class Bad(NamedTuple):
        when: complex

    with pytest.raises(TypeError, match=r"Bad\.when cannot travel.*complex"):
        Codec(Bad)


def test_a_new_field_changes_the_checksum_and_its_name_alone_does_too() -> None:
    def declared(**fields: type) -> Any:
        return NamedTuple("Declared", list(fields.items()))  # type: ignore[misc]

    assert len({Codec(declared(**f)).checksum for f in ({"a": int}, {"a": int, "b": int}, {"c": int}, {"a": float})}) == 4
    assert PUSH.request.checksum == Codec(PUSH.request.declared).checksum


def test_every_error_travels_as_its_class_and_others_as_training_errors() -> None:
    for name, made in RAISED.items():
        error = made("what to do")
        again = error_of(failure_of(error, "push"))
        assert type(again) is type(error)
        assert type(error).__name__ == name
        assert str(again) == "what to do"
    again = error_of(failure_of(KeyError("w"), "push"))
    assert type(again) is errors.TrainingError
    assert str(again) == "push failed with KeyError: 'w'"
    assert type(error_of(Failure("Unknown", "text"))) is errors.TrainingError


def test_the_name_of_a_call_must_fit_into_the_header() -> None:
    with pytest.raises(ValueError, match="1 to 16 bytes"):
        Method("a name that is too long", Outer2, Outer2)


@pytest.mark.skipif(sys.byteorder != "little", reason="the layout is compared with this machine's")
def test_the_layout_of_a_frame_is_fixed() -> None:
    class Small(NamedTuple):
        a: int
        b: str
        c: NDArray[np.uint16]

    frame = whole(pack(Status.ANSWER, b"k", 3, Codec(Small), Small(-2, "ö", np.array([1, 2], np.uint16))))
    checksum = Codec(Small).checksum.to_bytes(4, "little")
    head = b"XPSQ" + b"\1\0" + b"\1\0" + checksum + bytes([24, 0, 0, 0]) + bytes([64, 0, 0, 0, 0, 0, 0, 0])
    head += bytes([3, 0, 0, 0, 0, 0, 0, 0]) + b"k".ljust(16, b"\0")
    contents = b"\xfe" + b"\xff" * 7 + b"\2\0\0\0\xc3\xb6" + b"\6\1" + bytes([2, 0, 0, 0, 0, 0, 0, 0])
    assert frame == head + contents.ljust(64, b"\0") + b"\1\0\2\0".ljust(64, b"\0")
