"""Where compiled programs are kept."""

from __future__ import annotations

import pwd

import jax
import pytest

from xpsql.platform.flow.compiled import keep_compiled


def test_a_user_without_a_home_keeps_no_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(number: int) -> pwd.struct_passwd:
        raise KeyError(number)

    for name in ("HOME", "XDG_CACHE_HOME", "JAX_COMPILATION_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    before = jax.config.jax_compilation_cache_dir
    keep_compiled()
    assert jax.config.jax_compilation_cache_dir == before
