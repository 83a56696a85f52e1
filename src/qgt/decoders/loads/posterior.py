"""`LoadPosterior`: the posterior over who is positive, where pools report totals of amounts.

The sets of positives that come close are listed (`search`), the loads of each are integrated out (`evidence`), and what
is not listed is estimated: items that may be positive unseen, each on its own. There is no proof, as there is for
counts, but the probabilities are those of the model: of the answer, of every set listed, of every item.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from qgt.arguments import positive, whole
from qgt.decoders.contract import LEAST_PART, BoundDecoder, refuse_unsupported
from qgt.decoders.loads.draws import EXTRA_DIMENSIONS, DrawnLoads, drawn_loads
from qgt.decoders.loads.evidence import Fitted, Plates, PositiveSets
from qgt.decoders.loads.search import SetListing, SetSearch, first_of, joined_fits
from qgt.decoders.loads.tables import LEAST_NODES, NEVER
from qgt.decoders.results import Answers, Decoded, Evidence, Spans, Status
from qgt.model.prior import FactoredPrior
from qgt.model.problem import Problem

INTERVAL = (0.05, 0.95)  # quantiles: the ends of 90 % of a load's posterior
MOST_TABLES = 2**25  # numbers of all tables of the instances that are decoded at a time
MOST_PLATES = 64  # that a CPU decodes together: more are not faster, and each may take 60 MB of memory
WIDTH = 3  # sets of an instance that the search goes on from at a time
BEYOND = 3.0  # nats beyond the odds, within which sets are weighed again by sampling
FIRST_SAMPLED, MOST_SAMPLED = 48, 512  # sets of an instance that are weighed again: the best, and where it matters
UNSAMPLED = 0.01  # the share of all sets together, by their fits, that need not be weighed again
FIRST_SAMPLES = 128  # of the first look
MOST_REFITS = 8  # rounds of fits from better starts, each for sets of one item more
SETTLED, PRECISE = 0.999, 0.02  # a share above which a set needs no more draws; a relative error that is small enough
MORE, STILL_ROUGH = 8, 0.05  # times as many draws, for sets whose relative error is still above
HEAVY, DRAWS = 0.02, 8  # a share above which a set matters; draws of its loads that unlisted positives are held against
DRAWN, DRAWN_ON_GPU = 2**15, 2**19  # draws of all loads of a set at a time


@dataclass(frozen=True)
class LoadPosterior:
    """Who is positive, and how much each has, from totals of amounts such as cycle thresholds.

    Example:
        >>> import torch, qgt
        >>> g = torch.Generator().manual_seed(0)
        >>> design = qgt.Design.column_regular(pools=12, items=24, weight=3, generator=g)
        >>> problem = qgt.Problem(design, qgt.Loads(rate=0.05, mean=3.0, sd=1.5), qgt.CycleThreshold(sigma=0.25))
        >>> x, y = problem.simulate(3, generator=g)
        >>> result = qgt.LoadPosterior().bind(problem)(y)
        >>> bool((result.x == (x > 0)).all())
        True
    """

    odds: float = 1000.0  # sets this many times less probable than the best are listed
    samples: int = 1024  # of the loads of each set that matters; a first look takes fewer
    most_sets: int = 1000  # fitted without a better one, after which the search ends and the list is not complete

    def __post_init__(self) -> None:
        object.__setattr__(self, "odds", positive("odds", self.odds))
        if self.odds < 1:
            raise ValueError(f"odds={self.odds} is not valid: give 1 or more.")
        object.__setattr__(self, "samples", whole("samples", self.samples, least=16))
        object.__setattr__(self, "most_sets", whole("most_sets", self.most_sets, least=1))

    def supports(self, problem: Problem) -> str | None:
        """Problems whose items have loads."""
        if problem.loads is None:
            return "its items have no amounts; use Certified, which proves its answers."
        return None

    def bind(self, problem: Problem) -> BoundDecoder:
        """Prepare the prior."""
        refuse_unsupported(self, problem)
        loads = problem.loads
        assert loads is not None
        who = loads.statuses()
        assert isinstance(who, FactoredPrior)  # as `Loads` has checked
        costs = who.costs(problem.items)

        def decode(y: Tensor, defectives: Tensor | None) -> Decoded:
            if not len(y):
                return _nothing(problem, y)
            rows = max(1, MOST_TABLES // (LEAST_NODES * problem.pools))
            if y.device.type == "cpu":
                rows = min(rows, MOST_PLATES)

            def decode_part(part: Tensor) -> Decoded:
                return _decoded(self, Plates.of(problem, loads, costs, part))

            return Decoded.joined([one for part in y.split(rows) for one in _as_memory_allows(decode_part, part)])

        return BoundDecoder(problem, decode, takes_missing=True, least_part=LEAST_PART)


def _as_memory_allows(decode_part: Callable[[Tensor], Decoded], y: Tensor) -> list[Decoded]:
    """Decode halves where the memory of a GPU is not enough: it depends on the lists that are found."""
    try:
        return [decode_part(y)]
    except torch.OutOfMemoryError:
        if len(y) == 1:
            raise
    torch.cuda.empty_cache()
    return [one for half in y.chunk(2) for one in _as_memory_allows(decode_part, half)]


def _decoded(options: LoadPosterior, plates: Plates) -> Decoded:
    search = SetSearch(plates, window=math.log(options.odds), width=WIDTH, most_sets=options.most_sets)
    listing = _with_better_modes(search, search.run())
    close, rest = _close(listing, len(plates), math.log(options.odds) + BEYOND)
    samples = _weighed(plates, close, FIRST_SAMPLES)
    close = _with_evidence(close, samples)
    close, samples = _weighed_again(plates, close, samples, options.samples)
    hidden = _hidden(search, listing, close, samples)
    return _result(plates, listing, close, rest, samples, hidden, math.log(options.odds))


def _with_better_modes(search: SetSearch, listing: SetListing) -> SetListing:
    """The listing, with the sets fitted again whose loads were at the wrong one of several modes."""
    found, near = listing.fitted, _near(listing.fitted, search)
    for _ in range(MOST_REFITS):
        sets = search.fitted_again(found, near)
        if not len(sets):
            break
        again = search.fitted(sets)
        joined = joined_fits([found, again])
        # Of equal sets the one with the highest evidence remains.
        order = joined.evidence.argsort(descending=True, stable=True)
        keep = order[first_of(search.keys(joined.sets[order]))]
        near_before = search.keys(found.sets[near])
        found = joined[keep.sort().values]
        near = _near(found, search)
        near = near[~torch.isin(search.keys(found.sets[near]), near_before)]
    return replace(listing, fitted=found)


def _near(found: Fitted, search: SetSearch) -> Int64[Tensor, " near"]:
    """The sets within the odds."""
    best = torch.full((len(search.plates),), -torch.inf, dtype=torch.float64, device=found.evidence.device)
    best = best.scatter_reduce(0, found.sets.owner, found.evidence, "amax")[found.sets.owner]
    return (found.evidence >= best - search.window).nonzero()[:, 0]


def _weighed(plates: Plates, close: Fitted, number: int) -> DrawnLoads:
    """Loads drawn for sets, some sets at a time."""
    points = _points(number, close.sets.items.shape[1] + EXTRA_DIMENSIONS, plates.y.device)
    most = DRAWN if plates.y.device.type == "cpu" else DRAWN_ON_GPU
    rows = torch.arange(len(close.sets), device=plates.y.device).split(max(1, most // number))
    return _joined([drawn_loads(plates, close[part], points) for part in rows])


def _weighed_again(plates: Plates, close: Fitted, samples: DrawnLoads, number: int) -> tuple[Fitted, DrawnLoads]:
    """The sets that matter, weighed by more draws; all sets keep as many draws as the first look had, for loads."""
    owner, error = close.sets.owner, samples.error
    for draws, precise in ((number, PRECISE), (MORE * number, STILL_ROUGH)):
        share = (close.evidence - _log_sum(close.evidence, owner, len(plates))[owner]).exp()
        rows = ((share > HEAVY) & (share < SETTLED) & (error > precise)).nonzero()[:, 0]
        if not len(rows):
            break
        again = _weighed(plates, close[rows], draws)
        better = _with_evidence(close[rows], again).evidence
        close = replace(close, evidence=close.evidence.index_copy(0, rows, better))
        error = error.index_copy(0, rows, again.error)
    return close, samples


def _with_evidence(close: Fitted, samples: DrawnLoads) -> Fitted:
    """The sets with the evidence of the draws; where no draw is possible, as for absurd reports, that of the fit."""
    drawn = samples.evidence
    return replace(close, evidence=torch.where(drawn > -torch.inf, drawn, close.evidence))


def _hidden(
    search: SetSearch, listing: SetListing, close: Fitted, samples: DrawnLoads
) -> Float64[Tensor, "sets items"]:
    """The odds of one more positive in each set, where the set with it was not fitted, as it is rare.

    For sets that matter these odds are the mean over loads drawn from the posterior given the set; for the others they
    are those at the mode of the loads.
    """
    owner, instances = close.sets.owner, len(search.plates)
    odds = search.hidden(close.sets, close.totals)
    share = (close.evidence - _log_sum(close.evidence, owner, instances)[owner]).exp()
    heavy = (share > HEAVY).nonzero()[:, 0]
    drawn = samples.resampled(heavy, DRAWS)  # (heavy, draws, places)
    sets = close.sets[heavy.repeat_interleave(DRAWS)]
    sets = PositiveSets(sets.owner, sets.items, drawn.flatten(0, 1))
    mean = search.hidden(sets, search.plates.totals(sets)).view(len(heavy), DRAWS, odds.shape[1]).mean(1)
    odds[heavy] = mean
    return torch.where(search.with_one_more(close.sets, listing.fitted.sets), 0.0, odds)


def _close(listing: SetListing, instances: int, window: float) -> tuple[Fitted, Fitted]:
    """The sets within the window of each instance's best, the best first: those worth sampling, and the rest."""
    found = listing.fitted
    order = found.evidence.argsort(descending=True, stable=True)
    order = order[found.sets.owner[order].argsort(stable=True)]
    owner = found.sets.owner[order]
    rank = torch.arange(len(owner), device=owner.device) - torch.searchsorted(owner, owner)
    best = found.evidence[order][torch.searchsorted(owner, torch.arange(instances, device=owner.device))]
    near = found.evidence[order] >= best[owner] - window
    share = (found.evidence[order] - best[owner]).exp()
    whole = torch.zeros_like(best).index_add_(0, owner, share)
    before = share.cumsum(0) - share - (whole.cumsum(0) - whole)[owner]  # of better sets
    matters = (rank < FIRST_SAMPLED) | ((before < (1 - UNSAMPLED) * whole[owner]) & (rank < MOST_SAMPLED))
    picked, rest = found[order[near & matters]], found[order[near & ~matters]]
    sets = picked.sets.trimmed()
    places = sets.items.shape[1]
    # Places were trimmed in the order of items: fit again so that covariances follow.
    return (picked if places == picked.sets.items.shape[1] else _reordered(picked)), rest


