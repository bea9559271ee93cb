"""The algorithm `network`: a network that the user wrote, over the vectors of slots."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from ...platform.dependent import when
from ...platform.errors import ModelError, OptionError, StatementError
from ...platform.functions.source_text import SourceText, blaming_line
from ...platform.operators.adagrad import AdagradOptions, adagrad
from ...platform.operators.base import DenseSpec, Operator, TableSpec
from ...platform.operators.ftrl import FtrlOptions, ftrl
from ...platform.options import Part, Value, option, written_name
from ...platform.trust import TRUST, digest
from ..base import Algorithm, Inputs, Layout, Online, Parameters, Supervised, Traits
from ..layers.initial import uniform
from ..layers.running import running
from ..losses import LOGLOSS
from ..pools import PooledOptions
from ..positions import places
from .base import Bridged
from .features import DRY_BATCH, Features, features_of, rows_of, shaped, shapes_of
from .modules import bridged, is_network
from .source import NETWORK, member, network_of_file, network_text, of_module

if TYPE_CHECKING:
    import optax

PREFIX = "network."
INIT_SCALE, LINEAR_RATE, VECTOR_RATE, RATE = 0.01, 0.1, 0.02, 0.001  # as of dcn


@dataclass(frozen=True)
class NetworkOptions(PooledOptions):
    """Options of network; all others are arguments of the network's constructor."""

    file: str | None = option(None, "the file of the network; the model stores its text")
    module: str | None = option(None, "the module of the network, in place of a file")
    class_: str | None = option(
        None, "the network's class; by default the file's functions init and apply, or its only network"
    )
    target: tuple[str, ...] = option((), "the categorical slots of what is offered, such as (item, category)")
    history: tuple[str, ...] = option(
        (), "the arrays of what the user had, the newest last; or one array of structs", role="sequence", length="length"
    )
    length: int = option(
        50, "elements of a history that are read, the last ones", minimum=1, maximum=10_000, needs=(when("history"),)
    )
    dim: int = option(16, "elements of a feature's vector", minimum=1, maximum=1024)
    source: str | None = option(None, "the source text itself; by default that of file or module")
    sha256: str | None = option(None, "the SHA-256 of the source text; by default computed")
    arguments: tuple = option((), "the arguments of the constructor as pairs; by default all other options")  # type: ignore[type-arg]


class Carrying(Part[NetworkOptions, Algorithm]):
    """The part of an algorithm whose model carries source text, and whose options go on to a constructor."""

    __slots__ = ()

    def read(self, given: Mapping[str, Value]) -> Mapping[str, Value]:
        """Read the text that the file or module of a statement names, and gather what is the constructor's.

        Raises:
            OptionError: there is no text.
            ModelError: it comes with a model, and is another than its hash says, or nobody trusts it.
        """
        lowered = {name.lower(): value for name, value in given.items()}
        own = {name: value for name, value in lowered.items() if name in OWN}
        arguments = dict(own.get("arguments", Value(())).value)
        arguments |= {name: value.value for name, value in lowered.items() if name not in OWN}
        if arguments:
            own["arguments"] = Value(tuple(arguments.items()))
        text, named = own.get("source"), fresh(own)
        if named is not None:
            read = network_of_file if named == "file" else of_module
            source = read(str(own[named].value), own[named].position).text
            if named == "file":
                own.pop("module", None)
            own["source"], own[named] = Value(source), Value(own[named].value)
            own["sha256"] = Value(digest(source))
            TRUST.add(source)
        elif text is not None and isinstance(text.value, str):
            if text.position is not None:
                TRUST.add(text.value)
                own |= {"source": Value(text.value), "sha256": Value(digest(text.value))}
            self.check_carried({name: value.value for name, value in own.items()})
            TRUST.check(text.value, str(own.get("file", own.get("module", Value("text"))).value))
        return own

    def check_carried(self, options: Mapping[str, Any]) -> None:
        """See Part: a model carries its text, and the hash of it."""
        lowered = {name.lower(): value for name, value in options.items()}
        text = lowered.get("source")
        if not isinstance(text, str) or not isinstance(lowered.get("sha256"), str):
            raise ModelError(
                "The model's manifest is damaged: it has no source text with its SHA-256, and a file or module that it names "
                "is not read. Restore it from a backup, or TRAIN again."
            )
        if lowered["sha256"] != digest(text):
            raise ModelError("The model's source text is not what its hash says: it was changed. Restore it from a backup.")


OWN = frozenset(written_name(field.name) for field in fields(NetworkOptions))


def fresh(own: Mapping[str, Value]) -> str | None:
    """Return which option of a statement names a text that is to be read; None where there is none.

    Raises:
        OptionError: two do.
    """
    written = [name for name in ("file", "module", "source") if name in own and own[name].position is not None]
    named = [name for name in written if own[name].value is not None]
    if len(named) > 1:
        subject = NETWORK._replace(option=named[1])
        raise OptionError(f"{subject} names a network, and so does {named[0]}. Leave one out.", own[named[1]].position, subject)
    return named[0] if named and named[0] != "source" else None


