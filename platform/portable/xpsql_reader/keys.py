"""Keys of features in Python without dependencies: XXH64 as Spark's xxhash64 uses it. Run it to check the test vectors.

Source: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md
"""

from __future__ import annotations

import datetime

MASK = (1 << 64) - 1
P1, P2, P3, P4, P5 = (
    0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5,
)  # fmt: skip


def rotated(x: int, bits: int) -> int:
    return ((x << bits) | (x >> (64 - bits))) & MASK


def mixed(accumulator: int, lane: int) -> int:
    return rotated((accumulator + lane * P2) & MASK, 31) * P1 & MASK


def xxh64(data: bytes, seed: int) -> int:
    """Return the hash of bytes, from 0 to 2^64 - 1."""
    at, lanes = 0, [(seed + P1 + P2) & MASK, (seed + P2) & MASK, seed, (seed - P1) & MASK]
    if len(data) >= 32:
        while at + 32 <= len(data):
            lanes = [mixed(a, int.from_bytes(data[at + 8 * i : at + 8 * i + 8], "little")) for i, a in enumerate(lanes)]
            at += 32
        h = sum(rotated(a, bits) for a, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & MASK
        for lane in lanes:
            h = ((h ^ mixed(0, lane)) * P1 + P4) & MASK
    else:
        h = (seed + P5) & MASK
    h = (h + len(data)) & MASK
    for size, multiply in ((8, None), (4, P1), (1, P5)):
        while at + size <= len(data):
            part, at = int.from_bytes(data[at : at + size], "little"), at + size
            if multiply is None:
                h = (rotated(h ^ mixed(0, part), 27) * P1 + P4) & MASK
            else:
                bits, factor, more = (23, P2, P3) if size == 4 else (11, P1, 0)
                h = (rotated(h ^ (part * multiply & MASK), bits) * factor + more) & MASK
    h = (h ^ (h >> 33)) * P2 & MASK
    h = (h ^ (h >> 29)) * P3 & MASK
    return h ^ (h >> 32)


def text(value: object) -> str:
    """Return CAST(value AS STRING) of a string, a bool, an int or a date of the years 0 to 9999."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def mixed_id(number: int) -> int:
    """Return the key of an id of a `raw` slot: by the finalizer of MurmurHash3, of which no two ids have the same."""
    number &= MASK
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        number = (number ^ (number >> 33)) * factor & MASK
    return number ^ (number >> 33)


def feature_key(source: str, value: str | int | datetime.date | None, hashed: bool = False, raw: bool = False) -> int:
    """Return the key of a slot's value as a signed number. None is NULL; an id of a `hashed` slot is hashed as a BIGINT, one of
    a `raw` slot is mixed."""
    key = xxh64(source.encode(), 42)
    if value is not None and raw:
        key = mixed_id(int(value))  # type: ignore[arg-type]  # ids are whole numbers
    elif value is not None and hashed:
        key = xxh64(int(value).to_bytes(8, "little", signed=True), key)  # type: ignore[arg-type]
    elif value is not None:
        key = xxh64(text(value).encode(), key)
    return key - (1 << 64) if key >> 63 else key


def microseconds(time: int | datetime.date) -> int:
    """Return the microseconds since 1970 of a time: seconds, a date, or a timestamp, in UTC where it has no zone."""
    if isinstance(time, int):
        return time * 1_000_000
    clock = time if isinstance(time, datetime.datetime) else datetime.datetime(time.year, time.month, time.day)
    since = clock.replace(tzinfo=clock.tzinfo or datetime.UTC) - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return since // datetime.timedelta(microseconds=1)


def cross(*values: str | int | datetime.date | None) -> str:
    """Return the text of a cross's value."""
    return "|".join(r"\N" if v is None else text(v).replace("\\", r"\\").replace("|", r"\|") for v in values)


VECTORS = {
    ("user", "u1"): -8241375676958026183,
    ("user", None): -1532664220361910950,
    ("user", ""): 1705408381980764857,
    ("ad", 3): -3594054186245220787,
    ("ad", 3, True): 4271338076416166969,
    ("ad", -9223372036854775808): 5957138986803994861,
    ("seen", True): 7319008750547728376,
    ("day", datetime.date(2024, 1, 31)): 6560628324614015879,
    ("city", "Zürich"): -237676668286717527,
    ("text", "x" * 100): -7059122269338611833,
}
if __name__ == "__main__":
    for arguments, key in VECTORS.items():
        assert feature_key(*arguments) == key, arguments  # type: ignore[arg-type]
    print(f"{len(VECTORS)} keys are right.")
