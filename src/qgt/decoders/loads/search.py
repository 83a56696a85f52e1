"""Which sets of positives are worth looking at: from sets found, their neighbours, until the good ones are closed.

A neighbour has one item more, one less, or one or two in place of another. What a neighbour's evidence will be is
predicted from one integral over the load of the item that comes or goes (`Plates.integrated`); the promising
neighbours are then fitted. The search starts from the empty set, goes on from the best sets that were not yet gone on
from, and ends where the neighbours of every set within the odds have been looked at (compare Hans, Dobra and West 2007,
Shotgun stochastic search for large p regression, J. Am. Stat. Assoc. 102, 507-516; here only
the chains are random).

Where this takes `HARD` sets or more, for a best set of `MANY_POSITIVES` or more, neighbours may lead to a set that is
only the best of its surroundings. Such an instance gets annealed chains (`chains`), and the search goes on from the
best of the sets in which they end.

Items that a plate hardly speaks about, such as a weak positive below the limit of detection, would multiply the number
of sets without end. Where adding an item gains less than `RARE` in odds, the set with it is not listed; its odds are
summed up by `SetSearch.hidden` instead.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from qgt.decoders.loads.chains import annealed
from qgt.decoders.loads.evidence import NONE, Fitted, Plates, PositiveSets
from qgt.decoders.loads.tables import NEVER

BETTER = 0.1  # nats by which a better set must be better, for the search to be worth going on with
RARE = 0.02  # odds below which one more positive is not listed as a set of its own
SLACK = 60.0  # nats by which a prediction may be too low: the other loads are not yet fitted anew
HOPELESS = -9.0  # nats: items whose odds of being positive are surely below are not looked at
REPAIR_SLACK = 10.0  # the same, where one more item is added to a neighbour
MAY_BE_EMPTY = 4.0  # nats by which a report may be better explained by some total than by none
NEEDED = 4  # items of a pool, at least, that are looked at where its report needs one, however improbable they are
POOR_START = 1.0  # nats by which a set's fit is below what a smaller set predicts, where it is fitted again
ADDS, SWAPS = 6, 3  # the best additions to a set, and the best replacements of each item, that are always fitted
LIKELY = 5.0  # nats: neighbours predicted to be less than this below the best set are fitted, however many they are
REPAIRS = 2  # the best additions to a neighbour that explains too little
FITTED_AT_A_TIME, FITTED_ON_GPU = 2**14, 2**16
WIDER = 30  # sets fitted without a better one, for each of which the search goes on from one more set at a time
ENDS = 3  # of chains that the search goes on from, the best
HARD = 600  # sets looked at, from which on an instance gets chains as well
MANY_POSITIVES = 8  # in the best set: with fewer, neighbours miss nothing, and chains would take most of the time
CLIMB = 150  # sets fitted without a better one, after which the search from the end of a chain ends


@dataclass(frozen=True, eq=False)
class SetListing:
    """The sets found for a batch of instances."""

    fitted: Fitted
    complete: Bool[Tensor, " instances"]  # whether the neighbours of all sets within the odds were looked at


@dataclass(frozen=True, eq=False)
class SetSearch:
    """A search for the sets of positives of a batch of instances."""

    plates: Plates
    window: float  # nats: sets this far below the best are gone on from
    width: int  # sets of each instance gone on from at a time, while better ones are found
    most_sets: int  # fitted without a better one, after which the search of an instance ends

    def run(self) -> SetListing:
        """SetSearch until the sets within the window are closed, or for so many rounds."""
        may_be = candidates(self.plates)
        found = _Found(self, self.plates.fit(self._start()))
        self._go_on(found, may_be)
        hard = ((found.number >= HARD) & (found.positives >= MANY_POSITIVES)).nonzero()[:, 0]
        if len(hard):
            found.add(self._elsewhere(found, hard, may_be[hard]))
            self._go_on(found, may_be)
        left = torch.zeros(len(self.plates), dtype=torch.bool, device=self.plates.y.device)
        left[found.fitted.sets.owner[found.open()]] = True
        return SetListing(found.fitted, ~left)

    def _go_on(self, found: "_Found", candidates: Tensor) -> None:
        """Look at the neighbours of the best sets, until those within the window are closed."""
        chosen, poor = found.chosen(), found.poor()
        while len(chosen) or len(poor):
            # What lost an item may need two in its place: fitted together with neighbours, it takes no more steps.
            new = [self._repaired(found.fitted[poor], candidates, found.best)]
            if len(chosen):
                new.append(self._neighbours(found.fitted[chosen], candidates, found.best))
            found.add(PositiveSets.joined(new))
            chosen, poor = found.chosen(), found.poor()

    def _elsewhere(self, found: "_Found", hard: Tensor, candidates: Tensor) -> PositiveSets:
        """The best sets that can be reached from the ends of annealed chains of some instances.

        Each end is gone on from as if its plate were one of its own, so that a better set found elsewhere does not
        close it early.
        """
        generator = torch.Generator(self.plates.y.device).manual_seed(0)
        ends = annealed(self.plates[hard], candidates, generator=generator)
        back = hard[ends.owner]
        keys = self.keys(replace(ends, owner=back))
        new = (first_of(keys) & ~torch.isin(keys, found.keys)).nonzero()[:, 0]
        if len(new):
            most = torch.full_like(found.number, ENDS)
            new = new[_top(back[new], self.fitted(replace(ends, owner=back)[new]).evidence, most)]
        ends, back = ends[new], back[new]
        if not len(new):
            return replace(ends, owner=back)
        own = SetSearch(self.plates[back], self.window, 1, CLIMB)
        starts = PositiveSets(torch.arange(len(back), device=back.device), ends.items, ends.logs)
        climbed = _Found(own, own.fitted(starts))
        own._go_on(climbed, candidates[ends.owner])
        near = climbed.fitted.evidence >= climbed.best[climbed.fitted.sets.owner]
        best = climbed.fitted[near.nonzero()[:, 0]].sets
        return PositiveSets(back[best.owner], best.items, best.logs)

    def _start(self) -> PositiveSets:
        """For each instance the items that the prior knows to be positive, and no other."""
        device, instances = self.plates.y.device, len(self.plates)
        known = (self.plates.costs.known == 1).nonzero()[:, 0].to(device)
        items = known if len(known) else torch.full((1,), NONE, device=device)
        middle = float(self.plates.grid[0][len(self.plates.grid[0]) // 2])
        logs = torch.full((instances, len(items)), middle, dtype=torch.float64, device=device)
        return PositiveSets(torch.arange(instances, device=device), items.repeat(instances, 1), logs)

    def fitted(self, sets: PositiveSets) -> Fitted:
        """The sets at the modes of their loads, some at a time."""
        most = FITTED_AT_A_TIME if self.plates.y.device.type == "cpu" else FITTED_ON_GPU
        parts = [sets[slice(start, start + most)] for start in range(0, len(sets), most)]
        return joined_fits([self.plates.fit(part.trimmed()) for part in parts])

    def _neighbours(self, fitted: Fitted, candidates: Tensor, best: Tensor) -> PositiveSets:
        """The promising neighbours of some sets, with loads to start from."""
        row, place = fitted.sets.inside.nonzero(as_tuple=True)
        changed = self._replaced(fitted, candidates, best, row, place) if len(row) else []
        return PositiveSets.joined([self._added(fitted, candidates, best), *changed])

    def _repaired(self, poor: Fitted, candidates: Tensor, best: Tensor) -> PositiveSets:
        """Sets that explain too little, with the one item more that may mend it."""
        sets = poor.sets
        if not len(sets):
            return sets
        gain, log = self._gains(sets, poor.totals, candidates[sets.owner])
        worth = poor.evidence[:, None] + gain > (best[sets.owner] - self.window - REPAIR_SLACK)[:, None]
        return _with(sets, candidates[sets.owner], torch.where(worth, gain, -torch.inf), log, REPAIRS)

    def _added(self, fitted: Fitted, candidates: Tensor, best: Tensor) -> PositiveSets:
        sets = fitted.sets
        gain, log = self._gains(sets, fitted.totals, candidates[sets.owner])
        # Rare additions are summed up by `hidden`, unless the best set itself still lacks an explanation.
        hoped = fitted.evidence[:, None] + gain
        likely = _likely(hoped, best[sets.owner])
        worth = (hoped > best[sets.owner, None] - self.window - SLACK) & (gain > math.log(RARE))
        gain = torch.where(worth | likely, gain, -torch.inf)
        return _with(sets, candidates[sets.owner], gain, log, ADDS, likely)

    def _replaced(
        self, fitted: Fitted, candidates: Tensor, best: Tensor, row: Tensor, place: Tensor
    ) -> list[PositiveSets]:
        """The sets without one item, and with another in its place, however little they explain: see `_repaired`."""
        plates, sets = self.plates, fitted.sets
        item, amount = sets.items[row, place], 10.0 ** sets.logs[row, place]
        without = PositiveSets(sets.owner[row], sets.items[row].clone(), sets.logs[row])
        without.items[torch.arange(len(row), device=row.device), place] = NONE
        totals = (fitted.totals[row] - plates.members[item] * amount[:, None]).clamp(min=0.0)
        # The item itself comes last: what it gained is what the set loses without it.
        some = candidates[without.owner]
        some = torch.cat([torch.where(some == item[:, None], NONE, some), item[:, None]], 1)
        gain, log = self._gains(without, totals, some, instead_of=item)
        some, gain, lost = some[:, :-1], gain[:, :-1], gain[:, -1:]
        hoped = fitted.evidence[row, None] - lost + gain
        return [without, _with(without, some, gain, log, SWAPS, _likely(hoped, best[without.owner]))]

    def _gains(
        self, sets: PositiveSets, totals: Tensor, some: Tensor, instead_of: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The log evidence gained by adding each of some items, and the load at which it is best; -inf for members.

        An item that is to come `instead_of` another must share a pool with it: otherwise one goes and one comes.
        """
        plates, items = self.plates, self.plates.problem.items
        x = sets.statuses(items)
        safe = some.where(some != NONE, items)
        worth = (some != NONE) & (torch.nn.functional.pad(x, (0, 1), value=1).gather(1, safe) == 0)
        if instead_of is not None:
            worth &= self._neighbouring[instead_of[:, None], safe]
        row, place = worth.nonzero(as_tuple=True)
        item, owner = some[row, place], sets.owner[row]
        integral, best = plates.integrated(owner, totals, row, item)
        own = integral - plates.at_own_pools(owner, totals, row, item) - plates.costs.flips(x)[row, item]
        gain = torch.full_like(some, -torch.inf, dtype=torch.float64)
        log = torch.zeros_like(gain)
        gain[row, place], log[row, place] = own, plates.grid[0][best]
        return gain, log

    @cached_property
    def _neighbouring(self) -> Bool[Tensor, "items places"]:
        """Whether two items share a pool; the last column, of no item, is False."""
        members = self.plates.members
        return members[:-1] @ members.T > 0

    @cached_property
    def _numbers(self) -> Int64[Tensor, " numbers"]:
        """A random number for each item, 0 for none, and one for each instance."""
        items, instances = self.plates.problem.items, len(self.plates)
        generator = torch.Generator().manual_seed(0)
        numbers = torch.randint(-(2**62), 2**62, (items + 1 + instances,), generator=generator)
        numbers[items] = 0
        return numbers.to(self.plates.y.device)

    def keys(self, sets: PositiveSets) -> Int64[Tensor, " sets"]:
        """A number for each set of each instance, the same whatever the order of its items."""
        items = self.plates.problem.items
        own = self._numbers[items + 1 + sets.owner]
        return self._numbers[sets.items.where(sets.inside, items)].sum(1) + own

    def with_one_more(self, sets: PositiveSets, among: PositiveSets) -> Bool[Tensor, "sets items"]:
        """Whether a set with one more item is among others."""
        keys = self.keys(sets)[:, None] + self._numbers[: self.plates.problem.items]
        return torch.isin(keys, self.keys(among))

    def fitted_again(self, found: Fitted, near: Int64[Tensor, " near"]) -> PositiveSets:
        """Sets with one item more than some of the sets found, whose own fits are much worse than predicted from these.

        A set is fitted once, from where it was met first. That may have been the wrong one of its modes: two strong
        items and a weak one, where the weak one alone explains the plate. The loads are those to start from now.
        """
        sets, items = found.sets[near], self.plates.problem.items
        keys, order = self.keys(found.sets).sort()
        more = self.keys(sets)[:, None] + self._numbers[:items]
        place = torch.searchsorted(keys, more).clamp(max=len(keys) - 1)
        known = torch.where(keys[place] == more, found.evidence[order[place]], torch.inf)  # (near, items)
        mine = found.evidence[near][:, None]
        every = torch.arange(items, device=near.device)
        doubtful = (known < mine - POOR_START) & (sets.statuses(items) == 0)
        some = torch.where(doubtful, every, NONE)
        columns = doubtful.any(0).nonzero()[:, 0]
        if not len(columns):
            return sets[slice(0, 0)]
        some, known = some[:, columns], known[:, columns]
        gain, log = self._gains(sets, found.totals[near], some)
        hoped = mine + gain
        best = _best(found, len(self.plates))[sets.owner][:, None]
        wanted = (hoped > known + POOR_START) & (hoped > best - self.window)
        return _with(sets, some, torch.where(wanted, hoped, -torch.inf), log, 0, wanted)

    def hidden(self, sets: PositiveSets, totals: Tensor) -> Float64[Tensor, "sets items"]:
        """The odds that one more item is positive than those of a set whose pools hold `totals`; members have 0."""
        items = torch.arange(self.plates.problem.items, device=self.plates.y.device).expand(len(sets), -1)
        return self._gains(sets, totals, items)[0].exp()