class DryRun(NamedTuple):
    """What is known of a network before it learns: its text, its inputs, itself, and the shape and type of its scores."""

    source: SourceText
    features: Features
    net: Bridged
    outputs: Any


def dry_run(options: NetworkOptions, layout: Layout) -> DryRun:
    """Make a network and run it once on a few examples, in JAX on shapes alone.

    Raises:
        OptionError: no text, no such class, or an argument that the constructor does not take.
        StatementError: the network fails, at its line; or its output has another shape than float[batch, labels].
    """
    if options.source is None:
        subject = NETWORK._replace(option="file")
        raise OptionError(f"{subject} is missing: name the network's file, like file = 'ranker.py'.", subject=subject)
    places(options.target, layout.scalar, NETWORK._replace(option="target"), again=True)
    source = network_text(options.source, options.file or options.module or "<network>")
    features = features_of(layout, options.target, options.dim)
    made = member(source, options.class_, is_network)
    with blaming_line(source):
        net = bridged(made, features, dict(options.arguments), made.__name__ if isinstance(made, type) else source.file)
        check_shapes(net)
        like = floats(net), shapes_of(features)
        outputs = jax.eval_shape(net.apply, *like, shaped((2,), jnp.uint32))
        jax.eval_shape(lambda own, x: net.apply(own, x, None), *like)
    check_outputs(outputs, len(layout.labels))
    return DryRun(source, features, net, outputs)


def network(options: NetworkOptions, layout: Layout) -> Algorithm:
    """Learn a network of your own, in Flax NNX, Equinox, PyTorch or plain JAX, over the vectors of slots: file = 'ranker.py'.

    The network gets the names of its inputs (`xpsql.Features`) when it is made, and their values when it is called. It
    returns a score before the sigmoid for each label. FTRL learns the linear weights, AdaGrad the vectors, Adam the
    network's parameters. The model contains the text of the file, which runs wherever the model is loaded.

    Raises:
        OptionError: no text, no such class, or an argument that the constructor does not take.
        StatementError: the network fails, at its line; or its output has another shape than float[batch, labels].
    """
    source, features, net, _ = dry_run(options, layout)

    @functools.lru_cache(maxsize=1)
    def start(seed: int) -> Mapping[str, jax.Array]:
        return net.start(seed)

    def scores(parameters: Parameters, inputs: Inputs) -> jax.Array:
        own = {name: parameters[PREFIX + name] for name in everything(net)}
        with blaming_line(source):
            found = net.apply(own, rows_of(parameters, inputs, layout, features), inputs.random)
        return found.reshape(inputs.batch, -1)

    def optimizer(table: TableSpec) -> Operator:
        if table.name == "weights":
            return ftrl(FtrlOptions(alpha=LINEAR_RATE), table)
        return adagrad(AdagradOptions(learning_rate=VECTOR_RATE), table)

    def dense_optimizer() -> optax.GradientTransformation:
        import optax  # costs 0.2 s, which algorithms without layers need not pay

        return optax.adam(RATE)

    def init(name: str, seed: int) -> jax.Array:
        return start(seed)[name]

    return Algorithm(
        tables=(TableSpec("weights", len(layout.labels)), TableSpec("vectors", options.dim, uniform(INIT_SCALE, options.dim))),
        optimizer=optimizer,
        learns=Online(Supervised(scores, LOGLOSS, labels="several"), random=True),
        dense=(
            *(DenseSpec(PREFIX + name, shape, functools.partial(init, name)) for name, shape in net.shapes.items()),
            *(running(PREFIX + name, shape, 0.0, functools.partial(init, name)) for name, shape in net.averages.items()),
        ),
        dense_optimizer=dense_optimizer,
        traits=Traits(compact=True, outside=net.outside),
    )


def floats(net: Bridged) -> dict[str, Any]:
    """Return the shapes of a network's parameters as JAX takes them."""
    return {name: shaped(shape, jnp.float32) for name, shape in everything(net).items()}


def everything(net: Bridged) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a network's parameters, running averages too, by name."""
    return {**net.shapes, **net.averages}


def check_shapes(net: Bridged) -> None:
    """Refuse a parameter of a negative size, which JAX takes for a shape until it computes."""
    for name, shape in everything(net).items():
        if min(shape, default=0) < 0:
            raise StatementError(
                f"The network has a parameter {name} of shape {list(shape)}: no size is below 0. Check the arguments that the "
                "statement gives the network.",
                subject=NETWORK,
            )


def check_outputs(outputs: Any, labels: int) -> None:
    """Refuse scores that are no float for each label of each example."""
    shape, dtype = getattr(outputs, "shape", None), getattr(outputs, "dtype", jnp.int32)
    right = shape == (DRY_BATCH, labels) or (labels == 1 and shape == (DRY_BATCH,))
    if not right or not jnp.issubdtype(dtype, jnp.floating):
        came = type(outputs).__name__ if shape is None else f"{dtype}{list(shape)} for a batch of {DRY_BATCH}"
        wanted = "float[batch] or float[batch, 1]" if labels == 1 else f"float[batch, {labels}], a score for each label"
        raise StatementError(f"The network must return {wanted}, got {came}.", subject=NETWORK)


NETWORK_PART = Carrying("network", NetworkOptions, network)
