"""Which worker takes which split."""

from __future__ import annotations

from collections.abc import Iterator

from xpsql.platform.flow.dealing import Dealer, Turn


def taken(dealer: Dealer, worker: int) -> Iterator[Turn]:
    while (turn := dealer.next(worker)) is not None:
        yield turn


def test_every_split_of_every_pass_is_dealt_once_in_order() -> None:
    dealer = Dealer(num_splits=2, passes=2, num_workers=3, fixed=False)
    turns = [dealer.next(worker) for worker in (2, 0, 0, 1, 2)]
    assert turns == [Turn(0, 0), Turn(0, 1), Turn(1, 0), Turn(1, 1), None]


def test_fixed_turns_do_not_depend_on_who_asks_first() -> None:
    dealer = Dealer(num_splits=3, passes=2, num_workers=2, fixed=True)
    assert list(taken(dealer, 1)) == [Turn(0, 1), Turn(1, 0), Turn(1, 2)]
    assert list(taken(dealer, 0)) == [Turn(0, 0), Turn(0, 2), Turn(1, 1)]
