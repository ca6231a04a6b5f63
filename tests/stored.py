"""The tensors of a Laplacian as the custom operations of torch take them."""

from tangentbundle.operators.storage import Layout

ROWS = Layout.ROWS.value
"""The layout on CPUs."""


def along_curve(lap):
    """``indptr, cols, values, order, mass`` for signals along the curve."""
    return tensors(lap.stored, lap.mass)


def in_user_order(lap):
    """The same for signals in the user's order."""
    return tensors(lap.stored_in_user_order, lap.mass)


def tensors(matrix, mass):
    return matrix.indptr, matrix.cols, matrix.values, matrix.curve_order, mass
