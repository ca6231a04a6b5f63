"""What the rows of a result mean, for readers of reports: shown where the pointer rests."""

from __future__ import annotations

EXPLANATIONS = {
    "dimension": "How many directions the surface has on which the points lie: 1 for a line, 2 for "
    "a surface.",
    "scale": "How far points count as neighbours.",
    "components": "Into how many separate pieces the points fall.",
    "local dimensions": "The dimension found at each point, and at how many points.",
    "orientable": "Whether the surface has two sides; a Moebius strip has one.",
    "neighbourhood size": "The share of all points that are neighbours of a point.",
    "normal component": "The part of the vectors that sticks out of the surface.",
    "vector lengths": "The shortest, the longest and the middle length of the vectors.",
    "eigenvalues": "The lowest tones of the surface for vector fields; small ones belong to smooth "
    "fields.",
    "Gaussian curvature": "How strongly the surface is bent: a sphere of radius 1 has 1.",
    "scalar curvature": "How strongly the space is bent.",
    "first Betti number": "Through how many holes of the surface a field can flow in circles.",
    "noise": "How large the errors of the measurements are, in each component.",
    "model": "The description of the field that predicts left-out vectors best; several may share "
    "the work.",
    "standard deviation": "How far the true value usually is from the result.",
    "training": "The fields that the forecast learned from.",
    "skill": "How much better than the mean of the record, in squared error.",
    "operator": "The differential operator of the surface.",
    "filter": "What was removed.",
}
"""Explanations of rows, by their labels."""
