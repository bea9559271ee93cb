"""Learning pass by pass on the tasks of an engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..validation import Pull


class RemotePasses(NamedTuple):
    """Learns pass by pass; see Passes.

    Attributes:
        learn_pass: learns a pass to its end.
        pull: pulls from the shards.
        keep_pass: lets the shards write a pass.
    """

    learn_pass: Callable[[int], None]
    pull: Pull
    keep_pass: Callable[[int], None]

    def learn(self, number: int) -> bool:
        """See Passes: tasks pause at the end alone."""
        self.learn_pass(number)
        return True

    def pulls(self) -> Sequence[Pull]:
        """See Passes."""
        return [self.pull]

    def keep(self, number: int) -> None:
        """See Passes."""
        self.keep_pass(number)
