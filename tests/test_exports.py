from __future__ import annotations

import pydoc

import pytest

import xpsql
from xpsql import testing
from xpsql.platform import errors


@pytest.mark.parametrize("name", [*xpsql.__all__, *xpsql.NETWORKS, *xpsql.ERRORS])
def test_every_export_exists(name: str) -> None:
    assert getattr(xpsql, name) is not None


def test_every_error_is_exported() -> None:
    defined = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert defined <= set(xpsql.ERRORS) <= set(dir(xpsql))


def test_help_fits_on_a_few_screens() -> None:
    assert len(pydoc.render_doc(xpsql, renderer=pydoc.plaintext).splitlines()) < 300


def test_the_suites_for_authors_are_public_and_say_what_they_check() -> None:
    assert all(getattr(testing, name) for name in testing.__all__)
    assert all(check.__doc__ for check in (*testing.OPERATOR_CHECKS, *testing.ALGORITHM_CHECKS))


def test_what_is_not_exported_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'xpsql' has no attribute 'conect'"):
        xpsql.conect  # noqa: B018
