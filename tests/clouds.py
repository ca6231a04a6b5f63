"""Clouds of points, their ball graphs and local PCA, from arrays."""

import torch

from tangentbundle.geometry.cloud import PointCloud
from tangentbundle.geometry.local_pca import local_pca


def cloud_of(points):
    """A cloud of an array ``(n, D)``, in the order of its rows."""
    return PointCloud.in_order(points)


def ball_graph(points, radius, **options):
    """The graph of all points ``(n, D)`` at most ``radius`` apart."""
    return cloud_of(points).within(radius, **options)


def pca_within(points, radius, **options):
    """Local PCA in the balls of a radius, or of a radius ``(n,)`` for each point."""
    cloud = cloud_of(points)
    radii = torch.as_tensor(radius, dtype=torch.float64)
    return local_pca(cloud.points, cloud.within(float(radii.max())), radii, **options)


def equal(tensor, other):
    """Whether tensors, or a tensor and an array, have the same shape and numbers."""
    return torch.equal(torch.as_tensor(tensor), torch.as_tensor(other))
