"""Networks in PyTorch: a module's forward and backward run in torch, called from the step that JAX compiles of all the rest."""

from __future__ import annotations

import copy
import functools
import itertools
import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...platform.errors import StatementError
from ..layers.running import LEARNED, follow
from .base import Arrays, Bridged, check_float32, unknown_state
from .callback import Callback
from .features import DRY_BATCH, BatchRows, Features, shaped, shapes_of
from .source import NETWORK

if TYPE_CHECKING:
    from .tensors import TensorValues

DRAWING = threading.RLock()  # torch draws from one generator for all threads
FLOATS = 4  # of a batch beside its histories; see floats_of
KEPT = 256  # graphs whose gradients nobody asked for yet; each worker has one
AVERAGES = ("running_mean", "running_var", "num_batches_tracked")  # of a BatchNorm; the last has no use beside a momentum
SCORES, KEPT_SCORES, GRADIENTS = range(3)  # what a step asks for; of kept ones it will ask for gradients
Shapes = dict[str, tuple[int, ...]]


class Returned(NamedTuple):
    """The shape and type of what a module returns; `batched`: it has a line for each example, which the shape is without."""

    shape: tuple[int, ...]
    dtype: Any
    batched: bool


class Explored(NamedTuple):
    """What a module is found to be when it runs.

    Attributes:
        shapes, averages: of its parameters, and of the running averages of its BatchNorm layers.
        meets: it has such layers, so that what an update computes of an example depends on the others.
        draws: an update draws random numbers.
        apart: it computes the same where `flat` stays apart; see TensorValues.
        scores: what it returns.
    """

    shapes: Shapes
    averages: Shapes
    meets: bool
    draws: bool
    apart: bool
    scores: Returned


def of_torch(made: Callable[..., Any], features: Features, arguments: Mapping[str, Any]) -> Bridged:
    """Return a module of PyTorch, which sees a batch; its dropout draws from the training's random numbers.

    Raises:
        StatementError: a parameter that is no float32, or state that changes and is no running average of a BatchNorm.
    """

    def new(seed: int) -> Any:
        with drawing(seed):
            return made(features, **arguments)

    module = new(0)
    found = explored(module, features)
    runner = Runner(module, found, features)

    def start(seed: int) -> Arrays:
        values = dict(itertools.chain((own := new(seed)).named_parameters(), own.named_buffers()))
        return {name: jnp.asarray(values[name].detach().numpy()) for name in (*found.shapes, *found.averages)}

    def scores(own: Arrays, x: BatchRows, random: jax.Array | None) -> jax.Array:
        update, batch = LEARNED.get(), len(x.wide)
        there = jnp.ones(batch, jnp.bool_) if update is None else update.examples
        floats = (*floats_of(x), *(own[name] for name in found.shapes))
        averages = tuple(own[name] for name in found.averages)
        result, moved = called(runner, floats, (averages, others_of(x), there, random))
        if random is not None and moved:
            follow(own, lambda mask: dict(zip(found.averages, moved, strict=True)))
        return result

    return Bridged(found.shapes, start, scores, found.averages, "PyTorch")


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def called(runner: Runner, floats: tuple[jax.Array, ...], rest: Any) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    """Return the scores of a batch, and what running averages become."""
    result, moved, _ = runner.called(SCORES, runner.results(rest), floats, rest)
    return result, moved


def called_forward(runner: Runner, floats: tuple[jax.Array, ...], rest: Any) -> Any:
    result, moved, ticket = runner.called(KEPT_SCORES, runner.results(rest), floats, rest)
    return (result, moved), (ticket, [shaped(one.shape, one.dtype) for one in floats])


def called_backward(runner: Runner, saved: Any, gradient: Any) -> tuple[tuple[jax.Array, ...], None]:
    ticket, like = saved
    return tuple(runner.called(GRADIENTS, like, ticket, gradient[0])), None


called.defvjp(called_forward, called_backward)


