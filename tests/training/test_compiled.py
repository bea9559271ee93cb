"""Where compiled programs are kept."""

from __future__ import annotations

import platform
import pwd
import subprocess
import sys

import jax
import pytest

from tests.cases import lengthy
from xpsql.algorithms.layers import _lookups
from xpsql.platform.ps import _native
from xpsql.platform.training import compiled
from xpsql.platform.training.compiled import keep_compiled, share_work


def test_a_user_without_a_home_keeps_no_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(number: int) -> pwd.struct_passwd:
        raise KeyError(number)

    for name in ("HOME", "XDG_CACHE_HOME", "JAX_COMPILATION_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    before = jax.config.jax_compilation_cache_dir
    keep_compiled()
    assert jax.config.jax_compilation_cache_dir == before


@pytest.mark.parametrize(("threads", "reported"), [(-1, 1), (0, 1), (1, 1), (3, 3), (500, compiled.MOST_THREADS)])
def test_native_code_has_at_least_one_thread_and_not_too_many(
    threads: int, reported: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[int] = []
    for module in (_lookups, _native):
        monkeypatch.setattr(module, "set_threads", heard.append)
    share_work(threads)
    assert heard == [reported, reported]


@lengthy
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries keep what they free as they like")
def test_memory_that_a_step_frees_is_used_by_the_next_one() -> None:
    """In a process of its own: one that has freed more than is kept, as that of many tests may have, gives it all back."""
    script = (
        "import resource\n"
        "from xpsql.platform.training.compiled import prepare_jax\n"
        "prepare_jax()\n"
        "pages = (64 << 20) // resource.getpagesize()\n"
        "def new_pages():\n"
        "    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "    assert len(b'x' * (64 << 20)) > pages\n"
        "    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before\n"
        "new_pages()\n"
        "found = new_pages()\n"
        "assert found < pages / 10, found\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
