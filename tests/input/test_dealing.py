"""Task assignment: which worker takes which split, from which batch on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from xpsql.platform.input.dealing import Dealer, Standing, TurnAssignment
from xpsql.platform.ps.watermarks import Turn, turns_of


def taken(dealer: Dealer, worker: int) -> Iterator[Turn]:
    while (dealt := dealer.next(worker)) is not None:
        yield dealt.turn


def test_every_split_of_every_pass_is_dealt_once_in_order() -> None:
    dealer = Dealer(turns_of(num_splits=2, passes=2), num_workers=3, fixed=False)
    dealt = [dealer.next(worker) for worker in (2, 0, 0, 1, 2)]
    assert dealt == [
        TurnAssignment(Turn(0, 0)),
        TurnAssignment(Turn(0, 1)),
        TurnAssignment(Turn(1, 0)),
        TurnAssignment(Turn(1, 1)),
        None,
    ]


def test_fixed_turns_do_not_depend_on_who_asks_first() -> None:
    dealer = Dealer(turns_of(num_splits=3, passes=2), num_workers=2, fixed=True)
    assert list(taken(dealer, 1)) == [Turn(0, 1), Turn(1, 0), Turn(1, 2)]
    assert list(taken(dealer, 0)) == [Turn(0, 0), Turn(0, 2), Turn(1, 1)]


def test_turns_of_a_lost_worker_are_dealt_again_first_and_from_where_they_stand() -> None:
    dealer = Dealer(turns_of(5, 1), num_workers=2, fixed=False)
    for worker in (0, 1, 0, 0):
        dealer.next(worker)
    dealer.finish(0, Turn(0, 0), 7)
    standing = Standing(applied={Turn(0, 2): 3, Turn(0, 1): 9}, counted={Turn(0, 2): 2}, reached={Turn(0, 2): 4})
    assert dealer.give_back(0, standing) == [Turn(0, 2), Turn(0, 3)]
    assert dealer.next(1) == TurnAssignment(Turn(0, 2), start=2, applied=3, counted=2, reached=4, term=1)
    assert list(taken(dealer, 0)) == [Turn(0, 3), Turn(0, 4)]
    assert dealer.unfinished == 4
    assert dealer.finished == {Turn(0, 0): 7}


def test_what_a_lost_worker_gave_back_goes_to_itself_where_turns_are_fixed() -> None:
    dealer = Dealer(turns_of(4, 1), num_workers=2, fixed=True)
    dealer.next(1)
    dealer.give_back(1, Standing())
    assert list(taken(dealer, 0)) == [Turn(0, 0), Turn(0, 2)]
    assert list(taken(dealer, 1)) == [Turn(0, 1), Turn(0, 3)]


@pytest.mark.parametrize("fixed", [False, True])
def test_a_training_goes_on_from_where_it_stands(fixed: bool) -> None:
    finished = {Turn(0, 0): 4, Turn(0, 1): 4, Turn(0, 3): 0}
    standing = Standing(finished, applied={Turn(0, 0): 4, Turn(0, 1): 3, Turn(0, 2): 5}, counted={Turn(0, 1): 4})
    dealer = Dealer(turns_of(5, 1), num_workers=1, fixed=fixed, standing=standing)
    dealt = [dealer.next(0) for _ in range(4)]
    # The first is finished on every shard, of the second one shard lacks a batch, the fourth has none.
    assert dealt == [TurnAssignment(Turn(0, 1), 3, 3, 4), TurnAssignment(Turn(0, 2), 0, 5, 0), TurnAssignment(Turn(0, 4)), None]


def test_a_turn_is_handed_over_once_and_not_after_it_is_finished() -> None:
    dealer, turn = Dealer(turns_of(1, 1), num_workers=3, fixed=False), Turn(0, 0)
    dealer.next(0)
    standing = Standing(applied={turn: 3}, counted={turn: 2})
    assert dealer.hand_over(turn, 0, 1, standing) == TurnAssignment(turn, start=2, applied=3, counted=2, term=1)
    assert dealer.hand_over(turn, 0, 2, standing) is None
    assert (dealer.held, dealer.term(turn)) == ({0: [], 1: [turn], 2: []}, 1)
    dealer.finish(1, turn, 5)
    assert dealer.hand_over(turn, 1, 2, standing) is None
    assert dealer.finished == {turn: 5}