class Runner(Callback):
    """Runs a module on what JAX has, in any thread; keeps the graph of an update until its gradients are asked for.

    Arrays are copied: JAX may write other values where they were before the gradients are computed.
    """

    def __init__(self, module: Any, found: Explored, features: Features) -> None:
        super().__init__()
        self._idle = [module]
        self._module = copy.deepcopy(module)
        self._found = found
        self._features = features
        self._learned = {name for name, one in module.named_parameters() if one.requires_grad}
        self._graphs: dict[int, tuple[Any, list[Any]]] = {}
        self._tickets = itertools.count(1)

    def results(self, rest: Any) -> Any:
        """Return the shapes of the scores, of what the averages become, and of a ticket for the gradients."""
        scores, averages = self._found.scores, self._found.averages.values()
        batch = (len(rest[2]),) if scores.batched else ()
        moved = tuple(shaped(shape, jnp.float32) for shape in averages)
        return shaped((*batch, *scores.shape), scores.dtype), moved, shaped((), jnp.int32)

    def answer(self, what: int, given: Sequence[Any], into: Sequence[Any]) -> None:
        """Compute scores, or the gradients of an update."""
        limit_threads()
        if what == GRADIENTS:
            self._pull_back(given, into)
        else:
            self._run(what == KEPT_SCORES, iter(given), into)

    def _run(self, keeps: bool, given: Iterator[Any], into: Sequence[Any]) -> None:
        """Compute scores.

        Args:
            keeps: gradients will be asked for.
        """
        import torch

        histories = len(self._features.histories)

        def next_ones(count: int) -> list[Any]:
            return [tensor(one) for one in itertools.islice(given, count)]

        inputs, parameters = next_ones(FLOATS + histories), next_ones(len(self._found.shapes))
        own = dict(zip(self._found.shapes, parameters, strict=True))
        for leaf in (*inputs, *(own[name] for name in self._learned)):
            leaf.requires_grad_(keeps)
        moving = dict(zip(self._found.averages, next_ones(len(self._found.averages)), strict=True))
        others, there, random = next_ones(1 + histories), next(given), next(given, None)
        examples = np.flatnonzero(there)
        updates = random is not None and (not self._found.meets or len(examples) > 1)  # BatchNorm needs two
        chosen = torch.from_numpy(examples) if updates and self._found.meets and len(examples) < len(there) else None
        values = values_of(inputs, others, self._features, self._found.apart, chosen)
        seed = 0 if random is None else int.from_bytes(random.tobytes(), "little")
        with torch.set_grad_enabled(keeps):
            scores = self._call({**own, **moving}, values, updates, seed).float()
            if chosen is not None:
                scores = scores.new_zeros((len(there), *scores.shape[1:])).index_copy(0, chosen, scores)
        result, *moved, ticket = into
        result[...] = scores.detach().numpy()
        for place, value in zip(moved, moving.values(), strict=True):
            place[...] = value.numpy()
        ticket[...] = number = next(self._tickets)
        if keeps:
            self._graphs[number] = scores, [*inputs, *parameters]
            self._graphs.pop(number - KEPT, None)

    def _call(self, state: Mapping[str, Any], values: TensorValues, updates: bool, seed: int) -> Any:
        """Call the module with these parameters; each thread has a copy of its own while it does."""
        import torch

        try:
            module = self._idle.pop()
        except IndexError:
            module = copy.deepcopy(self._module)
        module.train(updates)
        if not self._found.draws:
            result = torch.func.functional_call(module, dict(state), (values,))
        else:
            with drawing(seed):
                result = torch.func.functional_call(module, dict(state), (values,))
        self._idle.append(module)
        return result

    def _pull_back(self, given: Sequence[Any], into: Sequence[Any]) -> None:
        """Compute the gradients of an update by what it returned."""
        import torch

        ticket, gradient = given
        scores, leaves = self._graphs.pop(int(ticket))
        asked = [leaf for leaf in leaves if leaf.requires_grad]
        found = iter(torch.autograd.grad(scores, asked, tensor(gradient), allow_unused=True) if scores.requires_grad else [])
        for place, leaf in zip(into, leaves, strict=True):
            own = next(found, None) if leaf.requires_grad else None
            place[...] = 0 if own is None else own.numpy()


