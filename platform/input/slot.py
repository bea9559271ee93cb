"""A slot: a feature column of a model, or a field of one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Slot:
    """A feature column.

    Attributes:
        name: the column; of a field of an array of structs, `column.field`.
        kind: the name of one of KINDS, or the kind of the intercept or of what operators offer.
        type: the column's, in Spark's words.
        number: as stored with each row.
        source: the slot whose rows it uses; its own name unless shared.
        hashed: values are ready-made 64-bit ids.
        raw: they are ready-made ids, and are used as keys unchanged.
        dim: elements of a vector; 0 until the first batch is read, and for other kinds.
        role: the role that an option of the algorithm gives the column, "" for none.
        group: that option; slots of one group are aligned, element by element.
        length: how many elements of a sequence are read, the last ones.
        field: of an array of structs, the field; "" for a whole column.
        members: of a cross, the names of the slots that it combines; it has no column of its own.
    """

    name: str
    kind: str
    type: str
    number: int
    source: str
    hashed: bool = False
    dim: int = 0
    role: str = ""
    group: str = ""
    length: int = 0
    field: str = ""
    members: tuple[str, ...] = ()
    raw: bool = False

    @property
    def column(self) -> str:
        """The column of the query."""
        return self.name.removesuffix(f".{self.field}") if self.field else self.name
