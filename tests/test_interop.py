"""Other libraries: PyTorch Geometric and meshio. Each against the library itself."""

import meshio
import numpy as np
import pytest
import torch

import tangentbundle as tb
from tangentbundle.errors import (
    InvalidInputError,
    IsolatedPointsError,
    MissingColumnsError,
    MissingExtraError,
)
from tangentbundle.interop import (
    AttachBundle,
    from_meshio,
    laplacian_of,
    to_meshio,
    to_pyg,
)
from tangentbundle.io import Mesh, Request, read_field

SPHERE = tb.manifolds.Sphere(2)
CLOUDS = {
    "circle": tb.manifolds.Sphere(1),
    "sphere": SPHERE,
    "klein": tb.manifolds.KleinBottle(),
    "three": tb.manifolds.Sphere(3),
}


@pytest.fixture(scope="module")
def pyg():
    return pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")


def octahedron():
    points = np.concatenate([np.eye(3), -np.eye(3)])
    signs = [(a, b, c) for a in (0, 3) for b in (1, 4) for c in (2, 5)]
    return points, np.array([(a, b, c) if (a + b + c) % 2 else (a, c, b) for a, b, c in signs])


# PyTorch Geometric.


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CLOUDS)
def test_pyg_round_trip_gives_the_same_laplacian(pyg, name, dtype):
    space = CLOUDS[name]
    points = space.sample(200, seed=0).astype(dtype)
    tangent = tb.TangentBundle.from_points(points, dim=space.dim, kernel=tb.kernels.Gaussian(2.0))
    for bundle in (tangent, tangent.scalar()):
        data = to_pyg(bundle)
        assert (
            data.bundle is bundle
            and (laplacian_of(data).to_scipy() != bundle.laplacian().to_scipy()).nnz == 0
        )
    assert np.array_equal(to_pyg(tangent).frames, tangent.frames)