def explored(module: Any, features: Features) -> Explored:
    """Run a module on a few examples, as in an update and as in scoring, to see what it is."""
    import torch

    shapes, buffers = shapes_of_floats(module.named_parameters()), dict(module.named_buffers())
    layers = [
        (path, layer) for path, layer in module.named_modules() if isinstance(layer, torch.nn.modules.batchnorm._BatchNorm)
    ]
    own = {f"{path}.{name}".lstrip("."): name for path, layer in layers if layer.momentum is not None for name in AVERAGES}
    averages = shapes_of_floats((name, one) for name, one in buffers.items() if name in own and own[name] != AVERAGES[-1])
    with drawing(0):
        dry = shapes_of(features)
        given = [torch.randn(one.shape, requires_grad=True) for one in floats_of(dry)]
        index = torch.arange(math.prod(dry.index.shape), dtype=torch.int32).reshape(dry.index.shape)
        others = index, *(torch.ones(mask.shape, dtype=torch.bool) for _, mask in dry.history.values())
        values = values_of(given, others, features)
        trial, drawn = copy.deepcopy(module), torch.get_rng_state()
        result = trial.train()(values)
        draws = not torch.equal(drawn, torch.get_rng_state())
        after = dict(trial.named_buffers())
        changed = [(name, "buffer") for name, one in buffers.items() if not torch.equal(one, after[name])]
        attributes = attributes_of(module)
        changed += [(name, "number") for name, one in attributes_of(trial).items() if attributes.get(name) != one]
        for name, kind in changed:
            if name not in own:
                raise unknown_state(name, kind)
        with torch.no_grad():
            trial.eval()(values)
    if not isinstance(result, torch.Tensor):
        raise StatementError(f"The network must return a tensor, got {type(result).__name__}.", subject=NETWORK)
    apart = same_apart(trial, given, functools.partial(values_of, given, others, features))
    shape = tuple(result.shape)
    batched = shape[:1] == (DRY_BATCH,)
    scores = Returned(
        shape[1:] if batched else shape,
        jnp.dtype("float32" if result.is_floating_point() else str(result.dtype).removeprefix("torch.")),
        batched,
    )
    return Explored(shapes, averages, bool(layers), draws, apart, scores)


def same_apart(module: Any, given: Sequence[Any], values: Callable[[bool], TensorValues]) -> bool:
    """Return whether a module in scoring gives the same, and its gradients are the same, where `flat` stays apart."""
    import torch

    asked = [*given, *(one for one in module.parameters() if one.requires_grad)]

    def found(apart: bool) -> Any:
        scores = module(values(apart))
        return [scores, *torch.autograd.grad(scores.sum(), asked, materialize_grads=True)]

    try:
        return all(map(functools.partial(torch.allclose, rtol=1e-3, atol=1e-4), found(False), found(True)))
    except Exception:  # of whatever in torch does not take it; a fault of the module's own was raised before
        return False


def values_of(
    floats: Sequence[Any], others: Sequence[Any], features: Features, apart: bool = False, chosen: Any = None
) -> TensorValues:
    """Return tensors as a module sees them, of the chosen examples alone; in the order of `floats_of` and `others_of`."""
    from .tensors import TensorValues

    (rows, *of_examples), (index, *there) = floats, others
    if chosen is not None:
        index = index.index_select(1, chosen)
        of_examples, there = ([one.index_select(0, chosen) for one in some] for some in (of_examples, there))
    pooled, dense, wide, *histories = of_examples
    history = dict(zip(features.histories, zip(histories, there, strict=True), strict=True))
    return TensorValues(rows, index, pooled, dense, wide, history, features, apart and len(index) > 0)


def floats_of(x: BatchRows) -> tuple[Any, ...]:
    return x.rows, x.pooled, x.dense, x.wide, *(values for values, _ in x.history.values())


def others_of(x: BatchRows) -> tuple[Any, ...]:
    return jnp.asarray(x.index), *(mask for _, mask in x.history.values())


def shapes_of_floats(named: Iterable[tuple[str, Any]]) -> Shapes:
    """Return the shapes of tensors by name; refuse one that is no float32."""
    found = dict(named)
    for name, one in found.items():
        check_float32(name, one)
    return {name: tuple(one.shape) for name, one in found.items()}


def attributes_of(module: Any) -> dict[str, float]:
    """Return the numbers that a module and its parts have as attributes; a part that changes one would forget it."""
    return {
        f"{path}.{name}".lstrip("."): value
        for path, part in module.named_modules()
        for name, value in vars(part).items()
        if isinstance(value, int | float) and name != "training"
    }


def tensor(array: Any) -> Any:
    """Return a copy of an array of JAX."""
    import torch

    return torch.from_numpy(array.copy())


@contextmanager
def drawing(seed: int) -> Iterator[None]:
    """Draw by a seed in this thread alone, and leave torch's generator as it was."""
    import torch

    with DRAWING:
        before = torch.get_rng_state()
        torch.default_generator.manual_seed(seed)
        try:
            yield
        finally:
            torch.set_rng_state(before)


@functools.cache
def limit_threads() -> None:
    """Let torch use as many threads as XLA does."""
    import torch

    if count := os.environ.get("NPROC"):
        torch.set_num_threads(int(count))