def _reordered(fitted: Fitted) -> Fitted:
    """The same sets, their items moved to the first places."""
    inside = fitted.sets.inside
    used = max(1, int(inside.sum(1).max()))
    order = (~inside).to(torch.int64).argsort(dim=1, stable=True)[:, :used]
    rows = torch.arange(len(order), device=order.device)[:, None]
    covariance = fitted.covariance[rows[..., None], order[:, :, None], order[:, None, :]]
    wide = fitted.wide.gather(1, order)
    return Fitted(fitted.sets.trimmed(), fitted.totals, covariance, wide, fitted.evidence)


def _points(samples: int, dimensions: int, device: torch.device) -> Float64[Tensor, "samples dimensions"]:
    """Points that fill the unit cube evenly, the same in every call."""
    engine = torch.quasirandom.SobolEngine(dimensions, scramble=True, seed=0)
    return engine.draw(samples, dtype=torch.float64).clamp(1e-9, 1 - 1e-9).to(device)


def _joined(parts: list[DrawnLoads]) -> DrawnLoads:
    return DrawnLoads(
        torch.cat([part.prior for part in parts]),
        torch.cat([part.weight for part in parts]),
        torch.cat([part.logs for part in parts]),
    )


def _result(
    plates: Plates,
    listing: SetListing,
    close: Fitted,
    rest: Fitted,
    samples: DrawnLoads,
    hidden: Tensor,
    window: float,
) -> Decoded:
    """Probabilities from evidences; what is hidden, and sets too many to be sampled, are included."""
    owner, items, instances = close.sets.owner, plates.problem.items, len(plates)
    log_hidden = torch.log1p(hidden).sum(1)  # (sets,): how much more than the set itself its unlisted neighbours weigh
    evidence = close.evidence
    beyond = rest.sets.owner
    mass = _log_sum(torch.cat([evidence + log_hidden, rest.evidence]), torch.cat([owner, beyond]), instances)
    share = (evidence + log_hidden - mass[owner]).exp()  # of a set with all its unlisted neighbours
    probability = (evidence - mass[owner]).exp()
    order = evidence.argsort(descending=True, stable=True)
    order = order[owner[order].argsort(stable=True)]
    x = close.sets.statuses(items)
    unseen = hidden / (1 + hidden)
    marginals = torch.zeros(instances, items, dtype=torch.float64, device=x.device)
    marginals.index_add_(0, owner, share[:, None] * (x + unseen))
    x_beyond = rest.sets.statuses(items)
    marginals.index_add_(0, beyond, (rest.evidence - mass[beyond]).exp()[:, None] * x_beyond)
    first = order[torch.searchsorted(owner[order], torch.arange(instances, device=owner.device))]
    keep = order[evidence[order] >= evidence[first][owner[order]] - window]
    spans, _ = Spans.of(owner[keep], instances)
    explained = evidence[first] > NEVER / 2
    complete = listing.complete & explained
    answers = Answers(spans, x[keep], evidence[keep], torch.where(explained[owner], probability, 0.0)[keep])
    amounts, interval = _amounts(close, samples, first, items)
    best = x[first]
    differs = (x[keep] != best[owner[keep]]).to(torch.float64)
    unsettled = torch.zeros_like(marginals).index_add_(0, owner[keep], differs)
    unsettled.index_add_(0, beyond, (x_beyond != best[beyond]).to(torch.float64))
    found = Evidence(
        log_joint=evidence[first],
        complete=complete,
        confidence=torch.where(explained, probability[first], 0.0),
        # Probabilities from a list that lacks sets could call a sample negative that is positive in the sets it lacks.
        marginals=torch.where(complete[:, None], marginals.clamp(0.0, 1.0), torch.nan),
        unsettled=unsettled > 0,
        alternatives=answers,
        interval=interval,
    )
    # No set was found that explains all reports: the calls are the best there is, and nothing to trust.
    status = torch.where(explained, Status.OK, Status.NOT_CONVERGED).to(torch.uint8)
    return Decoded(best, status, marginals.clamp(0.0, 1.0), found, amounts=amounts)


