"""The stages of USING auto: look, base, columns, crosses, rates, families, several passes, options, and the version."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...errors import StatementError, Subject
from ..clauses.tune import Tune
from ..metrics.alone import leak_text
from ..metrics.validations import HIGHER
from ..tuning.space import chosen
from .forms import AT_ONCE, RECIPES, SPACES, StatementForm, batch_of, recipe, space_of, with_loss
from .options import CHOOSING, EVERY, TELLING, AutoOptions
from .screen import ScreenedRows, alone, crosses, learn_alone

if TYPE_CHECKING:
    from ..clauses.settings import Settings
    from .look import FirstLook
    from .trials import AutoTrials

FEWEST = 50
"""Rows of the rarer label in the choosing half, below which no difference can be told."""
MANY_ROWS = 400_000
"""From so many rows on, families are tried on a part first."""
PART = 0.25
MOST_ROWS = {"owlqn": 200_000, "xgboost": 2_000_000}
"""Rows above which what learns all at once is not tried."""
OF_HISTORY = ("din", "dien")
"""What needs an array of what a user had, and a slot of what is offered."""
MANY_VALUES, MOST_LEFT_OUT = 1000, 4
"""Values from which on a column is tried to be left out of the best statement, and how many columns are."""
POINTS = 8
ORDER = 3
BIN = "_bin"

BASE, COLUMNS, CROSSES, RATES, FAMILY, OPTIONS = "base", "columns", "crosses", "rates", "families", "options"
SEVERAL = "several passes"


class StagedSearch(NamedTuple):
    """What the stages share.

    Attributes:
        numbers: labels are numbers, not 0 or 1.
        transforms: the statement has a TRANSFORM of its own.
        settings: what WITH says.
        recurs: rows held out come from the same users and items as those that are learned, as they are not the last.
    """

    trials: AutoTrials
    looked: FirstLook
    options: AutoOptions
    numbers: bool
    transforms: bool
    settings: Settings
    recurs: bool
    note: Callable[[str], None]

    @property
    def sample(self) -> ScreenedRows:
        """The sample, whose scores a stage may change."""
        return replace(self.looked.sample, scores=self.looked.sample.scores.copy())


def refuse_leaks(looked: FirstLook, options: AutoOptions, note: Callable[[str], None]) -> tuple[str, ...]:
    """Return the columns to drop, which alone tell the label.

    Raises:
        StatementError: there are some, and the statement does not say what becomes of them.
    """
    texts = [leak_text(name, one) for name, one in looked.leaks.items()]
    if texts and options.leaks == "refuse":
        more = f" So does {', '.join([*looked.leaks][1:])}." if texts[1:] else ""
        raise StatementError(
            f"{texts[0]}{more} USING auto (leaks = 'drop') drops such columns, 'keep' learns them.", subject=Subject("USING")
        )
    for text in texts:
        note(text)
    return tuple(looked.leaks) if options.leaks == "drop" else ()


def searched(search: StagedSearch, base: StatementForm) -> None:
    """Run the stages, each on what those before found, until the budget is spent; `search.trials.best` wins."""
    trials = search.trials
    trials.try_all(BASE, [base])
    few = trials.positives()
    if few < FEWEST:
        search.note(f"Only {few} rows of the rarer label judge trials, too few to tell a difference: the defaults are taken.")
        return
    columns(search)
    cross(search)
    rates(search)
    families(search)
    several(search)
    tune(search)
    without(search)
    confirm(search)


def columns(search: StagedSearch) -> None:
    """Try without columns that tell nothing that recurs or nothing at all, and numbers as categories, too."""
    trials, needless = search.trials, tuple(search.looked.needless)
    kept = tuple(name for name in needless if name not in trials.form.ignore)
    if kept and len(kept) < num_columns(search):
        for number in trials.try_all(COLUMNS, [trials.form._replace(ignore=(*trials.form.ignore, *kept))]):
            if trials.not_worse(number):
                trials.take(number)
    sample = search.sample
    gains = {one.names[0]: one.gain for one in alone(sample)}
    bins = () if search.transforms else telling_bins(search, sample)
    known = {*needless, *trials.form.ignore, *bins}
    dead = tuple(name for name, gain in gains.items() if gain <= 0 and name not in known)
    if dead and not search.looked.classes:  # it may tell others of the classes
        try_without(search, dead)
    if bins:
        trials.decide(trials.try_all(COLUMNS, [trials.form._replace(binned=bins)]))


def try_without(search: StagedSearch, dead: tuple[str, ...]) -> None:
    """Try without columns that alone tell nothing, and say so where a model without is not worse."""
    trials, form = search.trials, search.trials.form
    said = f"Alone, {', '.join(dead)} tell{'s' * (len(dead) == 1)} nothing about later rows"
    if len(dead) + len(search.looked.needless) >= num_columns(search):
        search.note(f"{said}: no column does.")
        return
    numbers = trials.try_all(COLUMNS, [form._replace(ignore=(*form.ignore, *dead))])
    if any(map(trials.not_worse, numbers)):
        search.note(f"{said}, and a model without is not worse beyond chance.")
    trials.decide(numbers, needs=0)


def without(search: StagedSearch) -> None:
    """Try the best without each array, and without each column of many values: what they tell may not last."""
    trials, best, looked = search.trials, search.trials.form, search.looked
    used = {*best.ignore, *(name for pair in best.history for name in pair), *(name for names in best.cross for name in names)}
    sizes = {name: int(codes.max(initial=-1)) + 1 for name, codes in zip(looked.sample.names, looked.sample.codes, strict=True)}
    large = sorted((name for name, size in sizes.items() if size >= MANY_VALUES), key=lambda name: -sizes[name])
    names = [name for name in (*looked.arrays, *large) if name not in used][:MOST_LEFT_OUT]
    if names and len(best.ignore) + 1 < num_columns(search):
        trials.decide(trials.try_all(COLUMNS, [best._replace(ignore=(*best.ignore, name)) for name in names]), needs=0)


def num_columns(search: StagedSearch) -> int:
    return len(search.looked.prepared.columns.slots)


def telling_bins(search: StagedSearch, sample: ScreenedRows) -> tuple[str, ...]:
    """Return the numbers whose bins may tell more than categories do, which a trial decides."""
    numbers = {name: codes for name, codes in search.looked.numbers.items() if name not in search.trials.form.ignore}
    if not numbers:
        return ()
    learn_alone(sample)
    bins = replace(sample, names=tuple(numbers), codes=[*numbers.values()])
    return tuple(one.names[0] for one in alone(bins) if one.gain > 0)


def cross(search: StagedSearch) -> None:
    """Find crosses by what the linear model does not tell yet, and try them."""
    sample, trials = search.sample, search.trials
    if not search.options.most_crosses:
        return
    left = [n for n, name in enumerate(sample.names) if name not in trials.form.ignore]
    bins = {name + BIN: search.looked.numbers[name] for name in trials.form.binned}
    sample.names = (*(sample.names[n] for n in left), *bins)
    sample.codes = [*(sample.codes[n] for n in left), *bins.values()]
    found = crosses(sample, ORDER, search.options.most_crosses, search.options.simple / 4)[: search.options.most_crosses]
    if not found:
        search.note("No cross of columns tells more than chance beyond the columns themselves.")
        return
    search.note(f"Crosses that xftrl lacks: {', '.join(' * '.join(one.names) for one in found)}.")
    names = [one.names for one in found]
    forms = [trials.form._replace(cross=tuple(names[:most])) for most in dict.fromkeys((len(names), math.ceil(len(names) / 3)))]
    trials.decide(trials.try_all(CROSSES, forms))


def rates(search: StagedSearch) -> None:
    """Try recent click rates of features as inputs."""
    trials = search.trials
    if not search.numbers and not search.looked.classes:
        trials.decide(trials.try_all(RATES, [trials.form._replace(rates=True)]))


def families(search: StagedSearch) -> None:
    """Try other algorithms by their defaults; where rows are many, on a part first, and the better half on all."""
    trials = search.trials
    forms = sorted(family_forms(search), key=lambda form: form.cost)
    if trials.examples > MANY_ROWS and len(forms) > 1:
        judged = trials.try_all(FAMILY, forms, PART)
        sign = -1 if trials.metric in HIGHER else 1
        judged.sort(key=lambda number: sign * trials.found[number]["metric"])
        forms = [trials.forms[number] for number in judged[: math.ceil(len(judged) / 2)]]
    numbers = trials.try_all(FAMILY, forms)
    if numbers:
        trials.decide(numbers)


def family_forms(search: StagedSearch) -> Iterator[StatementForm]:
    """Yield the algorithms that can learn the label, with the columns that are left."""
    best, looked = search.trials.form, search.looked
    for name in search.options.algorithms:
        form = with_loss(name.lower(), search.numbers)
        if form is None or form.algorithm == best.algorithm or search.trials.examples > MOST_ROWS.get(form.algorithm, math.inf):
            continue
        rates = best.rates and form.algorithm not in AT_ONCE  # theirs cannot judge rows held out
        form = form._replace(ignore=best.ignore, binned=best.binned, rates=rates)
        if form.algorithm == "xgboost":
            if importlib.util.find_spec("xgboost") is not None:
                arrays = tuple(column for column in looked.arrays if column not in best.ignore)
                yield form._replace(ignore=(*best.ignore, *arrays), binned=())
        elif form.algorithm == "owlqn":
            yield form._replace(cross=best.cross)
        elif form.algorithm in OF_HISTORY:
            kept = {array: item for array, item in looked.histories.items() if not {array, item} & {*best.ignore}}
            if kept:
                yield form._replace(history=tuple(kept.items()))
        else:
            yield form


def several(search: StagedSearch) -> None:
    """Try networks as they learn in several passes, where rows held out are drawn at random.

    Later rows come from others, too, whom such a network predicts worse.
    """
    best = search.trials.form
    if not search.recurs:
        return
    named = (with_loss(name.lower(), search.numbers) for name in search.options.algorithms if name.lower() in RECIPES)
    plain = [one._replace(ignore=best.ignore, binned=best.binned) for one in named if one is not None]
    batch = search.settings.batch_size or batch_of(search.trials.examples)
    forms = [recipe(one, search.trials.metric, batch) for one in plain]
    search.trials.decide(search.trials.try_all(SEVERAL, sorted(forms, key=lambda form: form.cost)))


def tune(search: StagedSearch) -> None:
    """Tune the best, and the best of the other algorithms, whose options may be worth more than its defaults are."""
    trials = search.trials
    if tuned(search, trials.form):
        tuned(search, trials.form)
    second = runner_up(search)
    if second is not None and tuned(search, second):
        tuned(search, trials.form)


def tuned(search: StagedSearch, form: StatementForm) -> bool:
    """Try several passes and options of a form; return whether one is better than the best."""
    trials, forms = search.trials, [*option_forms(search, form)]
    numbers = trials.try_all(OPTIONS, forms)
    return bool(numbers) and trials.decide(numbers)


def runner_up(search: StagedSearch) -> StatementForm | None:
    """Return the form that judged best of the other algorithms whose options can be tried."""
    trials = search.trials
    others = [n for n in judged(trials) if trials.forms[n].algorithm in {*SPACES} - {trials.form.algorithm}]
    return trials.forms[max(others, key=lambda n: trials.gain(n, 0).gain)] if others else None


def option_forms(search: StagedSearch, best: StatementForm) -> Iterator[StatementForm]:
    """Yield forms of an algorithm: several passes, then points that fill the space of its options evenly."""
    if best.algorithm not in AT_ONCE and not best.settings:
        yield best._replace(settings=(("passes", 4), ("patience", 1)))
    space = space_of(best)
    if space is None or any(name in space for name, _ in best.options):
        return
    for point in chosen(Tune(search.trials.metric, POINTS, "random"), space, search.settings.seed):
        yield best._replace(options=(*best.options, *point.items()))


def confirm(search: StagedSearch) -> None:
    """Go back to the defaults where rows that did not choose the best say that it is worse, or all together no better."""
    trials = search.trials
    if not trials.best:
        return
    chose, tells, every = (trials.gain(trials.best, 0, part) for part in (CHOOSING, TELLING, EVERY))
    unlike = chose.gain > 0 >= every.gain
    if unlike or tells.gain + tells.half < 0:
        search.note(f"Trial {trials.best} is no better than the defaults on rows that did not choose it: they are taken.")
        trials.take(0)


def verdict(search: StagedSearch) -> str:
    """Say which trial wins, why, and what to expect of it."""
    trials, metric = search.trials, search.trials.metric
    value, half = trials.told(trials.best)
    told = f"{metric} {value:.4f} +- {half:.2g} on the telling half, which chose nothing"
    others, defaults = [number for number in judged(trials) if number], f"the defaults of {trials.forms[0].algorithm}"
    if not others:
        return f"Nothing but {defaults} was tried, as the budget allowed no other trial; {told}."
    if not trials.best:
        what = f"None of {len(others)} other trials beats {defaults} beyond chance"
        return f"{what}; {told}."
    gain = trials.gain(trials.best, 0)
    spread = float(np.median([trials.gain(number, 0).half / 2 for number in others]))
    best = spread * math.sqrt(2 * math.log(max(len(others), 2)))
    if gain.gain <= 0:
        return f"Trial {trials.best} wins: {told}. It is simpler than {defaults}, and not worse beyond chance."
    counted = "one that is no better" if len(others) == 1 else f"{len(others)} that are no better"
    return (
        f"Trial {trials.best} wins: {told}. It is better than {defaults} by {gain.gain:.3g} +- {gain.half:.2g} on "
        f"the choosing half, where the best of {counted} would seem better by {best:.2g} by chance alone."
    )


def judged(trials: AutoTrials) -> Sequence[int]:
    """Return the trials of all rows that were judged."""
    return [n for n, line in enumerate(trials.found) if line["metric"] is not None and line["share"] == 1]
