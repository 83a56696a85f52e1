"""Designs by a rule, for a pipette: plates, hypercubes, triple systems, and polynomials over finite fields.

Nothing is drawn: equal arguments give equal designs. Each function returns the *columns* of a design, which are the
pools of each item, `(items, weight)`; `Lists.of_columns` makes them the items of each pool.

What such designs guarantee follows from two numbers, the pools of an item, w, and the most pools that two items share,
s. With D defectives, another item shares at most s D of its w pools with them. So if s D < w, each item that is not
defective is in a pool without defectives: pools that report positive or negative without errors identify up to
floor((w - 1) / s) defectives, and counts identify them too (Kautz and Singleton 1964, Nonrandom binary superimposed
codes, IEEE Transactions on Information Theory 10). If s D + 2 E < w, they do so although E pools are wrong.

    design                  pools of an item, w     shared by two items, s     source
    rows and columns        2                       1
    hypercube               dimensions d            d - 1
    triples                 3                       1                          Bose 1939; Skolem 1958; Kirkman 1850
    shifted transversal     layers k                compression power          Thierry-Mieg 2006
    Reed-Solomon            evaluations             degree                     Kautz and Singleton 1964
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from qgt.arguments import whole

LARGEST_FIELD = 2**16  # elements: a generator is found in a few seconds
# Kirkman triple systems of 33 and 69 pools, which neither of Ray-Chaudhuri and Wilson's constructions gives. Points are
# numbers level * q + x with x modulo q, for q = 11 and 23. Translations of the first triples, which are one parallel
# class, give q classes; each of the others is one class with its translations. Found by a random search of our own for
# triples that have every difference once.
STARTERS = {
    11: (
        (
            *((2, 4, 8), (3, 6, 24), (0, 1, 19), (16, 21, 29), (9, 11, 18), (14, 15, 17)),
            *((22, 26, 27), (5, 28, 31), (20, 23, 25), (7, 12, 32), (10, 13, 30)),
        ),
        ((0, 11, 22), (0, 21, 28), (0, 17, 27), (0, 15, 30), (0, 12, 24)),
    ),
    23: (
        (
            *((1, 10, 22), (7, 17, 45), (4, 12, 51), (8, 15, 28), (3, 9, 52), (16, 21, 38), (14, 18, 46)),
            *((2, 5, 39), (19, 20, 56), (30, 41, 50), (23, 36, 65), (25, 31, 34), (24, 32, 58), (35, 40, 42)),
            *((29, 33, 54), (0, 26, 27), (48, 60, 63), (53, 66, 67), (57, 62, 64), (11, 55, 61), (44, 49, 68)),
            *((6, 37, 47), (13, 43, 59)),
        ),
        (
            *((0, 23, 68), (0, 44, 61), (0, 42, 56), (0, 41, 53), (0, 39, 57), (0, 35, 58), (0, 33, 48)),
            *((0, 32, 63), (0, 29, 65), (0, 25, 52), (0, 24, 54)),
        ),
    ),
}


def nearest(value: int, works: Callable[[int], bool], *, least: int, most: int) -> str:
    """The nearest numbers below and above a value that work, for a sentence.

    Example:
        >>> nearest(10, lambda number: number % 4 == 1, least=1, most=100)
        '9 or 13'
    """
    below = next((number for number in range(min(value, most), least - 1, -1) if works(number)), None)
    above = next((number for number in range(max(value, least), most + 1) if works(number)), None)
    return " or ".join(str(number) for number in (below, above) if number is not None)


# Plates and hypercubes.


def plate(rows: int, columns: int, items: int | None) -> Tensor:
    """The row and the column of each item, row by row; the last row may be shorter.

    Example:
        >>> plate(2, 3, 5).tolist()
        [[0, 2], [0, 3], [0, 4], [1, 2], [1, 3]]
    """
    least = max((rows - 1) * columns + 1, columns)  # otherwise a row or a column would be empty
    size = rows * columns if items is None else whole("items", items, least=least, most=rows * columns)
    number = torch.arange(size)
    return torch.stack([number // columns, rows + number % columns], 1)  # (items, 2)


def grid(side: int, dimensions: int) -> Tensor:
    """The slices through each point of a grid; the last coordinate changes fastest.

    Example:
        >>> grid(2, 2).tolist()
        [[0, 2], [0, 3], [1, 2], [1, 3]]
    """
    number = torch.arange(side**dimensions)
    digits = [number // side**place % side for place in reversed(range(dimensions))]
    return torch.stack([axis * side + digit for axis, digit in enumerate(digits)], 1)  # (items, dimensions)


# Steiner triple systems: triples of pools in which every two pools are together exactly once.


def steiner(pools: int) -> Tensor:
    """All triples of a Steiner system, in an order whose beginnings have pools of nearly equal size.

    Bose (1939, On the construction of balanced incomplete block designs, Annals of Eugenics 9) for pools = 6 k + 3,
    Skolem (1958, Some remarks on the triple systems of Steiner, Mathematica Scandinavica 6) for 6 k + 1.

    Example:
        >>> steiner(7).tolist()
        [[0, 2, 4], [1, 2, 6], [0, 1, 3], [2, 3, 5], [3, 4, 6], [0, 5, 6], [1, 4, 5]]
    """
    if pools < 3 or pools % 6 not in (1, 3):
        close = nearest(pools, lambda number: number % 6 in (1, 3), least=3, most=max(9, 2 * pools))
        raise ValueError(
            f"pools={pools} is not valid: a Steiner triple system needs a number of pools that leaves 1 or 3 when "
            f"divided by 6; give {close}."
        )
    return _evenly(_bose(pools // 3) if pools % 6 == 3 else _skolem(pools // 6))


def _bose(third: int) -> Tensor:
    """Triples of the points (x, level), x modulo an odd number: x, y of one level and (x + y) / 2 of the next."""
    x, away = torch.arange(third), torch.arange(1, third // 2 + 1)[:, None]
    triples = [torch.stack([x, x + third, x + 2 * third], 1)]
    for level in range(3):
        one, two = (x - away) % third + level * third, (x + away) % third + level * third  # (distances, third)
        middle = (x + (level + 1) % 3 * third).expand_as(one)
        triples.append(torch.stack([one, two, middle], 2).flatten(0, 1))
    return torch.cat(triples)


def _skolem(sixth: int) -> Tensor:
    """Bose's idea for an even number of x, where half of the sums are not twice a number, and one more point."""
    size, last = 2 * sixth, 6 * sixth
    half = torch.arange(sixth)
    x, y = torch.combinations(torch.arange(size)).T
    total = (x + y) % size
    product = total // 2 + total % 2 * sixth
    triples = [torch.stack([half, half + size, half + 2 * size], 1)]
    for level in range(3):
        here, above = level * size, (level + 1) % 3 * size
        triples.append(torch.stack([torch.full_like(half, last), half + sixth + here, half + above], 1))
        triples.append(torch.stack([x + here, y + here, product + above], 1))
    return torch.cat(triples)