def _amounts(close: Fitted, samples: DrawnLoads, first: Tensor, items: int) -> tuple[Tensor, Tensor]:
    """The amount of each item of the best sets, and the ends of 90 % of its posterior given the set.

    Amounts are the mode of all loads together: they add up to what the pools report, as medians would not.
    """
    best = DrawnLoads(samples.prior[first], samples.weight[first], samples.logs[first])
    low, high = (10.0 ** best.quantiles(INTERVAL)).unbind(2)  # (instances, places)
    sets = close.sets[first]
    where = sets.items.where(sets.inside, items)
    amounts = torch.zeros(len(first), items + 1, dtype=torch.float64, device=where.device)
    interval = torch.full((len(first), items + 1, 2), torch.nan, dtype=torch.float64, device=where.device)
    amounts.scatter_(1, where, 10.0**sets.logs)
    interval.scatter_(1, where[..., None].expand(-1, -1, 2), torch.stack([low, high], 2))
    amounts[:, items] = 0.0
    return amounts[:, :items], interval[:, :items]


def _log_sum(values: Tensor, owner: Tensor, instances: int) -> Tensor:
    """The log of the sum of exponentials of each owner's values."""
    top = torch.full((instances,), -torch.inf, dtype=torch.float64, device=values.device)
    top = top.scatter_reduce(0, owner, values, "amax")
    total = torch.zeros_like(top).index_add_(0, owner, (values - top[owner]).exp())
    return top + total.log()


def _nothing(problem: Problem, y: Tensor) -> Decoded:
    """The result for no instances."""
    x = torch.zeros(0, problem.items, dtype=torch.uint8, device=y.device)
    return Decoded(x, torch.zeros(0, dtype=torch.uint8, device=y.device))
