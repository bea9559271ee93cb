"""A model of the user as a sequence: the rows of a user are events, which one pass of a causal encoder learns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import jax
import jax.numpy as jnp

from ...platform.dependent import when
from ...platform.errors import OptionError, Subject
from ...platform.operators.adagrad import AdagradOptions, adagrad
from ...platform.operators.base import DenseSpec, TableSpec
from ...platform.options import Part, option
from ...platform.registry import MAYBE_LABELLED
from ..augments.past_fields import LearnedContext, PastFields
from ..augments.random_items import RandomItems
from ..base import (
    Algorithm,
    Inputs,
    Layout,
    Match,
    Online,
    Output,
    Parameters,
    Sizing,
    Supervised,
    Traits,
    Unsupervised,
)
from ..blocks.events import EVENTS, States
from ..layers.causal import ENCODERS, EncoderInput, EncoderSizes, normal
from ..layers.initial import uniform
from ..layers.lookups import gathered
from ..layers.pooling import chosen_vectors
from ..losses import LOGLOSS
from ..positions import places
from ..sampled_recall import found_in
from .tower import Tower, check_hidden

if TYPE_CHECKING:
    import optax

SUBJECT = Subject("USING", "sequence")
SMALLEST, NEVER = 1e-12, -1e9
ENOUGH = 1e29
"""An item that is expected more often than that in a batch fills it up, and is no negative."""
START = "start"
CONTEXT = 64


@dataclass(frozen=True)
class SequenceOptions:
    """Options of sequence."""

    item: tuple = option(("item",), "categorical slots of the item: its id first, then what describes it")  # type: ignore[type-arg]
    actions: tuple = option(  # type: ignore[type-arg]
        (),
        "categorical slots that tell what came of an event, such as a copy of the label: later events see them, the event "
        "itself does not",
    )
    history: tuple = option(  # type: ignore[type-arg]
        (),
        "the fields of a stored history that stand for item and actions, in order: events before a user's first row",
        role="past",
        length="length",
    )
    context: int | None = option(
        None,
        "events of history that are seen before what is learned of a user, fewer than length; by default 64, or as many as fit "
        "into length, which is what predictions see",
        minimum=1,
        maximum=16_384,
        needs=(when("history"),),
    )
    encoder: str = option(
        "sasrec",
        "sasrec, a transformer that sees how many events lie between two; or hstu, which sees times, too",
        choices=tuple(ENCODERS),
    )
    length: int = option(
        256, "events of a user that are read together; longer sequences become windows", minimum=1, maximum=16_384
    )
    layers: int = option(2, "layers of the encoder", minimum=1, maximum=64)
    dim: int = option(64, "elements of a vector, of a feature and of an event", minimum=1, maximum=1024)
    heads: int = option(2, "heads of attention, which divide dim", minimum=1, maximum=64)
    dropout: float = option(
        0.2, "share of elements left out of each update in the encoder", minimum=0, maximum=1, open_maximum=True
    )
    negatives: int = option(
        2048,
        "without LABEL: random items that each event is told from, drawn for each batch from ITEMS, or else from some "
        "131,072 rows; where there are no more items, all of them",
        minimum=1,
        maximum=65_536,
    )
    temperature: float = option(
        0.1, "without LABEL: inner products are divided by it; lower it for long logs", minimum=0, open_minimum=True, maximum=10
    )
    hidden: tuple = option((64,), "with LABEL: units of the hidden layers over what is known")  # type: ignore[type-arg]
    vector_learning_rate: float = option(
        0.1, "learning rate of the features' vectors", minimum=0, open_minimum=True, optimizer=True
    )
    learning_rate: float = option(0.001, "learning rate of the layers", minimum=0, open_minimum=True)
    init_scale: float = option(0.1, "standard deviation of new vectors", minimum=0)

    @property
    def events_read(self) -> int:
        """See `events_read` of platform/options."""
        return self.length


def sequence(options: SequenceOptions, layout: Layout) -> Algorithm:
    """Learn what each user does next from what came before, by one pass of a causal encoder over all events of the user.

    A row is an event: GROUP names its user, TIME its moment. Rows are sorted by both. Without LABEL the model finds the item of
    each event among random items, after the events before its moment (retrieval):

        s_ij = <q_i, v_j> / temperature,   loss_i = log(exp(s_ii) + sum over j of exp(s_ij - log(expected_j))) - s_ii

    q_i is the encoder's output at the last earlier event, v_j the sum of an item's vectors, both of length 1; expected_j is
    how often the random item j is expected in a batch. ML.RECOMMEND ranks items by their product. In training, `recall` is
    the share of events whose item is in the best twentieth of the random ones.

    With LABEL it predicts the labels of each event (ranking): beside the stream of what events were there is one of what is
    asked, the item with the other slots of the row, which sees the events of earlier moments, with their `actions`, and itself
    without. A layer over what is found, the item times it, and the slots of the row scores each label.

    A user of more than `length` events is read in windows that overlap by half. Events of one moment do not see each other.

    Source: Zhai et al., "Actions Speak Louder than Words: Trillion-Parameter Sequential Transducers for Generative
    Recommendations", ICML 2024; Kang and McAuley, "Self-Attentive Sequential Recommendation", ICDM 2018; its places: Su et al.,
    "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021; sampled softmax:
    Klenitskiy and Vasilev, "Turning Dross Into Gold Loss: is BERT4Rec really better than SASRec?", RecSys 2023.

    Raises:
        OptionError: GROUP or TIME is missing, a slot is not what its option says, or heads do not divide dim.
    """
    check(options, layout)
    network = SequenceNetwork(options, layout)
    vectors = TableSpec("vectors", options.dim, uniform(options.init_scale, options.dim))
    past = (PastFields(tuple(network.seen)), *((LearnedContext(options.context or CONTEXT),) if options.history else ()))
    ranks = bool(layout.labels)
    drawn = () if ranks else (RandomItems(options.negatives, network.items, all_of_few=True),)
    goal = Supervised(network.scores, LOGLOSS, labels="several") if ranks else Unsupervised(network.objective, finds=True)
    outputs = {"vector": Output(network.queries, vector=True), "item": Output(network.item_vectors, vector=True)}
    queried = tuple(slot for slot in layout.slots if slot not in network.items[1:])
    return Algorithm(
        tables=(vectors,),
        optimizer=lambda table: adagrad(AdagradOptions(learning_rate=options.vector_learning_rate), table),
        learns=Online(goal, random=options.dropout > 0, augment=(*past, *drawn), examples_meet=True),
        dense=network.specs,
        dense_optimizer=network.dense_optimizer,
        outputs={} if ranks else outputs,
        items=None if ranks else Match("vector", "item", queried, network.items),
        intercept=None,
        sizing=Sizing(least_batch=512),
        traits=Traits(states=network.states if ranks else None, later=network.later),
    )


class SequenceNetwork:
    """The encoder, and what is asked of it.

    Attributes:
        items: the slots of the item.
        seen: the places of the slots that are seen of past events.
        later: the slots of actions, which later events see.
        specs: the dense parameters.
    """

    def __init__(self, options: SequenceOptions, layout: Layout) -> None:
        self._options, self._layout = options, layout
        check_copied(options, layout)
        self._item = places(options.item, layout.scalar, SUBJECT._replace(option="item"))
        actions = places(options.actions, layout.scalar, SUBJECT._replace(option="actions"))
        self.later = tuple(layout.scalar[place] for place in actions)
        self.items, self.seen = tuple(layout.scalar[place] for place in self._item), [*self._item, *actions]
        events = next(iter(layout.block(EVENTS)), None)
        of_events = () if events is None else events.slots
        self._context = [place for place, slot in enumerate(layout.slots) if place not in self.seen and slot not in of_events]
        if twice := [layout.scalar[place] for place in self._item if place in actions]:
            refuse(f"the slot {twice[0]} is of the item and of actions. Name it once.", "actions")
        if self._context and not layout.labels:
            refuse(
                f"the slot {layout.slots[self._context[0]]} is neither of the item nor of actions: name it in item, or in "
                "IGNORE, or add a LABEL to predict."
            )
        sizes = EncoderSizes(options.layers, options.dim, options.heads, options.length, options.dropout)
        self._encoder = ENCODERS[options.encoder](sizes)
        own: tuple[DenseSpec, ...] = (DenseSpec(START, (options.dim,), normal(880, options.init_scale, (options.dim,))),)
        if layout.labels:
            check_hidden(options.hidden, "hidden", "sequence")
            width = (2 + len(self._context)) * options.dim
            relu = ("relu",) * len(options.hidden)
            self._tower = Tower(width, options.hidden, len(layout.labels), relu, False, options.dropout, False)
            own = self._tower.specs
        self.specs = (*self._encoder.specs, *own)

    def dense_optimizer(self) -> optax.GradientTransformation:
        """Return the optimizer of layers."""
        import optax  # costs 0.2 s, which algorithms without layers need not pay

        return optax.adam(self._options.learning_rate)

    def item_vectors(self, parameters: Parameters, inputs: Inputs) -> jax.Array:
        """Return the vector of each example's item, of length 1, float32[batch, dim]."""
        return of_length_one(self._items(parameters, inputs))

    def queries(self, parameters: Parameters, inputs: Inputs) -> jax.Array:
        """Return what is known of the user of each example before its moment, of length 1, float32[batch, dim]."""
        (events,) = inputs.block(EVENTS)
        were, _ = self._encoder.apply(EncoderInput(parameters, self._were(parameters, inputs), None, events, inputs.random))
        found = were.reshape(-1, self._options.dim)[jnp.maximum(events.before, 0)]
        return of_length_one(jnp.where(events.before[:, None] >= 0, found, parameters[START]))

    def objective(self, parameters: Parameters, inputs: Inputs) -> tuple[jax.Array, jax.Array]:
        """Return the loss of each example, and beside it whether its item is found among the random ones; see sequence."""
        items, asked = self.item_vectors(parameters, inputs), self.queries(parameters, inputs)
        expected = inputs.expected
        if expected is None:  # the rows of an evaluation, which meet each other's items
            expected = jnp.ones(len(items))
            own, asked, others, ids = items, asked, items, jnp.asarray(inputs.scalar)[self._item[0]]
            negatives = (inputs.weight > 0)[None] & (ids[:, None] != ids[None])
        else:
            rows = len(items) - len(expected)
            own, asked, others, ids = items[:rows], asked[:rows], items[rows:], jnp.asarray(inputs.scalar)[self._item[0]]
            negatives = (expected < ENOUGH)[None] & (ids[:rows, None] != ids[None, rows:])
        right = (own * asked).sum(axis=1) / self._options.temperature
        raw = asked @ others.T / self._options.temperature
        scores = jnp.where(negatives, raw - jnp.log(expected), NEVER)
        losses = jax.nn.logsumexp(jnp.concatenate([right[:, None], scores], axis=1), axis=1) - right
        found = jnp.stack([losses, found_in(raw, right, negatives)], axis=1)
        spare = len(items) - len(losses)
        return jnp.pad(losses, (0, spare))[:, None], jnp.pad(found, ((0, spare), (0, 0)))

    def states(self, parameters: Parameters, inputs: Inputs) -> States:
        """Return what the encoder's layers keep of events, which need not be read again before later ones."""
        (events,) = inputs.block(EVENTS)
        return self._encoder.states(parameters, self._were(parameters, inputs), events)

    def scores(self, parameters: Parameters, inputs: Inputs) -> jax.Array:
        """Return the score of each label of each event, float32[batch, labels]."""
        (events,) = inputs.block(EVENTS)
        item, dim = self._items(parameters, inputs), self._options.dim
        context = self._context_vectors(parameters, inputs)
        wanted = item + context.sum(axis=1) if self._context else item
        cells = jnp.zeros((events.mask.size, dim), item.dtype)
        asked = cells.at[events.own].set(wanted, mode="drop").reshape(*events.mask.shape, dim)
        _, known = self._encoder.apply(EncoderInput(parameters, self._were(parameters, inputs), asked, events, inputs.random))
        assert known is not None
        found = known.reshape(-1, dim)[events.own]
        seen = [found, item * found, *([context.reshape(item.shape[0], len(self._context) * dim)] if self._context else ())]
        return self._tower.apply(parameters, jnp.concatenate(seen, axis=1), inputs.random)

    def _items(self, parameters: Parameters, inputs: Inputs) -> jax.Array:
        lines = jnp.asarray(inputs.scalar)[jnp.array(self._item)]
        return gathered(parameters["vectors"], lines).sum(axis=1)

    def _context_vectors(self, parameters: Parameters, inputs: Inputs) -> jax.Array:
        if not self._context:
            return jnp.zeros((inputs.batch, 0, self._options.dim))
        return chosen_vectors(parameters["vectors"], inputs, self._layout, "root", self._context)

    def _were(self, parameters: Parameters, inputs: Inputs) -> jax.Array:
        """Return what events were, float32[S, L, dim]."""
        (events,) = inputs.block(EVENTS)
        fields, strips, length = events.rows.shape
        vectors = gathered(parameters["vectors"], events.rows.reshape(fields, strips * length)).sum(axis=1)
        return vectors.reshape(strips, length, self._options.dim)