def _evenly(triples: Tensor) -> Tensor:
    """The same triples, each next one with a pool that is in the fewest so far, and others that are in few."""
    points, pools = triples.sort(1).values.numpy(), int(triples.max()) + 1
    having = points.flatten().argsort(kind="stable").reshape(pools, -1) // 3  # the triples of each pool
    sizes, free, order = np.zeros(pools, dtype=np.int64), np.ones(len(points), dtype=bool), []
    for _ in range(len(points)):
        mine = having[sizes.argmin()]
        mine = mine[free[mine]]
        others = sizes[points[mine]]
        best = mine[(others.max(1) * 4 * len(points) + others.sum(1)).argmin()]
        free[best] = False
        sizes[points[best]] += 1
        order.append(best)
    return torch.from_numpy(points[order])


# Kirkman triple systems: triples in parallel classes, each of which has every pool exactly once.


def kirkman(pools: int) -> Tensor:
    """Parallel classes of triples, `(classes, pools / 3, 3)`; two triples share at most one pool.

    All (pools - 1) / 2 classes, in which every two pools are together once, are made for pools = 3 q and 2 q + 1, where
    q = 6 t + 1 is a power of a prime (Ray-Chaudhuri and Wilson 1971, Solution of Kirkman's schoolgirl problem, Proc.
    Symp. Pure Math. 19), for 33 and 69, and for three times a number of pools for which they are made. For any other
    6 k + 3 there are the pools / 3 classes of two orthogonal Latin squares.

    Example:
        >>> kirkman(9).tolist()[0], kirkman(9).shape
        ([[0, 3, 6], [1, 4, 8], [2, 5, 7]], torch.Size([4, 3, 3]))
    """
    if pools < 3 or pools % 6 != 3:
        close = nearest(pools, lambda number: number % 6 == 3, least=3, most=max(9, 2 * pools))
        raise ValueError(
            f"pools={pools} is not valid: triples in parallel classes need a number of pools that leaves 3 when "
            f"divided by 6; give {close}."
        )
    whole_system = _resolved(pools)
    return _crossing(pools // 3) if whole_system is None else whole_system


def _resolved(pools: int) -> Tensor | None:
    """The classes of a whole system, or None where no construction here gives one."""
    third, half = pools // 3, pools // 2
    if pools == 3:
        return torch.tensor([[[0, 1, 2]]])
    if third in STARTERS:
        return _translated(FiniteField.of(third), *map(torch.tensor, STARTERS[third]))
    if third % 6 == 1 and prime_power(third):
        return _thrice(FiniteField.of(third))
    if half % 6 == 1 and prime_power(half):
        return _twice(FiniteField.of(half))
    inner = _resolved(third) if third % 6 == 3 else None
    if inner is None:
        return None
    return torch.cat([_crossing(third), torch.cat([inner, inner + third, inner + 2 * third], 1)])


def _crossing(third: int) -> Tensor:
    """Triples x, y, x + y of three groups of pools, an odd number each; a class has one x - y."""
    y, apart = torch.arange(third), torch.arange(third)[:, None]
    groups = [(y + apart) % third, y.expand(third, third), (2 * y + apart) % third]
    return torch.stack([group + level * third for level, group in enumerate(groups)], 2)


def _thrice(field: "FiniteField") -> Tensor:
    """Ray-Chaudhuri and Wilson's classes for three times q = 6 t + 1: triples whose quotients are cube roots of 1."""
    q, t = field.size, field.size // 6
    power = field.powers[torch.arange(3 * q) % (q - 1)]
    roots = 2 * t * torch.arange(3)
    level = q * torch.arange(3)
    exponents = torch.arange(6 * t)
    crossing = power[exponents[:, None] + roots] + level  # one point in each level: (6 t, 3)
    within = [power[torch.arange(t)[:, None] + roots] + place for place in level.tolist()]
    odd = exponents // t % 2 == 1  # the points that `within` leaves
    return _translated(field, torch.cat([level[None], *within, crossing[odd]]), crossing[~odd])


def _twice(field: "FiniteField") -> Tensor:
    """Ray-Chaudhuri and Wilson's classes for 2 q + 1 pools, q = 6 t + 1, the last of which stays where it is."""
    q, t = field.size, field.size // 6
    power = field.powers[torch.arange(3 * q) % (q - 1)]
    m = int(field.logs[field.halved(field.add(power[t], power[0]))])  # 2 g^m = g^t + 1
    even = torch.arange(6 * t)[torch.arange(6 * t) // t % 2 == 0]
    mixed = torch.stack([power[even], power[even + t], power[even + m] + q], 1)
    within = power[torch.arange(t)[:, None] + m + t * torch.tensor([1, 3, 5])] + q
    base = torch.cat([torch.tensor([[0, q, 2 * q]]), mixed, within])
    moved = _moved(field, base)
    moved[:, 0, 2] = 2 * q
    return moved


def _translated(field: "FiniteField", base: Tensor, alone: Tensor) -> Tensor:
    """A class and its translations, and for each further triple the class of its translations."""
    return torch.cat([_moved(field, alone).transpose(0, 1), _moved(field, base)])


def _moved(field: "FiniteField", triples: Tensor) -> Tensor:
    """Points level * q + x, with every element of the field added to x: (q, triples, 3)."""
    q = field.size
    return triples // q * q + field.add(triples % q, torch.arange(q)[:, None, None])


def first_items(triples: Tensor, pools: int, items: int | None) -> Tensor:
    """The first triples of a system; as many as leave no pool empty, or more."""
    if items is None:
        return triples
    owners = triples.flatten()
    first = torch.full((pools,), len(owners)).scatter_reduce(0, owners, torch.arange(len(owners)), "amin")
    return triples[: whole("items", items, least=int(first.max()) // 3 + 1, most=len(triples))]


# Polynomials over finite fields: an item is a polynomial, and in each layer it is in the pool of its value.


@dataclass(frozen=True, eq=False)
class FiniteField:
    """The finite field of p^m elements, p a prime: numbers whose digits to base p are a polynomial's coefficients.

    The powers of one element, a generator, are all elements except 0, so products are sums of logarithms.

    Example:
        >>> field = FiniteField.of(8)
        >>> int(field.add(torch.tensor(3), torch.tensor(5))), int(field.times(torch.tensor(3), torch.tensor(5)))
        (6, 2)
    """

    prime: int
    digits: int
    powers: Tensor  # of the generator: the 0th to the (size - 2)th
    logs: Tensor  # of each element; that of 0 is without meaning

    @classmethod
    def of(cls, size: int) -> "FiniteField":
        """The field of so many elements."""
        found = prime_power(size)
        if found is None:
            raise ValueError(f"size={size} is not valid: a finite field has a power of a prime of elements.")
        prime, digits = found
        powers = torch.tensor(_generated(prime, digits))
        logs = torch.zeros(size, dtype=torch.int64)
        logs[powers] = torch.arange(size - 1)
        return cls(prime, digits, powers, logs)

    @property
    def size(self) -> int:
        """The number of elements."""
        return len(self.logs)

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        """Sums: digit by digit, without carrying."""
        places = [self.prime**place for place in range(self.digits)]
        return torch.stack([(a // place + b // place) % self.prime * place for place in places]).sum(0)

    def times(self, a: Tensor, b: Tensor) -> Tensor:
        """Products."""
        product = self.powers[(self.logs[a] + self.logs[b]) % (self.size - 1)]
        return torch.where((a == 0) | (b == 0), 0, product)

    def halved(self, a: Tensor) -> Tensor:
        """Elements that, added to themselves, give these; the prime must not be 2."""
        return self.times(a, torch.tensor((self.prime + 1) // 2))


def _generated(prime: int, digits: int) -> list[int]:
    """The powers of x modulo the first polynomial x^m - c_(m-1) x^(m-1) - ... - c_0 of which x is a generator."""
    size = prime**digits
    places = [prime**place for place in range(digits)]
    for c in itertools.product(range(1, prime), *[range(prime)] * (digits - 1)):
        element, powers = [1] + [0] * (digits - 1), list[int]()
        while len(powers) < size - 1:
            powers.append(sum(digit * place for digit, place in zip(element, places, strict=True)))
            top = element[-1]
            element = [(low + top * each) % prime for low, each in zip([0, *element[:-1]], c, strict=True)]
            if element[0] == 1 and not any(element[1:]):
                break
        if len(powers) == size - 1:
            return powers
    raise AssertionError(f"no polynomial of degree {digits} modulo {prime} has x as a generator")


def prime_power(number: int) -> tuple[int, int] | None:
    """The prime and the exponent of a power of a prime; None for any other number.

    Example:
        >>> prime_power(27), prime_power(12)
        ((3, 3), None)
    """
    prime = next((d for d in range(2, int(number**0.5) + 1) if number % d == 0), number)
    exponent = 0
    while number > 1 and number % prime == 0:
        number, exponent = number // prime, exponent + 1
    return (prime, exponent) if number == 1 and exponent else None


def is_prime(number: int) -> bool:
    """Whether a number is a prime."""
    found = prime_power(number)
    return found is not None and found[1] == 1


def polynomials(field: FiniteField, layers: int, degree: int, items: int) -> Tensor:
    """The values of the first polynomials at the first elements, as pools of consecutive layers.

    The digits of an item's number to base q are its coefficients, the constant first. So each q consecutive items have
    all values once at every element, and pools of a layer differ by at most one item. In a layer beyond the field's
    elements the value is the leading coefficient.

    Example:
        >>> polynomials(FiniteField.of(2), 3, 1, 4).tolist()
        [[0, 2, 4], [1, 3, 4], [0, 3, 5], [1, 2, 5]]
    """
    q, number = field.size, torch.arange(items)
    coefficients = [number // q**power % q for power in range(degree + 1)]
    columns = []
    for layer in range(layers):
        value = coefficients[-1]
        for coefficient in reversed(coefficients[:-1] if layer < q else []):
            value = field.add(field.times(value, torch.tensor(layer)), coefficient)
        columns.append(layer * q + value)
    return torch.stack(columns, 1)  # (items, layers)


def compression_power(items: int, prime: int) -> int:
    """The smallest g with prime^(g + 1) >= items: two items of a shifted transversal design share at most g pools.

    Example:
        >>> compression_power(100, 7), compression_power(49, 7), compression_power(7, 7)
        (2, 1, 0)
    """
    power = 0
    while prime ** (power + 1) < items:
        power += 1
    return power


def checked_prime(prime: int) -> int:
    """Return a prime number, or raise a ValueError that names the nearest ones."""
    prime = whole("prime", prime, least=2, most=LARGEST_FIELD)
    if not is_prime(prime):
        close = nearest(prime, is_prime, least=2, most=LARGEST_FIELD)
        raise ValueError(f"prime={prime} is not valid: give a prime number, such as {close}.")
    return prime


def checked_symbols(symbols: int) -> int:
    """Return the size of a finite field, or raise a ValueError that names the nearest ones."""
    symbols = whole("symbols", symbols, least=2, most=LARGEST_FIELD)
    if prime_power(symbols) is None:
        close = nearest(symbols, lambda number: prime_power(number) is not None, least=2, most=LARGEST_FIELD)
        raise ValueError(f"symbols={symbols} is not valid: give a prime or a power of one, such as {close}.")
    return symbols


def checked_layers(layers: int, items: int, prime: int) -> int:
    """Return the layers of a shifted transversal design, or raise a ValueError: its pools must not be empty."""
    power = compression_power(items, prime)
    layers = whole("layers", layers, least=power + 1, most=prime + 1)
    least = (prime - 1) * prime**power + 1  # of the items, for the last layer to have no empty pool
    if layers > prime and items < least:
        raise ValueError(
            f"layers={layers} is not valid for items={items}: the last of prime + 1 layers would have empty pools; "
            f"give at most {prime} layers, or at least {least} items."
        )
    return layers
