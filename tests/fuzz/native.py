"""The readers of bytes in native code, and the ones that libFuzzer calls without Python between (native.cpp).

The first bytes of an input say what is read; missing ones are zeros.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from xpsql.platform.ps import _native, service
from xpsql.platform.ps._native import Arguments, Image, Layout
from xpsql.platform.ps.transport.codec import Codec, WireError
from xpsql.platform.ps.transport.wire import FAILURE, ConnectionLimits, Method, frames, message
from xpsql.platform.scoring import tasks as scoring
from xpsql.platform.training.checkpoints.driver_state import DRIVER_STATE
from xpsql.platform.training.checkpoints.files import STATE
from xpsql.platform.training.packaged import rounds as packaged
from xpsql.platform.training.solved import solver_rounds as solved
from xpsql.platform.training.tasks import job, messages, remote_checkpoints

LIMITS = ConnectionLimits(frame_bytes=1 << 20, contents_bytes=1 << 16)
ROOMS: tuple[ModuleType, ...] = (service, scoring, packaged, solved, job, messages, remote_checkpoints)
LAYOUTS = (
    Layout(
        [("n", "float32", ())], [("w", "float32", (1,)), ("c", "uint32", ())], [("v", "float32", (8,)), ("u", "uint16", (3,))]
    ),
    Layout([], [], [("@mask", "bool", ())]),
    Layout([("i", "int32", ()), ("m", "uint32", ())], [("x", "int32", ())], [("wide", "float32", (1 << 58,))]),
)
LAYOUT_INPUTS = (("n", "w", "c", "v", "u"), ("@mask",), ("i", "m", "x", "wide"))
NUMBERS = frozenset("nim")
MOST_ROWS, LEAST_REFUSED = 4096, 1 << 58


def codecs() -> dict[int, Codec[Any]]:
    """Return how each message is read that a connection or a checkpoint may have, by checksum."""
    methods = [value for room in ROOMS for value in vars(room).values() if isinstance(value, Method)]
    found = [codec for method in methods for codec in (method.request, method.answer)]
    return {codec.checksum: codec for codec in (*found, FAILURE, STATE, DRIVER_STATE)}


class Bytes:
    """Bytes of an input, from its beginning; zeros beyond its end."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def number(self, size: int) -> int:
        taken, self.data = self.data[:size], self.data[size:]
        return int.from_bytes(taken, "little")


def of_frames(folder: Path) -> Callable[[bytes], bool]:
    """Bytes of a connection: the first says how many come at a time."""
    known = codecs()

    def target(data: bytes) -> bool:
        cut, taken, step = frames(LIMITS), False, 1 + (data[0] if data else 0) * 7
        rest = memoryview(data)[1:]
        try:
            while rest:
                room = cut.room()
                count = min(len(room), len(rest), step)
                room[:count] = rest[:count]
                rest = rest[count:]
                frame = cut.take(count)
                while frame is not None:
                    if frame.checksum in known:
                        message(frame, known[frame.checksum])
                        taken = True
                    frame = cut.take(0)
        except WireError:
            return taken
        return taken

    return target


def of_messages(folder: Path) -> Callable[[bytes], bool]:
    """A message: the first byte names its declaration, two the length of its table of contents."""
    known = list(codecs().values())

    def target(data: bytes) -> bool:
        given = Bytes(data)
        codec, contents_bytes = known[given.number(1) % len(known)], given.number(2)
        try:
            codec.encode(codec.decode(np.frombuffer(given.data, np.uint8).copy(), contents_bytes))
        except WireError:
            return False
        return True

    return target


def of_arguments(folder: Path) -> Callable[[bytes], bool]:
    """What a program is passed: its layout, eight bytes of rows, and of each array the axes, lengths, and bytes of an item."""

    def target(data: bytes) -> bool:
        given = Bytes(data)
        layout = given.number(1) % len(LAYOUTS)
        size = given.number(8)
        if MOST_ROWS < size < LEAST_REFUSED:  # more than the machine has, which is refused before: see service.py
            return False
        try:
            memory = Arguments(LAYOUTS[layout], size)
        except (MemoryError, ValueError):
            return False
        values: dict[str, Any] = {}
        content = given.data
        for name in LAYOUT_INPUTS[layout]:
            kind = given.number(1)
            if kind < 254 and name in NUMBERS:
                values[name] = int.from_bytes(given.number(8).to_bytes(8, "little"), "little", signed=True)
            elif kind < 254:
                lengths, item = (given.number(2), given.number(1))[: kind % 3], 1 + given.number(1) % 16
                if int(np.prod(lengths)) * item <= len(given.data):
                    values[name] = np.ndarray(lengths, f"V{item}", content)
            elif kind == 254:
                values[name] = None
        try:
            memory.put(values)
        except (TypeError, ValueError):
            return False
        return all(array is not None for array in memory.arrays)

    return target


def of_image(folder: Path) -> Callable[[bytes], bool]:
    """An image of rows, after the first key that is looked up; its magic is made right."""

    def target(data: bytes) -> bool:
        given = Bytes(data)
        key = given.number(8)
        memory = np.zeros(len(given.data) // 8 + 1, np.uint64).view(np.uint8)[: len(given.data)]
        memory[:] = np.frombuffer(given.data, np.uint8)
        if len(memory) >= 64:
            memory[:12] = np.frombuffer(b"XPSQLROW\2\0\0\0", np.uint8)
        try:
            image = Image(memory)
        except ValueError:
            return False
        keys = np.uint64(key) + np.arange(40, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        image.gather(keys, [(0, np.empty((len(keys), image.width), np.float32))])
        return True

    return target


def run(name: str, options: Sequence[str]) -> None:
    """Let libFuzzer try a reader until it ends the process; the module must have been built by scripts/fuzz."""
    schemas = {checksum: codec._schema for checksum, codec in codecs().items()}
    objects = (name, schemas, lambda: frames(LIMITS), list(LAYOUTS), list(options))
    ctypes.PyDLL(_native.__file__).fuzz(*map(ctypes.py_object, objects))
