"""Native code of the parameter server: hashing, uniqueness, placement on shards, counters and the row store.

Every function releases the GIL. Inputs are C-contiguous CPU arrays of exactly the dtype named, read-only ones included (NumPy,
JAX, Arrow buffers); a wrong dtype is a TypeError, a wrong shape a ValueError.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

_Validity: TypeAlias = npt.NDArray[np.uint8] | None
_Encoded: TypeAlias = tuple[
    npt.NDArray[np.uint64],
    npt.NDArray[np.int32],
    npt.NDArray[np.int32],
    npt.NDArray[np.int32],
    npt.NDArray[np.int32],
    npt.NDArray[np.float32],
    npt.NDArray[np.float32],
    npt.NDArray[np.int32],
]
_Seeds: TypeAlias = int | npt.NDArray[np.uint64]

def memory(size: int) -> npt.NDArray[np.uint8]:
    """Return uninitialised bytes that start where XLA wants arrays; see aligned.py."""

def set_threads(count: int) -> None:
    """Let so many threads of this process work on the rows of a store at once, the calling one included; 1 until it is set.
    What comes out is the same."""

def keep_freed_memory(bytes: int) -> None:
    """Let all threads of this process that are still to come take memory from one pool, and let it keep so many freed bytes, so
    that requests of one size after the other take the same pages. Means nothing but with glibc."""

def hash_bytes(
    offsets: npt.NDArray[np.int32] | npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    validity: _Validity = None,
    bit_offset: int = 0,
    seeds: _Seeds = 42,
) -> npt.NDArray[np.uint64]:
    """Hash byte strings with XXH64; a NULL keeps its seed.

    Args:
        offsets: n + 1 ascending positions in `data`; value i is data[offsets[i] : offsets[i + 1]].
        data: the bytes of all values.
        validity: Arrow's bitmap, bit `bit_offset + i` of value i; None where nothing is NULL.
        bit_offset: the bitmap's first bit.
        seeds: one for all, or uint64[n]: the hashes of the columns before.

    Returns:
        uint64[n]

    Raises:
        ValueError: offsets that descend or leave `data`, or a bitmap that is too short.

    Source: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md
    """

def murmur_bytes(
    offsets: npt.NDArray[np.int32] | npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    validity: _Validity = None,
    bit_offset: int = 0,
    seeds: _Seeds = 42,
) -> npt.NDArray[np.uint64]:
    """Hash byte strings with MurmurHash3 of 32 bits as Spark does; otherwise as hash_bytes."""

def murmur_int32(
    values: npt.NDArray[np.int32], validity: _Validity = None, bit_offset: int = 0, seeds: _Seeds = 42
) -> npt.NDArray[np.uint64]:
    """Hash numbers with MurmurHash3 of 32 bits as Spark does; otherwise as hash_int32."""

def murmur_int64(
    values: npt.NDArray[np.int64], validity: _Validity = None, bit_offset: int = 0, seeds: _Seeds = 42
) -> npt.NDArray[np.uint64]:
    """Hash numbers with MurmurHash3 of 32 bits as Spark does; otherwise as hash_int64."""

def json_doubts(
    offsets: npt.NDArray[np.int32] | npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    names: npt.NDArray[np.uint64],
    masks: npt.NDArray[np.uint16],
) -> npt.NDArray[np.uint8]:
    """Tell which JSON objects repeat a key, have an escape in one, or a value of a kind that its column has in doubt.

    Args:
        offsets: n + 1 ascending positions in `data`; object i is data[offsets[i] : offsets[i + 1]].
        data: the bytes of all objects.
        names: XXH64 of the columns' names, with seed 42.
        masks: the kinds in doubt of each column, a sum of: 1 whole numbers, 2 numbers with a fraction or exponent, 4 texts,
            8 texts with a point or an e, 16 booleans, 32 texts that are no usual date or time, 64 objects and arrays, 128
            those with fractions inside, 256 those with texts inside, 512 whole numbers beyond 32
            bits.

    Returns:
        uint8[n], 0 or 1; 0 for what is no object

    Raises:
        ValueError: offsets that descend or leave `data`, or names and masks of different lengths.
    """

def hash_int32(
    values: npt.NDArray[np.int32], validity: _Validity = None, bit_offset: int = 0, seeds: _Seeds = 42
) -> npt.NDArray[np.uint64]:
    """Hash four-byte integers (Spark's boolean, tinyint, smallint, int, date; the bits of a float); see hash_bytes."""

def hash_int64(
    values: npt.NDArray[np.int64], validity: _Validity = None, bit_offset: int = 0, seeds: _Seeds = 42
) -> npt.NDArray[np.uint64]:
    """Hash eight-byte integers (Spark's bigint and timestamp, the bits of a double); see hash_bytes."""

def hash_int64_text(
    values: npt.NDArray[np.int64], validity: _Validity = None, bit_offset: int = 0, seeds: _Seeds = 42
) -> npt.NDArray[np.uint64]:
    """Hash the decimal text of integers, as hash_bytes would their strings; see hash_bytes."""

def unique(keys: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int32]]:
    """Return the distinct keys, uint64[m], in order of first occurrence, and each key's position among them, int32[n]."""