class _Found:
    """The sets that a search has looked at, and what was done with each."""

    def __init__(self, search: SetSearch, fitted: Fitted) -> None:
        self.search, self.fitted = search, fitted
        self.keys = search.keys(fitted.sets)
        self.expanded = torch.zeros(len(fitted.sets), dtype=torch.bool, device=self.keys.device)
        self.repaired = self.expanded.clone()
        self.best = _best(fitted, len(search.plates))
        self.number = torch.ones_like(self.best, dtype=torch.int64)  # of sets of each instance
        self.number_at_best = self.number.clone()  # when its best set was found

    def add(self, sets: PositiveSets) -> None:
        """Fit those of the sets that are new, each once."""
        keys = self.search.keys(sets)
        new = (first_of(keys) & ~torch.isin(keys, self.keys)).nonzero()[:, 0]
        if not len(new):
            return
        self.fitted = joined_fits([self.fitted, self.search.fitted(sets[new])])
        self.keys = torch.cat([self.keys, keys[new]])
        self.expanded = torch.nn.functional.pad(self.expanded, (0, len(new)))
        self.repaired = torch.nn.functional.pad(self.repaired, (0, len(new)))
        best = _best(self.fitted, len(self.search.plates))
        self.number = torch.bincount(self.fitted.sets.owner, minlength=len(best))
        self.number_at_best = torch.where(best > self.best + BETTER, self.number, self.number_at_best)
        self.best = best

    @property
    def positives(self) -> Int64[Tensor, " instances"]:
        """The number of positives in the best set of each instance."""
        owner, sizes = self.fitted.sets.owner, (self.fitted.sets.items != NONE).sum(1)
        best = self.fitted.evidence == self.best[owner]
        return torch.zeros_like(self.number).scatter_reduce(0, owner[best], sizes[best], "amax")

    def open(self) -> Bool[Tensor, " sets"]:
        """Sets within the window that the search has not gone on from."""
        near = self.fitted.evidence >= self.best[self.fitted.sets.owner] - self.search.window
        return near & ~self.expanded

    @property
    def _width(self) -> Int64[Tensor, " instances"]:
        """How many sets of each instance to go on from.

        The longer no better set was found, the more, because the search will go on from all of them anyhow; fewer again
        where the search is about to end.
        """
        since = self.number - self.number_at_best
        return self.search.width + torch.minimum(since, self.search.most_sets - since).clamp(min=0) // WIDER

    def chosen(self) -> Int64[Tensor, " chosen"]:
        """The best open sets of each instance, to go on from."""
        owner = self.fitted.sets.owner
        enough = self.number - self.number_at_best >= self.search.most_sets
        rows = (self.open() & ~enough[owner]).nonzero()[:, 0]
        rows = rows[_top(owner[rows], self.fitted.evidence[rows], self._width)]
        self.expanded[rows] = True
        return rows

    def poor(self) -> Int64[Tensor, " poor"]:
        """Sets below the window that were not yet repaired, of instances for which an explanation is known."""
        best = self.best[self.fitted.sets.owner]
        below = (self.fitted.evidence < best - self.search.window) & (best > NEVER / 2)
        rows = (below & ~self.repaired & ~self.expanded).nonzero()[:, 0]
        self.repaired[rows] = True
        return rows


