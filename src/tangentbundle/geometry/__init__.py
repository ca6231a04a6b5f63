"""From points to tangent spaces: kernels, neighbour search, scale, dimension, local frames and
transport."""