def combinations(codes: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Return where each distinct combination of codes first occurs, and each row's place among them.

    Args:
        codes: int32[members, n]; -1 is absent.

    Returns:
        first: int64[m], in order.
        inverse: int32[n], -1 where a code of the row is negative.
    """

def hash_cross(
    members: Sequence[
        tuple[npt.NDArray[np.int32] | npt.NDArray[np.int64], npt.NDArray[np.uint8], _Validity, int, npt.NDArray[np.int64]]
    ],
    count: int,
    seed: int,
) -> npt.NDArray[np.uint64]:
    """Hash the texts of the SQL function cross: values with | between them, | and \\ in them after a \\, and \\N for NULL.

    Args:
        members: offsets, data, validity and bit_offset of each member's values, see hash_bytes, and positions: int64[count],
            which of its values each text has.

    Returns:
        uint64[count]

    Raises:
        ValueError: positions that are none of values, offsets that descend or leave `data`, or a bitmap that is too short.
    """

def mark_changes(codes: npt.NDArray[np.int32], changed: npt.NDArray[np.uint8]) -> None:
    """Set changed[i], uint8[n], to 1 where codes[i], int32[n], is not codes[i - 1]."""

def mark_bag_changes(
    codes: npt.NDArray[np.int32],
    weights: npt.NDArray[np.float32],
    offsets: npt.NDArray[np.int64],
    changed: npt.NDArray[np.uint8],
) -> None:
    """Set changed[i], uint8[n], to 1 where row i has other values, or another order or weights of them, than row i - 1.

    Args:
        codes: int32[k]; weights: float32[k].
        offsets: int64[n + 1]; the values of row i are offsets[i]:offsets[i + 1].

    Raises:
        ValueError: offsets outside of codes, or that do not ascend.
    """

def partition(
    keys: npt.NDArray[np.uint64], num_shards: int
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Group keys by the shard that holds them: equal runs of the 1024 slices (the top ten bits of a key).

    Args:
        keys: uint64[n].
        num_shards: in [1, 1024].

    Returns:
        keys: uint64[n], shard 0's first, and of one shard in their order.
        positions: int32[n], where each of them stood.
        starts: int64[num_shards + 1], where the keys of each shard start, and n.
    """

def take_rows(values: npt.NDArray[Any], positions: npt.NDArray[np.int32], out: npt.NDArray[Any]) -> None:
    """Set out[i] = values[positions[i]], rows of any C-contiguous arrays of one type; rows of `out` from n on stay.

    Raises:
        IndexError: a position that `values` does not have.
    """

def put_rows(out: npt.NDArray[Any], positions: npt.NDArray[np.int32], values: npt.NDArray[Any]) -> None:
    """Set out[positions[i]] = values[i]; see take_rows. Rows of `values` from n on are ignored."""

class Frame:
    """A frame that was received.

    Attributes:
        kind: the name of a call, or empty, padded with zeros to 16 bytes.
        rest: what follows the header: a table of contents and a body.
    """

    @property
    def status(self) -> int: ...
    @property
    def checksum(self) -> int: ...
    @property
    def contents_bytes(self) -> int: ...
    @property
    def request(self) -> int: ...
    @property
    def kind(self) -> bytes: ...
    @property
    def rest(self) -> Memory: ...

class Memory:
    """Bytes, as a buffer, that start where XLA wants arrays to."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

class Outgoing:
    """A frame on its way out: what is left of it to send. Its arrays are not copied."""

    def __init__(self, schema: Schema, head: bytes, request: int, message: object) -> None:
        """Write a message.

        Args:
            head: a header, whose sizes and number of the request are set.

        Raises:
            TypeError, OverflowError: a value is not of its type.
        """

    @property
    def left(self) -> int:
        """Bytes that have not gone."""

    def next(self, most: int) -> bytes:
        """Return the first bytes that have not gone, at most so many."""

    def gone(self, count: int) -> None:
        """Count bytes that have gone."""

class Frames:
    """Says where the next bytes that a connection receives belong, and which frames they complete.

        while (frame := frames.take(sock.recv_into(frames.room()))) is None:
            ...

    Args:
        error: raised for what is no frame, or announces more than the limits.
    """

    def __init__(self, error: type[Exception], magic: bytes, version: int, most_contents: int, most_body: int) -> None: ...
    @property
    def is_between(self) -> bool:
        """Whether the last frame is complete and no byte of another one is there."""

    def room(self) -> memoryview:
        """Return where the next bytes go; call take until it returns None before."""

    def take(self, count: int) -> Frame | None:
        """Count bytes that have come, and return the next complete frame; None if there is none."""

class Channel:
    """Frames through a blocking socket; see Pipe in platform/ps/transport/sockets.py.

    A short frame is one call of the system each way.

    Args:
        descriptor: of the socket, which must stay open.
        frames: a new one, which nobody else uses.
    """

    def __init__(self, descriptor: int, frames: Frames) -> None: ...
    @property
    def is_between(self) -> bool: ...
    @property
    def is_over(self) -> bool: ...
    def send(self, frame: Outgoing, seconds: float) -> bool: ...
    def receive(self, seconds: float) -> Frame | None: ...

class Schema:
    """Writes and reads messages of declared types; platform/ps/transport/codec.py has the format."""

    def __init__(self, description: tuple[Any, ...], dtypes: Sequence[np.dtype[Any]]) -> None:
        """Describe a type: ("int",), ("float",), ("bool",), ("str",), ("bytes",), ("array", position in dtypes or -1 for any),
        ("maybe", type), ("many", type), ("named", type), or ("record", NamedTuple, (type of each field, ...)).
        """

    def encode(self, message: object) -> tuple[bytes, int, list[bytes | bytearray | memoryview]]:
        """Return the table of contents with its zeros, its bytes without, and the buffers of the body.

        Raises:
            TypeError, OverflowError: a value is not of its type.
        """

    def decode(self, rest: npt.NDArray[np.uint8] | Memory, contents_bytes: int) -> Any:
        """Return the message that a table of contents and a body hold; arrays are views.

        Raises:
            ValueError: they hold no such message.
        """

class Deduplicator:
    """Finds the distinct codes of one batch after another, without clearing anything between batches.

    Codes are small integers, the numbers of a chunk's features. Nothing is cleared between batches.
    """

    def __init__(self, num_codes: int) -> None:
        """Make room for codes in [0, num_codes)."""

    def unique(
        self,
        scalar: npt.NDArray[np.int32],
        bag: npt.NDArray[np.int32],
        bag_example: npt.NDArray[np.int32],
        positive: npt.NDArray[np.uint8],
        scalar_index_out: npt.NDArray[np.int32],
        bag_index_out: npt.NDArray[np.int32],
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
        """Return the m distinct codes of a batch, in order of first occurrence: `scalar` slot by slot, then `bag`.

        Args:
            scalar: int32[num_scalar, batch], a code or -1 (absent) per slot and example; rows may lie apart, as in a slice
                of a larger matrix.
            bag: int32[k], the codes of further values, or -1.
            bag_example: int32[k], the example of each.
            positive: uint8[batch], not 0 where the label is positive.
            scalar_index_out: int32[num_scalar, batch], is set to the position of each code in the result; m where absent.
            bag_index_out: int32[k], likewise.

        Returns:
            codes: int32[m].
            counts: uint32[m], occurrences.
            clicks: uint32[m], occurrences in positive examples.

        Raises:
            ValueError: codes or examples outside their range.
        """

    def unique_of_groups(
        self,
        common: npt.NDArray[np.int32],
        values: npt.NDArray[np.int32],
        value_group: npt.NDArray[np.int32],
        sizes: npt.NDArray[np.uint32],
        clicks: npt.NDArray[np.uint32],
        common_index_out: npt.NDArray[np.int32],
        value_index_out: npt.NDArray[np.int32],
        scalar: npt.NDArray[np.int32],
        bag: npt.NDArray[np.int32],
        bag_example: npt.NDArray[np.int32],
        positive: npt.NDArray[np.uint8],
        scalar_index_out: npt.NDArray[np.int32],
        bag_index_out: npt.NDArray[np.int32],
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
        """Return the same of a batch whose neighbouring examples have codes in common, those first.

        Args:
            common: int32[num_common, groups], a code or -1 per slot and group of examples.
            values: int32[k], the codes of further values of groups.
            value_group: int32[k], the group of each.
            sizes, clicks: uint32[groups], the examples of each, and those with a positive label.
            common_index_out, value_index_out: as for `unique`.
            others: as of `unique`.
        """

class Layout:
    """Where the inputs of a program stand in memory: numbers first, then what takes a word a row, in one array; others apart.

    An input is its name, its dtype (float32, uint32, int32, uint16, bool) and the shape of a row.
    """

    def __init__(
        self,
        numbers: Sequence[tuple[str, str, tuple[int, ...]]],
        words: Sequence[tuple[str, str, tuple[int, ...]]],
        apart: Sequence[tuple[str, str, tuple[int, ...]]],
    ) -> None:
        """Lay inputs out.

        Raises:
            TypeError: another dtype.
            ValueError: a number or a word is not of four bytes.
        """

class Arguments:
    """The inputs of one call, uninitialised, in memory that starts where XLA wants arrays.

    Attributes:
        arrays: float32[numbers + size * words], then those that stand apart, [size, *row].
    """

    def __init__(self, layout: Layout, size: int) -> None: ...
    @property
    def arrays(self) -> list[npt.NDArray[Any]]: ...
    def put(self, values: Mapping[str, Any]) -> None:
        """Set those inputs that there are.

        Args:
            values: by name: a number, or an array of at most `size` rows that take as many bytes as the input's, after the last
                of which zeros follow; None is no rows.

        Raises:
            TypeError: no number, or no C-contiguous array.
            ValueError: too many rows, or of other lengths.
        """

    def __contains__(self, name: str) -> bool: ...
    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """Return an input's own memory.

        Raises:
            KeyError: there is none of this name.
        """

def score_sums(
    weights: npt.NDArray[np.float32],
    vectors: npt.NDArray[np.float32] | None,
    scalar: npt.NDArray[np.int32],
    intercept: bool,
    bag_index: npt.NDArray[np.int32],
    bag_example: npt.NDArray[np.int32],
    bag_slot: npt.NDArray[np.int32],
    bag_weight: npt.NDArray[np.float32],
    bags: int,
    dense: npt.NDArray[np.float32],
    dense_index: npt.NDArray[np.int32],
    dense_slot: npt.NDArray[np.int32],
    link: str,
    pooling: str,
    fields: int,
) -> npt.NDArray[np.float32]:
    """Return the predictions of a linear model or factorization machine, float32[batch, labels], the same bits as RowScorer's.

    Args:
        weights: float32[n, labels].
        vectors: float32[n, dim], or None for a linear model.
        scalar: int32[lines, batch], a row per slot and example.
        intercept: the last line is the intercept's, which meets no other feature.
        bag_index, bag_example, bag_slot, bag_weight: [k], the row, example, slot and value of each further feature; `bags`: how
            many slots these are of.
        dense: float32[batch, columns], values of features whose rows are dense_index, and whose slots, counted from 0, are
            dense_slot, int32[columns].
        link, pooling, fields: see Sums of algorithms/sums.py.

    Raises:
        IndexError: an index leaves the rows, the slots or the batch.
    """

class SlotCounts:
    """How often features occur, slot by slot; for one thread at a time."""

    def __init__(self, slots: npt.NDArray[np.uint16], most: int) -> None:
        """Count nothing yet.

        Args:
            slots: the numbers of slots that are counted, uint16[n].
            most: keys that are counted, 2 at least; beyond them the rarest half is forgotten.
        """

    def add(self, keys: npt.NDArray[np.uint64], slots: npt.NDArray[np.uint16], counts: npt.NDArray[np.uint32]) -> None:
        """Count keys, uint64[k], of other slots, too, which are passed over; slots and counts may be longer."""

    def merge(
        self,
        buckets: npt.NDArray[np.int64],
        keys: npt.NDArray[np.uint64],
        places: npt.NDArray[np.int64],
        counts: npt.NDArray[np.int64],
    ) -> None:
        """Add what `tally` of another one returned.

        Raises:
            ValueError: a place is none, or a count below 1.
        """

    def tally(
        self,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return occurrences by the top 8 bits of keys, int64[n * 256]; and keys, the places of their slots among `slots`, and
        counts, ascending by place and key.
        """

def calibrate(
    labels: npt.NDArray[np.float32],
    predictions: npt.NDArray[np.float32],
    heights: npt.NDArray[np.float32],
    slopes: npt.NDArray[np.float32],
    codes: npt.NDArray[np.int32] | None,
    biases: npt.NDArray[np.float32],
    limit: float,
    lowest: float,
    highest: float,
    late: bool,
    bins: npt.NDArray[np.int64] | None,
    values: npt.NDArray[np.int64] | None,
) -> npt.NDArray[np.float32]:
    """Return probabilities, float32[n], after a curve over their log odds, and count them.

    Args:
        labels, predictions: float32[n].
        heights, slopes: float32[k], of each of k bins of log odds in [-limit, limit) the line that the curve is there.
        codes: int32[n], of each example its place in `biases`, which are added to log odds; None: nothing is.
        lowest, highest: within which predictions are taken to be.
        late: an example comes with 0, and once more with 1 where that is its label; then that alone is counted.
        bins, values: int64[3, k] and int64[3, len(biases)], to which rows, labels and predictions in 2^-32 are added, as
            they came and after the curve.
    """

class Image:
    """The rows of a version for reading; platform/images/layout.py has the format. Threads may share it."""

    def __init__(self, memory: npt.NDArray[np.uint8], over: npt.NDArray[np.uint8] | None = None) -> None:
        """Read an image where it is.

        Args:
            over: another image, whose rows replace rows of the same keys.

        Raises:
            ValueError: one is none, or their rows have not the same width.
        """

    def __len__(self) -> int: ...
    @property
    def width(self) -> int:
        """Floats of a row."""

    def gather(self, keys: npt.NDArray[np.uint64], outs: Sequence[tuple[int, npt.NDArray[np.float32]]]) -> None:
        """Copy floats of the rows of keys, uint64[n], zeros of keys that have none.

        Args:
            outs: from which float of a row on, and where to: float32[n or more, floats].
        """

    def has(self, keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint8]:
        """Tell which keys have a row: 1, else 0."""

    def differing(self, keys: npt.NDArray[np.uint64], first: int, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
        """Tell which rows are others than the image has, without what is over it: 0 the same, 1 another, 2 of a new key.

        Args:
            first: from which float of a row on.
            rows: float32[n, floats].
        """

class RowScorer:
    """Scores rows of Arrow or of Python by a linear model or factorization machine. Threads may share it."""

    def __init__(
        self,
        columns: Sequence[tuple[str, str, str, int, bool, bool, bool, int, float, float]],
        weights: tuple[Image, int, int],
        vectors: tuple[Image, int, int] | None,
        intercept: int | None,
        link: str,
        pooling: str,
        fields: int,
    ) -> None:
        """Make a scorer.

        Args:
            columns: of each input: its kind ("categorical", "multi-valued", "weighted", "continuous", "vector"), its name, the
                letter of the type of its values (features.hpp), the seed of its keys, whether these are ready-made ids, whether
                NULL is a feature, the elements of a vector, and the mean and deviation of a continuous one.
            weights, vectors: an image, from which float of its rows on, and how many.
            intercept: its key; None for none.
            link, pooling, fields: see Sums of algorithms/sums.py.
        """

    def score_arrow(self, capsules: tuple[Any, Any], order: Sequence[int]) -> npt.NDArray[np.float32] | None:
        """Return predictions float32[rows * labels]; None where a column has a type that is read elsewhere.

        Args:
            capsules: a record batch that was validated, by Arrow's PyCapsule protocol.
            order: which column of the batch each input is.

        Raises:
            ValueError: offsets or indices lead out of their arrays.
        """

    def score_objects(self, rows: list[Any], context: object) -> npt.NDArray[np.float32] | None:
        """Return predictions float32[rows * labels]; None where a value is not of its column's own type, or missing.

        Args:
            rows: dicts by the columns' names.
            context: a dict of columns that all rows have in common, or None.
        """

class RowEncoder:
    """Makes the arrays of a batch of rows of Arrow or of Python. Threads may share it."""

    def __init__(
        self, columns: Sequence[tuple[str, str, str, int, bool, bool, bool, int, float, float]], intercept: int | None
    ) -> None:
        """Make an encoder; see RowScorer."""

    def encode_arrow(self, capsules: tuple[Any, Any], order: Sequence[int], batch: int) -> _Encoded | None:
        """Return the arrays of a record batch; see RowScorer.score_arrow.

        Args:
            batch: room for rows; what has none, and what is absent, has as index the number of keys.

        Returns:
            keys uint64[m], scalar int32[lines * batch], bag_index, bag_example, bag_slot int32[k], bag_weight float32[k], dense
            float32[numbers * rows], dense_index int32[numbers], as in Batch.
        """

    def encode_objects(self, rows: list[Any], context: object, batch: int) -> _Encoded | None:
        """Return the arrays of dicts; see RowScorer.score_objects and encode_arrow."""

class Store:
    """Rows of typed columns by 64-bit key.

    Rows are records of fixed size in memory that is mapped chunk by chunk and never moves; a row keeps its number until it is
    evicted. The index has 1024 slices by the key's top ten bits, and each grows by itself, so that neither memory nor time has
    spikes. It takes about 7 bytes a row, the key 8.

    Not locked: one writer at a time (begin_snapshot and take are writers, too), and no reader beside it. Readers (lookup, pull,
    gather, keys) may run side by side.

    Arguments shared by the methods:
        keys: uint64[n].
        rows: uint32[n], from lookup or insert; 0xFFFFFFFF stands for a missing row, which reads as zeros and is not written.
        column, columns: positions in the list given to the constructor.
    """

    def __init__(self, columns: Sequence[tuple[str, str, int]]) -> None:
        """Make an empty store.

        Args:
            columns: name (for messages), dtype ("float32", "uint32" or "uint16") and elements per row.

        Raises:
            ValueError: another dtype, or no elements.
        """

    def __len__(self) -> int: ...
    def lookup(self, keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint32]:
        """Return the rows of keys, 0xFFFFFFFF where a key has none."""

    def insert(self, keys: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_]]:
        """Return the rows of keys, and which were created, with zeros in every column.

        Raises:
            MemoryError: the system has no more memory; keys before the one that failed may have rows.
        """

    def evict(self, keys: npt.NDArray[np.uint64]) -> int:
        """Remove the rows of keys and return how many there were. Their numbers are used again."""

    def pull(self, keys: npt.NDArray[np.uint64], arguments: Arguments) -> npt.NDArray[np.uint32]:
        """Do lookup and gather_into in one pass over memory, and return the rows."""

    def gather_into(self, rows: npt.NDArray[np.uint32], arguments: Arguments) -> None:
        """Copy those columns that are inputs of a program, by name, and set what follows the last row to zeros.

        Raises:
            ValueError: there are more rows than arguments.
            TypeError: an input takes other bytes than its column.
        """

    def gather(self, rows: npt.NDArray[np.uint32], columns: Sequence[int], outs: Sequence[npt.NDArray[Any]]) -> None:
        """Copy columns of rows into arrays.

        Args:
            outs: one array per column, of its dtype: [n or more, dim], or [n or more] for a dim of 1. Elements from n on keep
                their values.

        Raises:
            IndexError: a row or column that does not exist.
        """

    def scatter(self, rows: npt.NDArray[np.uint32], columns: Sequence[int], values: Sequence[npt.NDArray[Any]]) -> None:
        """Copy arrays, shaped as in gather, into columns of rows; of a row that stands twice the last value stays."""

    def update(
        self,
        rows: npt.NDArray[np.uint32],
        columns: Sequence[int],
        values: Sequence[npt.NDArray[Any]],
        added: Sequence[int],
        amounts: Sequence[int | npt.NDArray[np.uint32]],
        raised: Sequence[int],
        least: Sequence[int | npt.NDArray[np.uint32]],
    ) -> None:
        """Set columns as scatter does, add to counters and raise others, in one pass over the rows.

        Args:
            columns, values: as in scatter.
            added, amounts: uint32 columns of dim 1 and what is added to them; a sum beyond 2^32 - 1 stays there.
            raised, least: such columns and what they are at least afterwards.
        """

    def keys(self, slice_begin: int = 0, slice_end: int = 1024) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
        """Return the keys of a range of slices, ascending, and their rows."""

    def scan(self, begin: int, end: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
        """Return the keys and numbers of the rows present among numbers [begin, end), in order of number, as in memory."""

    def begin_snapshot(self, full: bool, reader: int = 0) -> tuple[npt.NDArray[np.uint64], bool]:
        """Begin to take the rows as they are now, while the store goes on changing; from the first one on, changes are tracked.

        Args:
            full: of all rows; else of those written or created since the snapshot before for the same reader began.
            reader: 0 or 1, each of whom has changes of their own.

        Returns:
            The keys evicted since the snapshot before began, some of which may have rows again; none where this one is full.
            And whether it is full: the first is, and one after a snapshot that was cancelled, or after many evictions.

        Raises:
            RuntimeError: one is being taken.
        """

    def pending(self, reader: int) -> int: ...
    def take(self, outs: npt.NDArray[np.uint8]) -> int:
        """Copy records of the snapshot that were not taken yet, in no order, and return how many; 0 ends it.

        Args:
            outs: uint8[n, row_bytes].
        """

    def cancel_snapshot(self) -> None:
        """Take no more of the snapshot; the next one is full. Nothing happens where none is being taken."""

    def put(self, records: npt.NDArray[np.uint8]) -> None:
        """Put records, as `take` gives them, in place of the rows of their keys.

        Args:
            records: uint8[n, row_bytes], of a store of the same layout.
        """

    @property
    def layout(self) -> list[tuple[str, str, int, int]]:
        """Name, dtype, elements and offset in the record of each column; the key is at offset 0."""

    @property
    def kept_bytes(self) -> int:
        """Bytes of records that changed since the snapshot began, before they were taken."""

    @property
    def end(self) -> int:
        """The number after the last that a row has had."""

    @property
    def row_bytes(self) -> int:
        """Bytes of a record: key, columns, and padding to a multiple of 8."""

    @property
    def memory_bytes(self) -> int:
        """Bytes in use for records and index."""

    @property
    def overhead_bytes(self) -> int:
        """memory_bytes less the columns of the rows present."""

class Counter:
    """Counts of keys that have no row: exact up to 1023, where they stay; 10 to 12 bytes a key.

    Not locked, as Store. keys: uint64[n].
    """

    def __init__(self) -> None: ...
    def __len__(self) -> int: ...
    def counts(self, keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint32]:
        """Return the count of each key, 0 where it was never counted."""

    def add(self, keys: npt.NDArray[np.uint64], amounts: npt.NDArray[np.uint32]) -> None:
        """Add to the counts of keys.

        Raises:
            MemoryError: the system has no more memory; keys before the one that failed may have been counted.
        """

    def remove(self, keys: npt.NDArray[np.uint64]) -> None:
        """Forget keys."""

    def entries(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
        """Return all keys, in order of slices, and their counts."""

    @property
    def memory_bytes(self) -> int:
        """Bytes in use."""

def place_two_choice(keys: npt.NDArray[np.uint64], first_prime: int, second_prime: int) -> npt.NDArray[np.int64]:
    """Find places for keys in a table of two choices, four places a bucket; platform/portable/rows_file.py has the format.

    Args:
        keys: uint64[n], distinct, whose two remainders as signed numbers are independent, as they are for hashes.
        first_prime: how many buckets there are; second_prime: at most as large.

    Returns:
        int64[n], 4 * bucket + place.

    Raises:
        ValueError: a key finds no place.
    """

class Numbering:
    """Numbers keys by their first occurrence, over any number of calls: int32, from 0."""

    def number(self, keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.int32]:
        """Return the number of each key.

        Raises:
            ValueError: there would be more than 2^31 - 1 keys.
        """

    def keys(self) -> npt.NDArray[np.uint64]:
        """Return the keys by their number."""

def count_ends(ends: npt.NDArray[np.int32], counts: npt.NDArray[np.int64]) -> None:
    """Add 1 to the count of each end."""

def sum_weights(ends: npt.NDArray[np.int32], weights: npt.NDArray[np.float32], limbs: npt.NDArray[np.int64]) -> None:
    """Add the weight of each edge to the sum of its end, exactly: int64[n, 3], in units of 1, 2^-31 and 2^-62; weights lie in
    [0, 2^31)."""

def place_edges(
    groups: npt.NDArray[np.int32],
    others: npt.NDArray[np.int32],
    weights: npt.NDArray[np.float32] | None,
    next: npt.NDArray[np.int64],
    others_out: npt.NDArray[np.int32],
    weights_out: npt.NDArray[np.float32] | None,
) -> None:
    """Move the other ends of edges, and their weights, to the places of their groups.

    Args:
        groups, others: int32[n], both ends.
        next: int64[groups], where the next edge of each group goes; moved on.
    """

def tidy(
    offsets: npt.NDArray[np.int64], others: npt.NDArray[np.int32], loops: bool
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Return groups whose members ascend, each once; without loops none is a member of its own."""

def sums_along(
    offsets: npt.NDArray[np.int64], others: npt.NDArray[np.int32], values: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the sum of its members' values for each group; every kernel of groups has these arguments:

    Args:
        offsets: int64[n + 1], where the members of each begin.
        others: int32[members], numbers below n.
        values: of each of the n.
    """

def weighted_sums_along(
    offsets: npt.NDArray[np.int64],
    others: npt.NDArray[np.int32],
    weights: npt.NDArray[np.float32],
    values: npt.NDArray[np.float64],
) -> npt.NDArray[np.int64]:
    """Return the sum of values times weights, each product rounded, so that it does not depend on their order."""

def extremes_along(
    offsets: npt.NDArray[np.int64], others: npt.NDArray[np.int32], values: npt.NDArray[np.int64], most: bool
) -> npt.NDArray[np.int64]:
    """Return the least value of each group, or the largest; of an empty one the largest int64, or the least."""

def joined(
    offsets: npt.NDArray[np.int64], others: npt.NDArray[np.int32], values: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the least value of each one's connected component."""

def h_index(
    offsets: npt.NDArray[np.int64], others: npt.NDArray[np.int32], values: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the largest h such that h members have a value of h or more, at most the own value."""

def most_frequent(
    offsets: npt.NDArray[np.int64], others: npt.NDArray[np.int32], values: npt.NDArray[np.int64], salt: int
) -> npt.NDArray[np.int64]:
    """Return the value that most members have: of equally frequent ones the own, else that of the least hash with the salt."""

def triangles(offsets: npt.NDArray[np.int64], others: npt.NDArray[np.int32], part: int, parts: int) -> npt.NDArray[np.int64]:
    """Return how many triangles each vertex is in, of those whose least vertex by degree is number part, part + parts, ...

    Groups are undirected and tidy.
    """

def common_neighbours(
    offsets: npt.NDArray[np.int64],
    middles: npt.NDArray[np.int32],
    middle_offsets: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int32],
    factors: npt.NDArray[np.float64],
    degrees: npt.NDArray[np.int64] | None,
    keys: npt.NDArray[np.uint64],
    top: int,
    part: int,
    parts: int,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Return pairs of vertices with common neighbours, the best of each vertex, and their scores in units of 2^-40.

    Args:
        offsets, middles: the neighbours of each vertex through which it is paired; middle_offsets, ends: the same by these.
        factors: what each neighbour weighs.
        degrees: scores are divided by the number of neighbours of either; None: they are not.
        keys: of vertices, which order equal scores.
    """

def swing(
    item_offsets: npt.NDArray[np.int64],
    users_of_items: npt.NDArray[np.int32],
    user_offsets: npt.NDArray[np.int64],
    items_of_users: npt.NDArray[np.int32],
    factors: npt.NDArray[np.float64],
    keys: npt.NDArray[np.uint64],
    alpha: float,
    top: int,
    part: int,
    parts: int,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Return the best other items of the items part, part + parts, ...: item, other and score in units of 2^-40.

    Args:
        item_offsets, users_of_items: the users of each item, ascending; user_offsets, items_of_users: the items of each user.
        factors: float64[n], of users, with the product of which pairs of them count.
        keys: uint64[n], by which equal scores are ordered.
    """

def walks(
    offsets: npt.NDArray[np.int64],
    others: npt.NDArray[np.int32],
    cumulative: npt.NDArray[np.float64] | None,
    keys: npt.NDArray[np.uint64],
    starts: npt.NDArray[np.int32],
    numbers: int,
    length: int,
    p: float,
    q: float,
    seed: int,
) -> npt.NDArray[np.int32]:
    """Return so many random walks from each start, int32[starts * numbers * length], -1 after a walk's end.

    Args:
        others: ascending within a group.
        cumulative: float64[members], running sums of the weights of each group's members; None: all weigh the same.
        keys: that what is random depends on, with the seed.
        p, q: 1 / p is the weight of going back, 1 / q that of going to where the vertex before has no edge to.
    """
