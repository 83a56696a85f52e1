"""Certificates whose leaves or multipliers were changed: what they claim may be true, but they no longer show it."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Generator

from forgeries.case import Case, Forger, one_of, proof_of, with_leaves
from qgt.decoders.results import Decoded, LeafItem
from qgt.model.prior import FREE

PROOFS: dict[str, Forger] = {}


def _kind(name: str) -> Callable[[Forger], Forger]:
    def add(forger: Forger) -> Forger:
        def on_leaves(case: Case, g: Generator) -> Decoded | None:
            return forger(case, g) if len(proof_of(case.result).least) else None

        PROOFS[name] = on_leaves
        return forger

    return add


# --- leaves ---------------------------------------------------------------------------------------------------------


@_kind("leaves: one dropped")
def _dropped(case: Case, g: Generator) -> Decoded:
    number = len(proof_of(case.result).least)
    return with_leaves(case.result, torch.arange(number) != one_of(number, g))


@_kind("leaves: half of them dropped")
def _halved(case: Case, g: Generator) -> Decoded:
    return with_leaves(case.result, torch.rand(len(proof_of(case.result).least), generator=g) < 0.5)


@_kind("leaves: none")
def _none(case: Case, g: Generator) -> Decoded:
    return with_leaves(case.result, torch.zeros(len(proof_of(case.result).least), dtype=torch.bool))


@_kind("leaves: one in another's place")
def _doubled(case: Case, g: Generator) -> Decoded:
    rows = torch.arange(len(proof_of(case.result).least))
    rows[one_of(len(rows), g)] = one_of(len(rows), g)
    return with_leaves(case.result, rows)


def _changed_bit(case: Case, g: Generator, *, free: bool, value: int | None) -> Decoded | None:
    """A leaf with one of its free, or of its fixed items set to a value, or to the opposite."""
    fixed = proof_of(case.result).fixed.clone()
    where = ((fixed == FREE) == free).nonzero()
    if not len(where):
        return None
    leaf, item = where[one_of(len(where), g)].tolist()
    opposite = (1, 0, LeafItem.BOX_1, LeafItem.BOX_0)[max(0, int(fixed[leaf, item]))]
    fixed[leaf, item] = opposite if value is None else value
    return with_leaves(case.result, fixed=fixed)


@_kind("leaves: a fixed item turned round")
def _moved(case: Case, g: Generator) -> Decoded | None:
    return _changed_bit(case, g, free=False, value=None)


@_kind("leaves: a fixed item set free")
def _widened(case: Case, g: Generator) -> Decoded | None:
    return _changed_bit(case, g, free=False, value=FREE)


@_kind("leaves: a free item fixed")
def _narrowed(case: Case, g: Generator) -> Decoded | None:
    return _changed_bit(case, g, free=True, value=one_of(2, g))


@_kind("leaves: an item fixed to what there is not")
def _nonsense(case: Case, g: Generator) -> Decoded | None:
    return _changed_bit(case, g, free=bool(one_of(2, g)), value=(4, 5, 64, 100, 127)[one_of(5, g)])


@_kind("leaves: an item put among those of which one is defective")
def _marked(case: Case, g: Generator) -> Decoded | None:
    return _changed_bit(case, g, free=bool(one_of(2, g)), value=(LeafItem.SOME, -3, -4, -128)[one_of(4, g)])


@_kind("leaves: one in which some free item must be defective")
def _all_marked(case: Case, g: Generator) -> Decoded:
    fixed = proof_of(case.result).fixed.clone()
    row = one_of(len(fixed), g)
    chosen = (fixed[row] == FREE) & (torch.rand(fixed.shape[1], generator=g) < (0.3, 1.0)[one_of(2, g)])
    fixed[row] = torch.where(chosen, LeafItem.SOME - one_of(3, g), fixed[row])
    return with_leaves(case.result, fixed=fixed)


@_kind("leaves: an item kept that was not")
def _kept(case: Case, g: Generator) -> Decoded | None:
    return _changed_bit(case, g, free=bool(one_of(2, g)), value=LeafItem.BOX_0 + one_of(2, g))


@_kind("leaves: one that keeps every free item")
def _all_kept(case: Case, g: Generator) -> Decoded:
    fixed = proof_of(case.result).fixed.clone()
    row = one_of(len(fixed), g)
    fixed[row] = torch.where(fixed[row] == FREE, LeafItem.BOX_0 + case.result.x[0].to(torch.int8), fixed[row])
    return with_leaves(case.result, fixed=fixed)


@_kind("leaves: least number raised")
def _least(case: Case, g: Generator) -> Decoded:
    least = proof_of(case.result).least.clone()
    least[one_of(len(least), g)] += 1 + one_of(3, g)
    return with_leaves(case.result, least=least)


@_kind("leaves: most number lowered")
def _most(case: Case, g: Generator) -> Decoded:
    most = proof_of(case.result).most.clone()
    most[one_of(len(most), g)] -= 1 + one_of(3, g)
    return with_leaves(case.result, most=most)


@_kind("leaves: numbers moved")
def _shifted(case: Case, g: Generator) -> Decoded:
    proof, step = proof_of(case.result), (1, -1)[one_of(2, g)]
    return with_leaves(case.result, least=proof.least + step, most=proof.most + step)


@_kind("leaves: numbers beyond all")
def _beyond(case: Case, g: Generator) -> Decoded:
    proof = proof_of(case.result)
    least, most = proof.least.clone(), proof.most.clone()
    row = one_of(len(least), g)
    least[row], most[row] = ((-(2**62), -1), (case.problem.items + 1, 2**62), (2**62, -(2**62)))[one_of(3, g)]
    return with_leaves(case.result, least=least, most=most)


@_kind("leaves: those of another instance")
def _others(case: Case, g: Generator) -> Decoded:
    proof = proof_of(case.other)
    return replace(case.result, proof=replace(proof, odds=proof_of(case.result).odds))


# --- multipliers ----------------------------------------------------------------------------------------------------


@_kind("multipliers: scaled")
def _scaled(case: Case, g: Generator) -> Decoded:
    scale = (0.0, -1.0, 0.5, 2.0, 100.0, 1e10, 1e30)[one_of(7, g)]
    return with_leaves(case.result, pi=(scale * proof_of(case.result).pi).clamp(-3e38, 3e38))


@_kind("multipliers: with noise")
def _noised(case: Case, g: Generator) -> Decoded:
    pi = proof_of(case.result).pi
    return with_leaves(case.result, pi=pi + 10.0 ** one_of(3, g) * torch.randn(pi.shape, generator=g))


@_kind("multipliers: no numbers")
def _no_numbers(case: Case, g: Generator) -> Decoded:
    pi = proof_of(case.result).pi.clone()
    pi[one_of(len(pi), g), one_of(pi.shape[1], g)] = (torch.nan, torch.inf, -torch.inf)[one_of(3, g)]
    return with_leaves(case.result, pi=pi)


@_kind("multipliers: of other leaves")
def _permuted(case: Case, g: Generator) -> Decoded:
    pi = proof_of(case.result).pi
    return with_leaves(case.result, pi=pi[torch.randperm(len(pi), generator=g)])


@_kind("multipliers: of another instance")
def _others_multipliers(case: Case, g: Generator) -> Decoded | None:
    pi, other = proof_of(case.result).pi, proof_of(case.other).pi
    return (
        with_leaves(case.result, pi=other[torch.randint(len(other), (len(pi),), generator=g)]) if len(other) else None
    )


@_kind("multipliers: of other pools")
def _other_pools(case: Case, g: Generator) -> Decoded:
    pi = proof_of(case.result).pi
    return with_leaves(case.result, pi=pi[:, torch.randperm(pi.shape[1], generator=g)])


@_kind("shares: scaled")
def _scaled_shares(case: Case, g: Generator) -> Decoded:
    scale = (0.0, -1.0, 0.5, 2.0, 100.0, 1e10, 1e30)[one_of(7, g)]
    return with_leaves(case.result, shares=(scale * proof_of(case.result).shares).clamp(-3e38, 3e38))


@_kind("shares: with noise")
def _noised_shares(case: Case, g: Generator) -> Decoded:
    shares = proof_of(case.result).shares
    return with_leaves(case.result, shares=shares + 10.0 ** one_of(3, g) * torch.randn(shares.shape, generator=g))


@_kind("shares: no numbers")
def _no_numbers_shared(case: Case, g: Generator) -> Decoded | None:
    shares = proof_of(case.result).shares.clone()
    if not shares.numel():
        return None
    shares[one_of(len(shares), g), one_of(shares.shape[1], g)] = (torch.nan, torch.inf, -torch.inf)[one_of(3, g)]
    return with_leaves(case.result, shares=shares)


@_kind("shares: of other items")
def _other_items(case: Case, g: Generator) -> Decoded:
    shares = proof_of(case.result).shares
    return with_leaves(case.result, shares=shares[:, torch.randperm(shares.shape[1], generator=g)])
