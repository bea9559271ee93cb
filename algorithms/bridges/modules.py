"""Networks of three kinds as one: named arrays, and a function of them and of the inputs."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ...platform.errors import StatementError
from .constructor import arguments_of, parameters_of
from .features import Features, FeatureValues
from .source import NETWORK

Arrays = Mapping[str, jax.Array]


class Bridged(NamedTuple):
    """A network.

    Attributes:
        shapes: of its parameters, by name.
        start: (seed) -> the parameters of a new model, by name.
        apply: (parameters, inputs, uint32[2] in an update, else None) -> float[batch] or float[batch, labels].
    """

    shapes: Mapping[str, tuple[int, ...]]
    start: Callable[[int], Arrays]
    apply: Callable[[Arrays, FeatureValues, jax.Array | None], jax.Array]


def bridged(made: Any, features: Features, given: Mapping[str, Any], name: str) -> Bridged:
    """Return a class or a module of functions as a network.

    Raises:
        StatementError: it is none of the three kinds, has a parameter that is no float32, or state that changes.
        OptionError: its constructor does not take what is given.
    """
    if isinstance(made, type) and issubclass(made, known("flax.nnx", "Module")):
        return of_nnx(made, features, arguments_of(made, given, name))
    if isinstance(made, type) and issubclass(made, known("equinox", "Module")):
        return of_equinox(made, features, arguments_of(made, given, name))
    if not (callable(getattr(made, "init", None)) and callable(getattr(made, "apply", None))):
        raise StatementError(
            f"{name} is no network: expected a flax.nnx.Module, an equinox.Module, or functions init(key, ...) and "
            "apply(parameters, x). Name one with class = 'Name'.",
            subject=NETWORK._replace(option="class"),
        )
    if isinstance(made, ModuleType):
        arguments = arguments_of(made.init, given, f"init of {name}")
        return of_functions(functools.partial(made.init, features=features, **arguments), made.apply)
    network = made(features, **arguments_of(made, given, name))
    return of_functions(network.init, network.apply)


def known(package: str, name: str) -> tuple[type, ...]:
    """Return a class of a package that is loaded, to look for; the text loads its own, nothing else does."""
    module = sys.modules.get(package)
    return () if module is None else (getattr(module, name),)


def of_functions(init: Callable[..., Any], apply: Callable[..., Any]) -> Bridged:
    """Return plain functions: init(key) -> a tree of arrays, apply(parameters, x[, random]) -> scores."""
    tree = jax.eval_shape(lambda: init(jax.random.key(0)))
    names, structure, shapes = named(tree)
    asks = "random" in inspect.signature(apply).parameters

    def start(seed: int) -> Arrays:
        return dict(zip(names, jax.tree.leaves(init(jax.random.key(seed))), strict=True))

    def scores(parameters: Arrays, x: FeatureValues, random: jax.Array | None) -> jax.Array:
        own = structure.unflatten([parameters[name] for name in names])
        key = None if random is None else jax.random.wrap_key_data(random)
        result: jax.Array = apply(own, x, random=key) if asks else apply(own, x)
        return result

    return Bridged(shapes, start, scores)


def of_nnx(made: type, features: Features, arguments: Mapping[str, Any]) -> Bridged:
    """Return a module of Flax NNX, which sees a batch; its dropout draws from the training's random numbers."""
    from flax import nnx

    takes = "rngs" in parameters_of(made)

    def new(seed: int) -> Any:
        return made(features, **arguments, **({"rngs": nnx.Rngs(seed)} if takes else {}))

    graph, parameters, rest = nnx.split(nnx.eval_shape(lambda: new(0)), nnx.Param, ...)
    for path, variable in nnx.to_flat_state(rest):
        if not isinstance(variable, nnx.RngState):
            raise unknown_state(".".join(map(str, path)), type(variable).__name__)
    names, structure, shapes = named(parameters)
    states = jax.tree.leaves(rest)
    state: Any = jax.tree.structure(rest)

    def start(seed: int) -> Arrays:
        return dict(zip(names, jax.tree.leaves(nnx.split(new(seed), nnx.Param, ...)[1]), strict=True))

    def scores(own: Arrays, x: FeatureValues, random: jax.Array | None) -> jax.Array:
        key = jax.random.key(0) if random is None else jax.random.wrap_key_data(random)
        drawn = [
            jax.random.fold_in(key, place)
            if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
            else jnp.zeros(leaf.shape, leaf.dtype)
            for place, leaf in enumerate(states)
        ]
        network = nnx.merge(graph, structure.unflatten([own[name] for name in names]), state.unflatten(drawn))
        network.eval() if random is None else network.train()
        result: jax.Array = network(x)
        return result

    return Bridged(shapes, start, scores)


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

    def scores(own: Arrays, x: FeatureValues, random: jax.Array | None) -> jax.Array:
        network = eqx.combine(structure.unflatten([own[name] for name in names]), static)
        network = eqx.nn.inference_mode(network, value=random is None)
        if not asks or random is None:
            result: jax.Array = jax.vmap(network)(x)
            return result
        keys = jax.random.split(jax.random.wrap_key_data(random), len(x.wide))
        drawn: jax.Array = jax.vmap(lambda x, key: network(x, key=key))(x, keys)
        return drawn

    return Bridged(shapes, start, scores)


def named(tree: Any) -> tuple[list[str], Any, dict[str, tuple[int, ...]]]:
    """Return the names of a tree's arrays in its order, its structure, and the shapes by name.

    Raises:
        StatementError: one is no float32.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(tree)
    names = [dotted(path) or "parameter" for path, _ in leaves]
    for name, (_, leaf) in zip(names, leaves, strict=True):
        if getattr(leaf, "dtype", None) != jnp.float32:
            came = getattr(leaf, "dtype", type(leaf).__name__)
            raise StatementError(f"The network's parameter {name} must be float32, got {came}.", subject=NETWORK)
    return names, structure, {name: leaf.shape for name, (_, leaf) in zip(names, leaves, strict=True)}


def dotted(path: Any) -> str:
    """Return where an array stands in a tree: `layers.0.kernel`."""
    return jax.tree_util.keystr(path, simple=True, separator=".").removesuffix(".value")


def unknown_state(name: str, kind: str) -> StatementError:
    """Return the error of state that is no parameter."""
    return StatementError(
        f"The network has state that is no parameter: {name}, a {kind}, whose changes updates of several workers would lose. "
        "Make it a parameter, or do without.",
        subject=NETWORK,
    )
