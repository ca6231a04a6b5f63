"""The cover of parameters that the other tests rely on."""

from itertools import combinations, product

import pytest
from pairwise import all_pairs


@pytest.mark.parametrize("sizes", [(12, 4, 2), (3, 3, 3, 3), (2, 5, 1, 4), (3, 2)], ids=str)
def test_every_pair_occurs_and_cases_are_few(sizes):
    cases = all_pairs(*map(range, sizes))
    for a, b in combinations(range(len(sizes)), 2):
        assert {(case[a], case[b]) for case in cases} == set(
            product(range(sizes[a]), range(sizes[b]))
        )
    largest, second = sorted(sizes)[-1:-3:-1]
    assert largest * second <= len(cases) <= 1.5 * largest * second