def candidates(plates: Plates) -> Int64[Tensor, "instances candidates"]:
    """The items that may be positive; NONE where an instance has fewer.

    An item that is positive with log10 amount u makes a pool's total at least 10^u. The most that any total from there
    on can make of the pool's report, against the most that any total can, bounds from above what the pool has to say
    for the item, whatever else is in the pool. Where the pool may well be empty the bound is against a total of zero:
    an empty pool may report a little more than nothing, and no set is then as good as the best total. Items whose prior
    odds times all their pools' bounds, integrated over the load, are below `exp(HOPELESS)` are left out.
    """
    curves, pools = plates.reports.curves, plates.y.shape[1]
    envelope = curves.values.flip(1).cummax(1).values.flip(1)  # the best of all larger totals
    zero = plates.reports.zero.view(-1)
    top = torch.where(zero > envelope[:, 0] - MAY_BE_EMPTY, zero, envelope[:, 0])
    nodes, weights = plates.grid
    place = ((nodes - curves.low) / curves.step).floor().clamp(0, curves.values.shape[1] - 1).to(torch.int64)
    bound = (envelope[:, place] - top[:, None]).view(len(plates), pools, -1)  # (instances, pools, nodes)
    members = plates.members[:-1]
    law = torch.einsum("np,ipg->ing", members, bound) + weights
    odds = torch.logit(plates.loads.statuses().marginals(plates.problem.items)).to(plates.y.device)
    score = law.logsumexp(2) + odds
    known = plates.costs.known.to(plates.y.device)
    score = torch.where(known == 0, -torch.inf, torch.where(known == 1, torch.inf, score))
    score = torch.where(_needed(plates, score), score.clamp(min=HOPELESS + 1.0), score)
    number = max(1, int((score > HOPELESS).sum(1).max()))
    order = score.sort(dim=1, descending=True, stable=True)
    return torch.where(order.values > HOPELESS, order.indices, NONE)[:, :number]


