"""Networks of four kinds as one: named arrays, and a function of them and of the inputs."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp

from ...platform.errors import StatementError
from ..layers.running import LEARNED, Following, follow
from .base import Arrays, Bridged, check_float32, unknown_state
from .constructor import arguments_of, parameters_of
from .features import BatchRows, Features
from .pytorch import of_torch
from .source import CLASS


def bridged(made: Any, features: Features, given: Mapping[str, Any], name: str) -> Bridged:
    """Return a class or a module of functions as a network.

    Raises:
        StatementError: it is none of the four kinds, has a parameter that is no float32, or state that changes.
        OptionError: its constructor does not take what is given.
    """
    for package, of_module in MODULES.items():
        if isinstance(made, type) and issubclass(made, known(package)):
            return of_module(made, features, arguments_of(made, given, name))
    if not has_functions(made):
        raise StatementError(
            f"{name} has no network: expected a flax.nnx.Module, an equinox.Module, a torch.nn.Module, or functions "
            "init(key, ...) and apply(parameters, x).",
            subject=CLASS,
        )
    if isinstance(made, ModuleType):
        arguments = arguments_of(made.init, given, f"init of {name}")
        return of_functions(functools.partial(made.init, features=features, **arguments), made.apply)
    network = made(features, **arguments_of(made, given, name))
    return of_functions(network.init, network.apply)


def is_network(made: type) -> bool:
    """Return whether a class is one of the four kinds."""
    return has_functions(made) or any(issubclass(made, known(package)) for package in MODULES)


def has_functions(made: Any) -> bool:
    return callable(getattr(made, "init", None)) and callable(getattr(made, "apply", None))


def known(package: str) -> tuple[type, ...]:
    """Return the class Module of a package that is loaded, to look for; the text loads its own, nothing else does."""
    module = sys.modules.get(package)
    return () if module is None else (module.Module,)


def of_functions(init: Callable[..., Any], apply: Callable[..., Any]) -> Bridged:
    """Return plain functions: init(key) -> a tree of arrays, apply(parameters, x[, random]) -> scores."""
    tree = jax.eval_shape(lambda: init(jax.random.key(0)))
    names, structure, shapes = named(tree)
    asks = "random" in inspect.signature(apply).parameters

    def start(seed: int) -> Arrays:
        return dict(zip(names, jax.tree.leaves(init(jax.random.key(seed))), strict=True))

    def scores(parameters: Arrays, x: BatchRows, random: jax.Array | None) -> jax.Array:
        own, seen = structure.unflatten([parameters[name] for name in names]), x.looked_up()
        key = None if random is None else jax.random.wrap_key_data(random)
        result: jax.Array = apply(own, seen, random=key) if asks else apply(own, seen)
        return result

    return Bridged(shapes, start, scores)


def of_nnx(made: type, features: Features, arguments: Mapping[str, Any]) -> Bridged:
    """Return a module of Flax NNX, which sees a batch; its dropout draws from the training's random numbers."""
    from flax import nnx

    takes = "rngs" in parameters_of(made)

    def new(seed: int) -> Any:
        return made(features, **arguments, **({"rngs": nnx.Rngs(seed)} if takes else {}))

    graph, parameters, statistics, rest = nnx.split(nnx.eval_shape(lambda: new(0)), nnx.Param, nnx.BatchStat, ...)
    for path, variable in nnx.to_flat_state(rest):
        if not isinstance(variable, nnx.RngState):
            raise unknown_state(".".join(map(str, path)), type(variable).__name__)
    names, structure, shapes = named(parameters)
    followed, averages, shapes_of_averages = named(statistics)
    states = jax.tree.leaves(rest)
    state: Any = jax.tree.structure(rest)

    def start(seed: int) -> Arrays:
        def leaves() -> list[jax.Array]:
            _, own, moving, _ = nnx.split(new(seed), nnx.Param, nnx.BatchStat, ...)
            return [*jax.tree.leaves(own), *jax.tree.leaves(moving)]

        return dict(zip((*names, *followed), jax.jit(leaves)(), strict=True))  # one program compiles faster than one for each

    def scores(own: Arrays, x: BatchRows, random: jax.Array | None) -> jax.Array:
        key = jax.random.key(0) if random is None else jax.random.wrap_key_data(random)
        drawn = [
            jax.random.fold_in(key, place)
            if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
            else jnp.zeros(leaf.shape, leaf.dtype)
            for place, leaf in enumerate(states)
        ]
        learned, moving = (
            kind.unflatten([own[name] for name in part]) for kind, part in ((structure, names), (averages, followed))
        )
        network = nnx.merge(graph, learned, moving, state.unflatten(drawn))
        network.eval() if random is None else network.train()
        if followed and random is not None:
            over_examples(network, LEARNED.get())
        result: jax.Array = network(x.looked_up())
        if followed and random is not None:
            moved = jax.tree.leaves(nnx.state(network, nnx.BatchStat))
            follow(own, lambda mask: dict(zip(followed, moved, strict=True)))
        return result

    return Bridged(shapes, start, scores, shapes_of_averages)


