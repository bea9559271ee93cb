"""The conformance suite of algorithms, for ours and for plugins; `xpsql.testing` offers it.

Each check raises AssertionError with what differs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

from ..algorithms.augments.sampling import Sampling
from ..algorithms.base import Algorithm, Inputs, Layout
from ..algorithms.blocks.bags import BagRows
from ..algorithms.solver import Doubles, Solve, SolverInput
from ..platform.operators import OPERATORS
from ..platform.operators.base import Context, Operator, Rows, TableSpec, pull, push
from ..platform.operators.chains import chain
from ..platform.options import Part
from ..platform.training.online.step import Learned, learn_step, objective_step, say, score_step
from .changed import ABSENT, EXAMPLES, PADDING, ROWS, alone, compacted, padded, repeated, with_row
from .elements import trial_of
from .operators import context, keys, new_rows, usual

LAYOUT = Layout(("user", "item"), ("tags", "scores"), ("price", "age"), (("embedding", 2),))
SEQUENCES = Layout(bags=("tags", "scores"), labels=())
SEED, STEPS = 7, 60
ACCELERATORS = ("cuda", "tpu")

Parameters = dict[str, jax.Array]


class AlgorithmTrial:
    """An algorithm on a small batch with every kind of slot, its steps compiled once for all checks.

    Args:
        part: the algorithm's part.
        options: its options; None: its defaults.
        layout: LAYOUT, with one label or two, or the multi-valued slots of it alone: SEQUENCES; with slots
            of blocks, such as histories, if the algorithm has some.
    """

    def __init__(self, part: Part[Any, Algorithm], options: Any = None, layout: Layout = LAYOUT) -> None:
        self.algorithm: Algorithm = part.make(part.options() if options is None else options, layout)
        assert part.takes.shards == self.algorithm.serves, (
            "the part of what is Solved or Packaged takes AT_ONCE, no other's does"
        )
        self._layout = layout
        self.learn = learn_step(self.algorithm)
        self.score = score_step(self.algorithm)

    def parameters(self) -> Parameters:
        """Return rows that have learned something, the last one absent, and dense parameters."""
        random = np.random.default_rng(SEED)
        shapes: dict[str, tuple[int, ...]] = {spec.name: (ROWS, spec.dim) for spec in self.algorithm.tables}
        shapes |= {spec.name: spec.shape for spec in self.algorithm.dense}
        values = {name: random.normal(size=shape) * 0.3 for name, shape in shapes.items()}
        for spec in self.algorithm.tables:
            values[spec.name][ABSENT] = 0
        return {name: jnp.asarray(array, jnp.float32) for name, array in values.items()}

    def inputs(self) -> Inputs:
        """Return a batch in which some features are absent; rows 20 and 21 are nobody's."""
        lines = [[0, 1, 2, 0, 1, ABSENT], [3, 4, 5, 6, 3, 4]][: len(self._layout.scalar)]
        lines += [[7] * EXAMPLES] if self.algorithm.intercept is not None else []
        random, dense = np.random.default_rng(SEED), 4 if self._layout.continuous else 0
        learns = self.algorithm.learns
        fields = {
            "scalar": np.array(lines, np.int32).reshape(-1, EXAMPLES),
            "dense": random.normal(size=(EXAMPLES, 4)).astype(np.float32)[:, :dense],
            "dense_index": np.array([12, 13, 14, 15], np.int32)[:dense],
            "label": np.array([[0, 1, 1, 0, 1, 0], [0, 0, 1, 0, 1, 0]], np.float32)[: max(1, len(self._layout.labels))],
            "weight": np.array([1, 2, 1, 0.5, 1, 1], np.float32),
        }
        for sampling in learns.augment:
            if isinstance(sampling, Sampling):
                fields["sampled"] = random.integers(8, 16, sampling.number).astype(np.int32)
        arrays: dict[str, Any] = {name: jnp.asarray(values) for name, values in fields.items()}
        bags = BagRows(
            jnp.array([8, 9, 8, 10, 11, 11, ABSENT], jnp.int32),
            jnp.array([0, 0, 2, 3, 0, 4, 0], jnp.int32),
            jnp.array([0, 0, 0, 0, 1, 1, 0], jnp.int32),
            jnp.array([1, 1, 1, 1, 0.5, 2, 0], jnp.float32),
        )
        return Inputs(
            **arrays,
            bags=bags,
            blocks={block.name: tuple(trial_of(block, one) for one in own) for block, own in self._layout.blocks},
        )