def of_length_one(x: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.maximum((x * x).sum(axis=1, keepdims=True), SMALLEST))


def check_copied(options: SequenceOptions, layout: Layout) -> None:
    """Refuse a label in actions: the column is what is learned, and its copy what later events see."""
    labels = {label.lower() for label in layout.labels}
    if own := next((str(name) for name in options.actions if str(name).lower() in labels), None):
        refuse(
            f"{own} is the label. Later events see a copy of it: CAST({own} AS STRING) AS {own}_seen in the query, and "
            f"{own}_seen in actions.",
            "actions",
        )


def check(options: SequenceOptions, layout: Layout) -> None:
    """Raise OptionError for what the statement lacks, and sizes that do not fit together."""
    events = next(iter(layout.block(EVENTS)), None)
    if events is None or not events.complete:
        refuse(
            "GROUP and TIME say whose event a row is, and when it was; the statement lacks one of them. Add GROUP user "
            "TIME ts, with columns of the query."
        )
    if options.dim % options.heads:
        message = f"heads = {options.heads} must divide dim = {options.dim}. Choose another number of heads."
        refuse(message, "heads" if options.heads != 2 else "dim")
    if not options.item:
        refuse(f"item expects one or more slots, like item = ({next(iter(layout.scalar), 'item')}).", "item")
    fields = (*options.item, *options.actions)
    if options.history and len(options.history) != len(fields):
        refuse(
            f"history has the events' {', '.join(map(str, fields))}, in this order: name {len(fields)} fields of a stored "
            f"history, got {', '.join(map(str, options.history))}.",
            "history",
        )
    if options.context is not None and options.context >= options.length:
        refuse(
            f"context = {options.context} events would fill a window of length = {options.length}, and what is learned follows "
            "them. Take fewer.",
            "context",
        )
    if layout.offered:
        refuse("it takes no rates of clicks: it sees events themselves.")
    if any(slot for block, records in layout.blocks for slot in records if block is not EVENTS):
        refuse("it reads no arrays in order: its rows are the history. Leave such columns out, or name them in IGNORE.")


def refuse(message: str, option: str | None = None) -> NoReturn:
    subject = SUBJECT if option is None else SUBJECT._replace(option=option)
    raise OptionError(f"{subject}: {message}", subject=subject)


SEQUENCE = Part("sequence", SequenceOptions, sequence, MAYBE_LABELLED)