def _needed(plates: Plates, score: Float64[Tensor, "instances items"]) -> Bool[Tensor, "instances items"]:
    """The items of every pool that must hold one, as its report is all but impossible for a total of zero.

    The best few, and all others that are nearly as probable: where a report is a surprise, so are all its explanations.
    """
    curves = plates.reports.curves.values.amax(1).view_as(plates.reports.zero)
    must = plates.reports.zero < curves + HOPELESS  # (instances, pools)
    members = plates.members[:-1].T > 0  # (pools, items)
    each = torch.where(members, score[:, None, :], -torch.inf)  # (instances, pools, items)
    best = each.topk(min(NEEDED, each.shape[2]), 2).values
    least = torch.minimum(best[..., -1:], best[..., :1] - LIKELY)
    return (must[..., None] & (each >= least) & (each > -torch.inf)).any(1)


def _likely(hoped: Tensor, best: Tensor) -> Bool[Tensor, "sets some"]:
    """Which neighbours are predicted to come close to the best set, or to the best neighbour where that is better."""
    return hoped > torch.maximum(hoped.amax(1), best)[:, None] - LIKELY


def _with(
    sets: PositiveSets, some: Tensor, gain: Tensor, log: Tensor, most: int, also: Tensor | None = None
) -> PositiveSets:
    """Each set with one of its best few items more, or one of those `also` wanted, where the gain is not -inf."""
    best = gain.topk(min(most, gain.shape[1]), 1).indices
    wanted = torch.zeros_like(gain, dtype=torch.bool) if also is None else also.clone()
    row, which = (wanted.scatter_(1, best, True) & (gain > -torch.inf)).nonzero(as_tuple=True)
    items = torch.cat([sets.items[row], some[row, which][:, None]], 1)
    logs = torch.cat([sets.logs[row], log[row, which][:, None]], 1)
    return PositiveSets(sets.owner[row], items, logs)