def assert_close(found: Any, expected: Any, what: str) -> None:
    for name, values in jax.tree_util.tree_leaves_with_path(expected):
        other = dict(jax.tree_util.tree_leaves_with_path(found))[name]
        np.testing.assert_allclose(other, values, 1e-4, 1e-5, err_msg=f"{jax.tree_util.keystr(name)}: {what}")


def shapes_are_kept(trial: AlgorithmTrial) -> None:
    """Every parameter has a gradient of its shape, every example a prediction per label, or a loss and whether it is found."""
    parameters = trial.parameters()
    learned = trial.learn(parameters, trial.inputs(), None)
    for name, values in parameters.items():
        found = {**learned.gradients, **learned.dense}[name].shape
        if found != values.shape:
            raise AssertionError(f"the gradient of {name} has shape {found}, expected {values.shape}")
    labels = trial.inputs().label.T.shape
    expected = (labels[0], 2) if trial.algorithm.measured == "found" else labels
    if learned.predictions.shape != expected:
        raise AssertionError(f"predictions have shape {learned.predictions.shape}, expected {expected}")


def finite_input_gives_finite_results(trial: AlgorithmTrial) -> None:
    """Gradients and predictions hold no NaN or infinity, of large weights too."""
    for size in (0.0, 1.0, 30.0):
        parameters = {name: size * values for name, values in trial.parameters().items()}
        for path, values in jax.tree_util.tree_leaves_with_path(trial.learn(parameters, trial.inputs(), None)):
            if not np.isfinite(values).all():
                raise AssertionError(f"{jax.tree_util.keystr(path)} is not finite at weights {size} times as large")


def jit_changes_nothing(trial: AlgorithmTrial) -> None:
    """Jitted scores equal those computed operation by operation."""
    algorithm, given = trial.algorithm, (trial.parameters(), trial.inputs())
    assert_close(trial.score(*given, None), say(algorithm, *given, None), "jit gives another result")


def learning_and_scoring_agree(trial: AlgorithmTrial) -> None:
    """A training step predicts, before it learns, what scoring predicts; twice gives the same bits."""
    first, second = (trial.learn(trial.parameters(), trial.inputs(), None) for _ in range(2))
    scored = trial.score(trial.parameters(), trial.inputs(), None)
    if scored.predictions is not None:
        assert_close(first.predictions, scored.predictions, "scoring gives another result")
    for found, expected in zip(jax.tree.leaves(second), jax.tree.leaves(first), strict=True):
        np.testing.assert_array_equal(found, expected, "the same input gave another result")


def padding_changes_nothing(trial: AlgorithmTrial) -> None:
    """Examples of weight 0 without features change neither gradients nor predictions of the others."""
    whole = trial.learn(trial.parameters(), trial.inputs(), None)
    found = trial.learn(trial.parameters(), padded(trial.inputs(), PADDING), None)
    for name in trial.parameters().keys() - {spec.name for spec in trial.algorithm.dense}:
        np.testing.assert_allclose(found.gradients[name][:ABSENT], whole.gradients[name][:ABSENT], 1e-4, 1e-5, err_msg=name)
    assert_close(found.dense, whole.dense, "padding changed a gradient")
    assert_close(found.predictions[:EXAMPLES], whole.predictions, "padding changed a prediction")


def an_empty_batch_is_harmless(trial: AlgorithmTrial) -> None:
    """A batch whose examples all weigh 0, as padding does, has no gradient."""
    inputs = padded(trial.inputs(), PADDING)
    empty = inputs._replace(weight=jnp.zeros_like(inputs.weight))
    learned: Learned = trial.learn(trial.parameters(), empty, None)
    for path, values in jax.tree_util.tree_leaves_with_path((learned.gradients, learned.dense)):
        np.testing.assert_array_equal(values, 0, f"{jax.tree_util.keystr(path)} learns from examples of weight 0")


def one_example_is_enough(trial: AlgorithmTrial) -> None:
    """An example alone is scored as in its batch."""
    whole = trial.score(trial.parameters(), trial.inputs(), None)
    for example in range(EXAMPLES):
        found = trial.score(trial.parameters(), alone(trial.inputs(), example), None)
        own = jax.tree.map(lambda values, at=example: values[at : at + 1], whole)
        assert_close(found, own, f"example {example} alone is scored otherwise than in its batch")


