"""Towers of both sides of a network: the user's is computed once for each group of rows, and what cannot be one is refused."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from xpsql.algorithms import ALGORITHMS
from xpsql.algorithms.base import Layout
from xpsql.algorithms.layers.stacked import Common, Stacked
from xpsql.algorithms.networks.sides import SideOptions, SideTowers
from xpsql.algorithms.shared_inputs import CommonLines
from xpsql.platform.errors import OptionError

LAYOUT = Layout(("user", "item", "city"), ("clicked", "tags"), ("age",))
DIM, GROUPS, OWNER = 2, 3, np.array([0, 0, 0, 1, 1, 2])
INPUTS = len(LAYOUT.slots[:5]) * DIM + 1


def seen(common_line: bool = True) -> Stacked:
    """Return inputs of six examples in three groups, which have the user, the city and what was clicked in common."""
    random, owner = np.random.default_rng(1), jnp.array(OWNER)
    rows, more = (jnp.array(random.normal(size=size), jnp.float32) for size in ((9, DIM), (len(OWNER), DIM + 1)))
    shared = random.integers(0, 9, (1 + common_line, GROUPS))
    own = random.integers(0, 9, (2 - common_line, len(OWNER)))
    lines = CommonLines(jnp.array(shared), jnp.array(own), owner, (common_line, False, True))
    clicked = jnp.array(random.normal(size=(GROUPS, DIM)), jnp.float32)
    return Stacked(rows, lines, more, Common(clicked, owner, (0, 1)))


def flat(inputs: Stacked) -> Stacked:
    """Return the same, each example by itself."""
    assert isinstance(inputs.row_index, CommonLines)
    return Stacked(inputs.rows, inputs.row_index.whole(), inputs.whole()[:, inputs.width :])


def made(options: SideOptions) -> tuple[SideTowers, dict[str, Any]]:
    sides = SideTowers(options, LAYOUT, INPUTS, DIM, "xnn")
    return sides, {spec.name: jnp.array(np.random.default_rng(2).normal(size=spec.shape), jnp.float32) for spec in sides.specs}


@pytest.mark.parametrize("item_tower", [(), (5,)])
def test_the_users_tower_has_an_output_for_each_group(item_tower: tuple[int, ...]) -> None:
    sides, parameters = made(SideOptions(user=("Clicked", "city", "user"), user_tower=(4, 7), item_tower=item_tower))
    once = sides.apply(parameters, seen())
    assert once.common is not None
    assert once.common.values.shape == (GROUPS, 7)
    each = sides.apply(parameters, flat(seen()))
    assert each.common is None
    assert once.whole().shape == (len(OWNER), sides.width)
    np.testing.assert_allclose(once.whole(), each.whole(), 1e-5, 1e-6)


def test_the_users_tower_is_computed_for_each_row_where_rows_differ_in_its_slots() -> None:
    sides, parameters = made(SideOptions(user=("clicked", "user"), user_tower=(4,)))
    found, each = sides.apply(parameters, seen(common_line=False)), sides.apply(parameters, flat(seen(common_line=False)))
    assert found.common is not None
    assert found.common.values.shape == (GROUPS, 0)
    np.testing.assert_allclose(found.whole(), each.whole(), 1e-5, 1e-6)


def test_without_a_tower_the_inputs_stay_as_they_are() -> None:
    sides, inputs = made(SideOptions())[0], seen()
    assert sides.apply({}, inputs) is inputs
    assert (sides.width, sides.specs, sides.user) == (INPUTS, (), ())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"user_tower": (4,)}, "expects the slots that user_tower sees"),
        ({"user_tower": (4,), "user": ("usr",)}, "names 'usr', which is not a slot"),
        (
            {"user_tower": (4,), "user": ("user", "age")},
            "names age; a user's tower sees categorical slots, arrays and maps",
        ),
        ({"user_tower": (0,), "user": ("user",)}, "user_tower of algorithm xnn expects whole numbers of units"),
        (
            {"user_tower": (4,), "user": ("user",), "item_tower": ("a",)},
            "item_tower of algorithm xnn expects whole numbers of units",
        ),
        (
            {"user_tower": (4,), "user": ("user",), "groups": (("item", "city"),)},
            "groups of algorithm xnn sums slots of both towers",
        ),
    ],
)
def test_what_cannot_be_a_tower_is_refused(options: dict[str, Any], message: str) -> None:
    part = ALGORITHMS.find("xnn")
    assert part is not None
    with pytest.raises(OptionError) as caught:
        part.make(part.options(**options), LAYOUT)
    assert message in str(caught.value)


def test_a_tower_of_all_slots_is_refused() -> None:
    with pytest.raises(OptionError, match="names all slots"):
        SideTowers(SideOptions(user=("user",), user_tower=(4,)), Layout(("user",)), DIM, DIM, "xnn")