def over_examples(network: Any, batch: Following | None) -> None:
    """Let the BatchNorm layers of a module of Flax NNX pass over the padding of a batch."""
    from flax import nnx

    def masked(layer: Any, x: jax.Array, use_running_average: bool | None = None, *, mask: jax.Array | None = None) -> Any:
        if mask is None and batch is not None and len(x) % len(batch.examples) == 0:
            there = jnp.repeat(batch.examples, len(x) // len(batch.examples))  # a layer may see elements as examples
            mask = jnp.where(there.any(), there, True).reshape(-1, *[1] * (x.ndim - 1))
        return super(type(layer), layer).__call__(x, use_running_average, mask=mask)

    for _, layer in nnx.iter_modules(network):
        if isinstance(layer, nnx.BatchNorm):
            layer.__class__ = type("BatchNorm", (type(layer),), {"__call__": masked})


def of_equinox(made: type, features: Features, arguments: Mapping[str, Any]) -> Bridged:
    """Return a module of Equinox, which sees one example; it draws from `key` where its call takes one."""
    import equinox as eqx

    takes = "key" in parameters_of(made)
    asks = "key" in inspect.signature(made.__call__).parameters

    def new(seed: int) -> Any:
        return made(features, **arguments, **({"key": jax.random.key(seed)} if takes else {}))

    shaped = eqx.filter_eval_shape(lambda: new(0))
    indices = jax.tree_util.tree_leaves_with_path(shaped, is_leaf=lambda leaf: isinstance(leaf, eqx.nn.StateIndex))
    for path, leaf in indices:
        if isinstance(leaf, eqx.nn.StateIndex):
            raise unknown_state(dotted(path), "StateIndex")
    parameters, static = eqx.partition(shaped, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    names, structure, shapes = named(parameters)

    def start(seed: int) -> Arrays:
        return dict(zip(names, jax.tree.leaves(eqx.filter(new(seed), eqx.is_array)), strict=True))

    def scores(own: Arrays, x: BatchRows, random: jax.Array | None) -> jax.Array:
        network = eqx.combine(structure.unflatten([own[name] for name in names]), static)
        network, seen = eqx.nn.inference_mode(network, value=random is None), x.looked_up()
        if not asks or random is None:
            result: jax.Array = jax.vmap(network)(seen)
            return result
        keys = jax.random.split(jax.random.wrap_key_data(random), len(x.wide))
        drawn: jax.Array = jax.vmap(lambda x, key: network(x, key=key))(seen, keys)
        return drawn

    return Bridged(shapes, start, scores)


MODULES: Mapping[str, Callable[[type, Features, Mapping[str, Any]], Bridged]] = {
    "flax.nnx": of_nnx,
    "equinox": of_equinox,
    "torch.nn": of_torch,
}
"""How the class Module of each package becomes a network."""


def named(tree: Any) -> tuple[list[str], Any, dict[str, tuple[int, ...]]]:
    """Return the names of a tree's arrays in its order, its structure, and the shapes by name.

    Raises:
        StatementError: one is no float32.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(tree)
    names = [dotted(path) or "parameter" for path, _ in leaves]
    for name, (_, leaf) in zip(names, leaves, strict=True):
        check_float32(name, leaf)
    return names, structure, {name: leaf.shape for name, (_, leaf) in zip(names, leaves, strict=True)}


def dotted(path: Any) -> str:
    """Return where an array stands in a tree: `layers.0.kernel`."""
    return jax.tree_util.keystr(path, simple=True, separator=".").removesuffix(".value")