def what_examples_have_in_common_may_come_once(trial: AlgorithmTrial) -> None:
    """An algorithm that is compact learns the same of a batch that holds once what neighbouring examples have in common."""
    if not trial.algorithm.traits.compact:
        return
    flat, repeats = repeated(trial.inputs())
    expected, found = (trial.learn(trial.parameters(), one, None) for one in (flat, compacted(flat, repeats)))
    for name in found.gradients:
        np.testing.assert_allclose(found.gradients[name][:ABSENT], expected.gradients[name][:ABSENT], 1e-5, 1e-6, err_msg=name)
    assert_close(found.dense, expected.dense, "a compact batch changed a gradient")
    assert_close(found.predictions, expected.predictions, "a compact batch changed a prediction")


def nan_stays_in_its_example(trial: AlgorithmTrial) -> None:
    """NaN in the values of one example changes no other prediction.

    Where the losses of examples depend on each other, values of an example that weighs nothing change no gradient.
    """
    inputs, others = trial.inputs(), np.arange(EXAMPLES) != 2
    spoiled = inputs._replace(dense=with_row(inputs.dense, 2, np.nan))
    found, expected = (
        jax.tree.map(lambda values: values[others], trial.score(trial.parameters(), one, None)) for one in (spoiled, inputs)
    )
    assert_close(found, expected, "NaN in one example reached another")
    if trial.algorithm.learns.examples_meet:
        weightless = inputs._replace(weight=with_row(inputs.weight, 2, 0))
        other = weightless._replace(
            dense=with_row(inputs.dense, 2, np.asarray(inputs.dense)[2] + 1), label=with_row(inputs.label.T, 2, 1).T
        )
        learned, again = (trial.learn(trial.parameters(), one, None) for one in (weightless, other))
        assert_close(again.gradients, learned.gradients, "an example without weight changed a gradient")
        assert_close(again.dense, learned.dense, "an example without weight changed a gradient")


def only_the_rows_of_a_batch_learn(trial: AlgorithmTrial) -> None:
    """Rows that no example has get no gradient, and every parameter gets one from some example."""
    learned = trial.learn(trial.parameters(), trial.inputs(), None)
    for name, gradient in learned.gradients.items():
        np.testing.assert_array_equal(gradient[20:22], 0, f"{name}: rows that no example has learn")
    for name, gradient in {**learned.gradients, **learned.dense}.items():
        if not np.asarray(gradient).any():
            raise AssertionError(f"{name} has no gradient: its values make no difference")


def a_classifier_predicts_probabilities(trial: AlgorithmTrial) -> None:
    """Predictions of a classifier lie in [0, 1], whatever the weights."""
    for size in (0.0, 1.0, 1e3):
        parameters = {name: size * values for name, values in trial.parameters().items()}
        found = np.asarray(trial.score(parameters, trial.inputs(), None).predictions)
        if trial.algorithm.classifier and not ((found >= 0) & (found <= 1)).all():
            raise AssertionError(f"a classifier predicted {found[(found < 0) | (found > 1)][0]}, expected a value in [0, 1]")


def it_learns_with_its_optimizers(trial: AlgorithmTrial) -> None:
    """Learning from one batch again and again, with the algorithm's own optimizers, brings predictions nearer to labels."""
    errors = errors_of_training(trial)
    if not errors[-1] < errors[0]:
        raise AssertionError(f"predictions were off by {errors[0]} and are off by {errors[-1]} after {STEPS} updates")


def every_operator_goes_before_its_optimizers(trial: AlgorithmTrial) -> None:
    """Any operator chained before the algorithm's optimizers leaves rows finite; one that has none takes no operators."""
    if not trial.algorithm.serves:
        return
    gradients = trial.learn(trial.parameters(), trial.inputs(), None).gradients
    for spec in trial.algorithm.tables:
        optimizer = trial.algorithm.optimizer(spec)
        for part in OPERATORS:
            operator = usual(part, spec)
            if operator.optimizer:
                continue
            composed = chain(operator, optimizer)
            stored, _ = push(composed, jax_rows(composed), gradients[spec.name], of_width(spec))
            for name, values in stored.items():
                if not np.isfinite(values).all():
                    raise AssertionError(f"{part.name} before the optimizer of {spec.name} leaves column {name} not finite")


def it_runs_on_accelerators(trial: AlgorithmTrial) -> None:
    """Learning and scoring can be compiled for GPUs and TPUs: nothing of them is for CPUs alone."""
    given = (trial.parameters(), trial.inputs(), None)
    for what, step in (("learning", trial.learn), ("scoring", trial.score)):
        try:
            jax.export.export(jax.jit(step), platforms=ACCELERATORS)(*given)  # refuses custom calls
        except Exception as error:
            raise AssertionError(f"{what} cannot be compiled for {' and '.join(ACCELERATORS)}: {error}") from error