def test_pyg_messages_are_the_operator(pyg):
    """Delta x from the tensors of Data alone, as a message-passing layer would have it."""
    bundle = tb.TangentBundle.from_points(torch.from_numpy(SPHERE.sample(150, seed=0)))
    x = torch.randn(150, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    data = to_pyg(bundle, x=x)
    source, target = data.edge_index

    def gather(values):
        return torch.zeros(150, *values.shape[1:], dtype=values.dtype).index_add_(0, target, values)

    degree = gather(data.edge_weight)
    weight = data.edge_weight / degree[source] / degree[target]
    mean = (
        gather(torch.einsum("e,eij,ejc->eic", weight, data.transport, data.x[source]))
        / gather(weight)[:, None, None]
    )
    scale = bundle.weights.kernel.calibration(2) * data.eps
    assert torch.allclose(
        (mean - x) / scale, bundle.laplacian(calibrate=tb.operators.KernelMoments(), terms=1) @ x
    )
    assert data.validate()


def test_pyg_batches(pyg, tmp_path):
    from torch_geometric.data import Data
    from torch_geometric.loader import DataLoader

    sizes, attach = (60, 80, 100), AttachBundle(neighbors=10, dim=2)
    clouds = [torch.from_numpy(SPHERE.sample(n, seed=n)) for n in sizes]
    signals = [
        torch.randn(n, 2, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(n))
        for n in sizes
    ]
    data = [attach(Data(pos=p, x=x)) for p, x in zip(clouds, signals, strict=True)]
    batch = next(iter(DataLoader(data, batch_size=3)))
    operator = laplacian_of(batch)
    alone = [tb.TangentBundle.from_points(p, neighbors=10, dim=2).laplacian() for p in clouds]
    expected = torch.cat([lap @ x for lap, x in zip(alone, signals, strict=True)])
    assert operator.sizes == sizes and torch.allclose(operator @ batch.x, expected)
    assert torch.allclose(laplacian_of(data[0]) @ signals[0], expected[:60])
    bare = next(iter(DataLoader([to_pyg(d.bundle) for d in data], batch_size=3)))
    assert torch.allclose(laplacian_of(bare) @ batch.x, expected)
    torch.save(data[1], tmp_path / "data.pt")
    stored = torch.load(tmp_path / "data.pt", weights_only=False)
    assert torch.equal(laplacian_of(stored) @ stored.x, laplacian_of(data[1]) @ signals[1])
    net = tb.nn.TNN([1, 4, 1], seed=0).double()
    loss = net(batch.x, operator).square().mean()
    loss.backward()
    assert all(p.grad is not None for p in net.parameters())


def test_pyg_takes_normals_and_triangles(pyg):
    from torch_geometric.data import Data
    from torch_geometric.transforms import Compose, NormalizeScale

    points = torch.from_numpy(SPHERE.sample(200, seed=0))
    exact = AttachBundle()(Data(pos=points, normal=3 * points))
    assert torch.einsum("nd,ndk->nk", points, exact.frames).abs().max() < 1e-12
    vertices, faces = (torch.from_numpy(a) for a in octahedron())
    meshed = Compose([NormalizeScale(), AttachBundle(dim=2)])(
        Data(pos=vertices, face=faces.T.contiguous())
    )
    same = tb.TangentBundle.from_mesh(meshed.pos, faces)
    assert torch.equal(meshed.frames, same.frames) and torch.equal(
        meshed.bundle.frames, same.frames
    )


def test_pyg_clouds_with_isolated_points(pyg):
    """They are named, and every point gets a neighbour where the user allows wider balls."""
    from torch_geometric.data import Data

    points = tb.manifolds.Sphere(2).sample(200, seed=0)
    points[0] *= 1.6
    data = Data(pos=torch.from_numpy(points), name="cloud 17")
    with pytest.raises(IsolatedPointsError, match=r"cloud 17.*widen=True"):
        AttachBundle(neighbors=12, dim=2)(data)
    graph = AttachBundle(widen=True, neighbors=12, dim=2)(data).bundle.graph
    assert graph.degrees.min() == 1


@pytest.mark.parametrize("distance", [30.0, 1e3, 1e6, 1e12])
@pytest.mark.parametrize("normals", [False, True])
def test_clouds_with_far_outliers_are_not_widened(pyg, distance, normals):
    from torch_geometric.data import Data

    for seed in range(3):
        rng = np.random.default_rng(seed)
        points = tb.manifolds.Sphere(2).sample(150, seed=seed)
        far = np.sort(rng.choice(150, 2, replace=False))
        normal = torch.from_numpy(points.copy())
        points[far] *= distance
        data = Data(pos=torch.from_numpy(points), name=f"cloud {seed}")
        if normals:
            data.normal = normal
        with pytest.raises(IsolatedPointsError, match=f"cloud {seed}.*first: {far[0]},") as caught:
            AttachBundle(neighbors=12, widen=True, dim=2)(data)
        assert caught.value.point == far[0]


def test_pyg_data_that_hold_no_bundle_are_refused(pyg):
    from torch_geometric.data import Data

    with pytest.raises(MissingColumnsError, match="holds no bundle"):
        laplacian_of(Data(pos=torch.zeros(5, 3)))
    with pytest.raises(MissingColumnsError, match=r"data\.pos"):
        AttachBundle()(Data())


def test_missing_libraries_are_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch_geometric.data", None)
    bundle = tb.TangentBundle.from_points(SPHERE.sample(60, seed=0))
    with pytest.raises(MissingExtraError, match=r"tangentbundle\[pyg\]"):
        to_pyg(bundle)


# Meshes.


def test_meshio_in_and_out():
    points, faces = octahedron()
    flow, heat = np.cross(points, [0.0, 0.0, 1.0]), np.arange(6.0)
    mesh = meshio.Mesh(points, [("triangle", faces)], {"flow": flow, "heat": heat})
    field = from_meshio(mesh)
    assert (
        isinstance(field.space, Mesh)
        and np.array_equal(field.vectors[0], flow)
        and "flow" in field.notes[0].problem
    )
    made = to_meshio(field.with_vectors(2 * field.vectors))
    assert np.array_equal(made.point_data["flow"], 2 * flow) and np.array_equal(
        made.point_data["heat"], heat
    )
    assert np.array_equal(made.cells_dict["triangle"], faces)
    assert from_meshio(meshio.Mesh(points, [("triangle", faces)])).values is None
    with pytest.raises(MissingColumnsError, match="speed"):
        from_meshio(mesh, Request(vectors=("speed",)))


def test_data_of_faces_are_averaged_to_the_vertices():
    """By area, said in the notes; data of vertices come first."""
    points = np.array([[0.0, 0, 0], [1, 0, 0], [0, 2, 0], [-1, 0, 0], [-1, -1, 0]])
    cells = [("triangle", np.array([[0, 1, 2], [0, 2, 3]])), ("quad", np.array([[0, 3, 4, 1]]))]
    wind = [np.array([[1.0, 0, 0], [3.0, 0, 0]]), np.array([[0.0, 4.0, 0]])]
    field = from_meshio(meshio.Mesh(points, cells, cell_data={"wind": wind}))
    expected = [
        [4 / 3, 4 / 3, 0],
        [2 / 3, 4 / 3, 0],
        [2, 0, 0],
        [2, 4 / 3, 0],
        [0, 4, 0],
    ]  # areas: 1, 1, 1/2 + 1/2
    assert np.allclose(field.vectors[0], expected)
    assert any("wind averaged" in note.problem for note in field.notes)
    both = meshio.Mesh(points, cells, point_data={"flow": points}, cell_data={"wind": wind})
    assert np.array_equal(from_meshio(both).vectors[0], points)
    assert np.array_equal(from_meshio(both, Request(vectors=("wind",))).vectors, field.vectors)


def test_obj_files_have_y_up_unless_another_axis_is_chosen(tmp_path):
    meshio.write(
        tmp_path / "mesh.obj", meshio.Mesh(octahedron()[0], [("triangle", octahedron()[1])])
    )
    for up, expected in {"": "y", "z": "z", "x": "x"}.items():
        assert (
            read_field(tmp_path / "mesh.obj", Request(needs_vectors=False, up=up)).space.up
            == expected
        )
    with pytest.raises(InvalidInputError, match="up must be x, y or z, got 'w'") as error:
        read_field(tmp_path / "mesh.obj", Request(up="w"))
    assert error.value.argument == "up"
