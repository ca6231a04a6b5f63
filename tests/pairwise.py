"""Fewer cases than the full product of parameters."""

from itertools import combinations, product


def all_pairs(*parameters):
    """Combinations of values in which any two values of any two parameters occur together at least
    once.

    Greedy and deterministic: next comes the first combination that adds the most pairs.
    """
    parameters = [list(values) for values in parameters]
    cases = {
        case: set(combinations(enumerate(case), 2))
        for case in product(*(range(len(values)) for values in parameters))
    }
    missing = set().union(*cases.values())
    chosen = []
    while missing:
        best = max(cases, key=lambda case: len(cases[case] & missing))
        missing -= cases[best]
        chosen.append(tuple(values[i] for values, i in zip(parameters, best, strict=True)))
    return chosen