def errors_of_training(trial: AlgorithmTrial) -> list[float]:
    """Return the mean error of a batch's predictions before each of STEPS updates on it."""
    algorithm, inputs = trial.algorithm, trial.inputs()
    if (solve := algorithm.learns.solve) is not None:
        return errors_of_solving(trial, solve)
    chains = {spec.name: chain(algorithm.optimizer(spec)) for spec in algorithm.tables}
    rows = {name: jax_rows(one) for name, one in chains.items()}
    contexts = {spec.name: of_width(spec) for spec in algorithm.tables}
    optimizer = algorithm.dense_optimizer() if algorithm.dense_optimizer else None
    present = (np.arange(ROWS) != ABSENT)[:, None]

    @jax.jit
    def begun() -> tuple[Parameters, Any]:
        dense = {s.name: jnp.zeros(s.shape) if s.init is None else jnp.asarray(s.init(SEED)) for s in algorithm.dense}
        return dense, optimizer.init(dense) if optimizer else None

    @jax.jit
    def pulled(rows: dict[str, Rows]) -> Parameters:
        return {name: jnp.where(present, pull(chains[name], rows[name], contexts[name]), 0) for name in chains}

    @jax.jit
    def pushed(rows: dict[str, Rows], dense: Parameters, state: Any, learned: Learned) -> Any:
        for name, one in chains.items():
            rows = {**rows, name: {**rows[name], **push(one, rows[name], learned.gradients[name], contexts[name])[0]}}
        if optimizer:
            steps, state = optimizer.update(learned.dense, state, dense)
            dense = {name: values + steps[name] for name, values in dense.items()}
        return rows, dense, state

    errors, labelled = [], algorithm.loss is not None  # what an algorithm without labels predicts is its loss
    dense, state = begun()
    for _ in range(STEPS):
        learned = trial.learn({**pulled(rows), **dense}, inputs, None)
        predicted = np.asarray(learned.predictions)
        off = predicted - np.asarray(inputs.label).T if labelled else predicted[:, :1]
        errors.append(float(np.abs(off).mean()))
        rows, dense, state = pushed(rows, dense, state, learned)
    return errors


def errors_of_solving(trial: AlgorithmTrial, solve: Solve) -> list[float]:
    """Return the mean error of a batch's predictions before and after an algorithm has found its weights."""
    (table,), inputs = trial.algorithm.tables, trial.inputs()
    step, score = objective_step(trial.algorithm), score_step(trial.algorithm)
    present, turned = (np.arange(ROWS) != ABSENT)[:, None], inputs._replace(label=inputs.label.T)

    def rows_of(flat: Doubles) -> jax.Array:
        return jnp.asarray(flat.reshape(ROWS, table.dim) * present, jnp.float32)

    def objective(flat: Doubles) -> tuple[float, Doubles]:
        one = step(rows_of(flat), turned)
        return float(one.loss), (np.asarray(one.gradient, np.float64) * present).reshape(-1)

    size = ROWS * table.dim
    known = SolverInput(np.zeros(size), np.ones(size), np.arange(size) == 7 * table.dim)
    weights = solve(objective, known, lambda iteration, value: None)
    predicted = [score({table.name: rows_of(flat)}, turned, None).predictions for flat in (known.start, weights)]
    return [float(jnp.abs(one - inputs.label.T).mean()) for one in predicted]


def jax_rows(chain: Operator) -> Rows:
    return {name: jnp.asarray(values) for name, values in new_rows(chain, keys(ROWS)).items()}


def of_width(spec: TableSpec) -> Context:
    """Return the context of a push to a table of this width, of rows that are up to date."""
    still, pulled = np.zeros(ROWS, np.float32), np.zeros((ROWS, spec.dim), np.float32)
    return context(ROWS)._replace(pulled=jnp.asarray(pulled), age_seconds=jnp.asarray(still))


ALGORITHM_CHECKS: tuple[Callable[[AlgorithmTrial], None], ...] = (
    shapes_are_kept,
    finite_input_gives_finite_results,
    jit_changes_nothing,
    learning_and_scoring_agree,
    padding_changes_nothing,
    an_empty_batch_is_harmless,
    one_example_is_enough,
    what_examples_have_in_common_may_come_once,
    nan_stays_in_its_example,
    only_the_rows_of_a_batch_learn,
    a_classifier_predicts_probabilities,
    it_learns_with_its_optimizers,
    every_operator_goes_before_its_optimizers,
    it_runs_on_accelerators,
)