def _best(found: Fitted, instances: int) -> Float64[Tensor, " instances"]:
    start = torch.full((instances,), -torch.inf, dtype=torch.float64, device=found.evidence.device)
    return start.scatter_reduce(0, found.sets.owner, found.evidence, "amax")


def _top(owner: Tensor, evidence: Tensor, most: Tensor) -> Int64[Tensor, " best"]:
    """The rows of the best few sets of each owner, sorted by owner; `most` has a number for each owner."""
    rows = evidence.argsort(descending=True, stable=True)
    rows = rows[owner[rows].argsort(stable=True)]
    return rows[_ranks(owner[rows]) < most[owner[rows]]]


def _ranks(owner: Tensor) -> Tensor:
    """The place of each row among those of its owner; owners are sorted."""
    first = torch.searchsorted(owner, owner)
    return torch.arange(len(owner), device=owner.device) - first


def first_of(keys: Tensor) -> Tensor:
    """Whether each key is the first of its kind."""
    order = keys.argsort(stable=True)
    new = torch.ones_like(keys, dtype=torch.bool)
    new[order[1:]] = keys[order[1:]] != keys[order[:-1]]
    return new


def joined_fits(parts: list[Fitted]) -> Fitted:
    """Several tables of fitted sets as one."""
    sets = PositiveSets.joined([part.sets for part in parts])
    places = sets.items.shape[1]
    return Fitted(
        sets,
        torch.cat([part.totals for part in parts]),
        torch.cat([_wide_square(part.covariance, places) for part in parts]),
        torch.cat([torch.nn.functional.pad(part.wide, (0, places - part.wide.shape[1])) for part in parts]),
        torch.cat([part.evidence for part in parts]),
    )


def _wide_square(square: Tensor, places: int) -> Tensor:
    more = places - square.shape[1]
    padded = torch.nn.functional.pad(square, (0, more, 0, more))
    added = torch.arange(square.shape[1], places, device=square.device)
    padded[:, added, added] = 1.0
    return padded
