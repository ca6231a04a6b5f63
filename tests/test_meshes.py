"""Meshes of other libraries and of files become vertices and triangles; meshes that are no surface
are cut or merged."""

from types import SimpleNamespace

import meshio
import numpy as np
import pytest
import torch
from test_known_frames import SQUARE, icosphere
from test_mesh import moebius
from test_soup import MESHES, fan, random_triangles

from tangentbundle import TangentBundle
from tangentbundle.errors import (
    DamagedFileError,
    DuplicatePointsWarning,
    InvalidInputError,
    NotManifoldError,
    RankDeficientError,
    ShapeError,
)
from tangentbundle.meshes import Triangles, cut_sheets, merge_vertices, read_mesh
from tangentbundle.spaces import Mesh

VERTICES, FACES = icosphere(1)


# Objects of other libraries. PyVista and Open3D are large; their meshes are played by objects with
# the attributes that their documentation names, and read themselves where they are installed.


class HostTensor:
    """A tensor of Open3D."""

    def __init__(self, array):
        self.array = array

    def cpu(self):
        return self

    def numpy(self):
        return self.array


def padded(faces):
    """Faces as VTK has them."""
    return np.concatenate([[len(face), *face] for face in faces])


class Grid:
    """Data of PyVista that are no polygons."""

    points = VERTICES

    def extract_surface(self):
        return SimpleNamespace(points=VERTICES, faces=padded(FACES))


DOUBLES = {
    "trimesh.Trimesh": SimpleNamespace(vertices=VERTICES, faces=FACES),
    "trimesh.Scene": SimpleNamespace(
        geometry={}, to_mesh=lambda: SimpleNamespace(vertices=VERTICES, faces=FACES)
    ),
    "pyvista.PolyData": SimpleNamespace(points=VERTICES, faces=padded(FACES)),
    "pyvista.UnstructuredGrid": Grid(),
    "open3d.geometry.TriangleMesh": SimpleNamespace(vertices=VERTICES, triangles=FACES),
    "open3d.t.geometry.TriangleMesh": SimpleNamespace(
        vertex=SimpleNamespace(positions=HostTensor(VERTICES)),
        triangle=SimpleNamespace(indices=HostTensor(FACES)),
    ),
    "meshio.Mesh": meshio.Mesh(VERTICES, [("line", FACES[:, :2]), ("triangle", FACES)]),
    "spaces.Mesh": Mesh(VERTICES, FACES),
    "Triangles": Triangles(VERTICES, FACES),
}


@pytest.mark.parametrize("name", DOUBLES)
def test_meshes_of_other_libraries(name):
    triangles = read_mesh(DOUBLES[name])
    np.testing.assert_array_equal(triangles.vertices, VERTICES)
    np.testing.assert_array_equal(triangles.faces, FACES)
    expected = TangentBundle.from_mesh(VERTICES, FACES).laplacian()
    laplacian = TangentBundle.from_mesh(DOUBLES[name]).laplacian()
    np.testing.assert_array_equal(laplacian.to_dense(), expected.to_dense())


def test_trimesh():
    trimesh = pytest.importorskip("trimesh")
    mesh = trimesh.Trimesh(VERTICES, FACES, process=False)
    moved = trimesh.Scene()
    moved.add_geometry(mesh, transform=trimesh.transformations.translation_matrix([1, 2, 3]))
    np.testing.assert_array_equal(read_mesh(mesh).faces, FACES)
    triangles = read_mesh(moved)
    np.testing.assert_allclose(triangles.vertices, VERTICES + np.array([1, 2, 3]))
    assert TangentBundle.from_mesh(mesh).num_points == len(VERTICES)


def test_pyvista():
    pyvista = pytest.importorskip("pyvista")
    mesh = pyvista.PolyData.from_regular_faces(VERTICES, FACES)
    np.testing.assert_array_equal(read_mesh(mesh).faces, FACES)
    sheet = pyvista.Plane(i_resolution=3, j_resolution=2)
    assert len(read_mesh(sheet).faces) == 12
    box = pyvista.ImageData(dimensions=(3, 3, 3))
    assert TangentBundle.from_mesh(merge_vertices(box)).weights.mesh.boundary == 0


def test_open3d():
    open3d = pytest.importorskip("open3d")
    mesh = open3d.geometry.TriangleMesh.create_sphere(resolution=6)
    tensors = open3d.t.geometry.TriangleMesh.from_legacy(mesh)
    np.testing.assert_array_equal(read_mesh(mesh).faces, np.asarray(mesh.triangles))
    np.testing.assert_array_equal(read_mesh(tensors).faces, np.asarray(mesh.triangles))


# Arrays.


def test_polygons_are_split_into_fans():
    triangles = [[0, 1, 2], [0, 2, 3]]
    for faces in (
        [[0, 1, 2, 3]],
        np.array([[0, 1, 2, 3]]),
        torch.tensor([[0, 1, 2, 3]]),
        ([0, 1, 2], [0, 2, 3]),
    ):
        assert read_mesh(SQUARE, faces).faces.tolist() == triangles
        assert TangentBundle.from_mesh(SQUARE, faces).weights.mesh.boundary == 4
    house = np.concatenate([SQUARE, [[0.5, 1.5, 0]]])
    mixed = [[0, 1, 2, 3], np.array([3, 2, 4])]
    assert read_mesh(house, mixed).faces.tolist() == [*triangles, [3, 2, 4]]
    vtk = SimpleNamespace(points=house, faces=padded(mixed))
    assert read_mesh(vtk).faces.tolist() == [*triangles, [3, 2, 4]]
    pentagon = read_mesh(house, [[0, 1, 2, 4, 3]]).faces
    assert pentagon.tolist() == [[0, 1, 2], [0, 2, 4], [0, 4, 3]]


def test_tensors_stay_tensors():
    vertices = torch.from_numpy(VERTICES).float()
    bundle = TangentBundle.from_mesh(vertices, torch.from_numpy(FACES))
    assert bundle.laplacian().dtype == torch.float32
    assert isinstance(bundle.frames, torch.Tensor)


@pytest.mark.parametrize(
    "mesh, error, match",
    [
        (VERTICES, ShapeError, "vertices need their faces.*from_points"),
        (VERTICES.tolist(), ShapeError, "vertices need their faces"),
        (7, InvalidInputError, "mesh must be vertices and faces, a mesh of trimesh.*got int"),
        (None, InvalidInputError, "got NoneType"),
        (SimpleNamespace(points=VERTICES), InvalidInputError, "got SimpleNamespace"),
        ("nowhere.ply", InvalidInputError, "no such file"),
    ],
)
def test_what_is_no_mesh(mesh, error, match):
    with pytest.raises(error, match=match):
        TangentBundle.from_mesh(mesh)


# Files.


@pytest.mark.parametrize("suffix", ["ply", "obj", "off", "stl", "vtk", "vtu"])
def test_mesh_files(suffix, tmp_path):
    path = tmp_path / f"mesh.{suffix}"
    meshio.write(path, meshio.Mesh(VERTICES, [("triangle", FACES)]))
    for place in (path, str(path)):
        bundle = TangentBundle.from_mesh(place)
        assert bundle.num_points == len(VERTICES) and bundle.weights.mesh.boundary == 0


def test_glb_files(tmp_path):
    trimesh = pytest.importorskip("trimesh")
    path = tmp_path / "scene.glb"
    scene = trimesh.Scene([trimesh.Trimesh(VERTICES, FACES), trimesh.Trimesh(VERTICES + 3, FACES)])
    scene.export(path)
    assert TangentBundle.from_mesh(path).sorted_graph.num_components == 2
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DamagedFileError, match="GLB mesh"):
        TangentBundle.from_mesh(path)


VTP = """<?xml version="1.0"?>
<VTKFile type="PolyData" version="0.1" byte_order="LittleEndian">
<PolyData><Piece NumberOfPoints="4" NumberOfVerts="1" NumberOfLines="0" NumberOfStrips="0"
NumberOfPolys="1">
<PointData Vectors="flow"><DataArray type="Float64" Name="flow" NumberOfComponents="3"
format="ascii">1 0 0 1 0 0 1 0 0 1 0 0</DataArray></PointData>
<CellData><DataArray type="Float64" Name="w" format="ascii">5 7</DataArray></CellData>
<Points><DataArray type="Float64" NumberOfComponents="3" format="ascii">
0 0 0 1 0 0 1 1 0 0 1 0</DataArray></Points>
<Verts><DataArray type="Int64" Name="connectivity" format="ascii">0</DataArray>
<DataArray type="Int64" Name="offsets" format="ascii">1</DataArray></Verts>
<Lines/>
<Polys><DataArray type="Int64" Name="connectivity" format="ascii">0 1 2 3</DataArray>
<DataArray type="Int64" Name="offsets" format="ascii">4</DataArray></Polys>
</Piece></PolyData></VTKFile>
"""


def test_vtp_files(tmp_path):
    """The polygons of a file, without its points and lines."""
    path = tmp_path / "square.vtp"
    path.write_text(VTP)
    assert read_mesh(path).faces.tolist() == [[0, 1, 2], [0, 2, 3]]
    path.write_text(VTP.replace('NumberOfPolys="1"', 'NumberOfPolys="100000000000"'))
    with pytest.raises(DamagedFileError, match="100000000000 polygons"):
        read_mesh(path)
    path.write_text(VTP.replace('NumberOfPolys="1"', ""))
    with pytest.raises(DamagedFileError, match="0 pieces"):
        read_mesh(path)


@pytest.mark.parametrize("encoding", ["ascii", "binary", "raw"])
def test_vtp_files_of_pyvista(encoding, tmp_path):
    pyvista = pytest.importorskip("pyvista")
    from vtkmodules.vtkIOXML import vtkXMLPolyDataWriter

    writer = vtkXMLPolyDataWriter()
    writer.SetFileName(str(tmp_path / "mesh.vtp"))
    writer.SetInputData(pyvista.PolyData.from_regular_faces(VERTICES, FACES))
    if encoding == "ascii":
        writer.SetDataModeToAscii()
    elif encoding == "binary":
        writer.SetDataModeToBinary()
    else:
        writer.SetDataModeToAppended()
        writer.EncodeAppendedDataOff()
    writer.Write()
    np.testing.assert_array_equal(read_mesh(tmp_path / "mesh.vtp").faces, FACES)


# Vertices at one place.


def torn():
    """A sphere whose triangles have vertices of their own."""
    return VERTICES[FACES].reshape(-1, 3), np.arange(FACES.size).reshape(-1, 3)


def test_vertices_at_one_place_are_merged():
    merged = merge_vertices(*torn())
    bundle = TangentBundle.from_mesh(merged)
    assert bundle.num_points == len(VERTICES) and bundle.weights.mesh.boundary == 0
    np.testing.assert_array_equal(merged.vertices, torn()[0][merged.origin])


@pytest.mark.parametrize("make", [TangentBundle.from_mesh, TangentBundle.scalar_from_mesh])
def test_seams_are_warned_of(make):
    with pytest.warns(DuplicatePointsWarning, match="198. .*merge_vertices"):
        make(*torn())
    make(Triangles(*torn(), is_cut=True))  # meant to be so
    vertices, faces = fan()
    vertices[3:5] = vertices[2] + [[0.1, 0, 0], [0.2, 0, 0]]
    TangentBundle.scalar_from_mesh(vertices, faces)


def test_triangles_whose_corners_are_merged_are_left_out():
    vertices = np.concatenate([SQUARE, SQUARE[:1]])
    assert merge_vertices(vertices, [[0, 1, 2], [0, 4, 3]]).faces.tolist() == [[0, 1, 2]]


# Cutting.


def assert_cut(vertices, faces):
    """The same triangles, that form oriented surfaces."""
    cut = cut_sheets(vertices, faces)
    np.testing.assert_array_equal(np.sort(cut.origin[cut.faces]), np.sort(faces))
    np.testing.assert_array_equal(cut.vertices, vertices[cut.origin])
    used = np.unique(faces)
    np.testing.assert_array_equal(cut.origin[: len(used)], used)
    try:
        bundle = TangentBundle.from_mesh(cut)
    except RankDeficientError as error:  # the two sides of one triangle
        assert "no area or cancel" in str(error)
    else:
        laplacian = bundle.laplacian()
        x = np.random.default_rng(0).normal(size=(len(cut.vertices), 2, 1))
        assert float(laplacian.inner(x, laplacian @ x).sum()) <= 1e-9
    return cut


@pytest.mark.parametrize("name", MESHES)
def test_every_mesh_can_be_cut(name):
    assert_cut(*MESHES[name])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40, 1000))
def test_every_random_mesh_can_be_cut(seed):
    assert_cut(*random_triangles(seed))


def test_where_meshes_are_cut():
    vertices, faces = fan()
    with pytest.raises(NotManifoldError, match=r"cut_sheets.*scalar_from_mesh") as caught:
        TangentBundle.from_mesh(vertices, faces)
    assert caught.value.edges == ((0, 1),)
    assert len(assert_cut(vertices, faces).vertices) == 5 * 3
    band, triangles = moebius()
    with pytest.raises(NotManifoldError, match="not orientable") as caught:
        TangentBundle.from_mesh(band, triangles)
    assert caught.value.edges
    assert len(assert_cut(band, triangles).vertices) == len(band) + 2
    with pytest.raises(NotManifoldError) as caught:
        TangentBundle.from_mesh(*random_triangles(9))
    assert len(caught.value.edges) > 1
    assert f"{len(caught.value.edges)} edges (from vertex" in str(caught.value)


def test_a_surface_stays_as_it_is():
    cut = cut_sheets(VERTICES, FACES)
    np.testing.assert_array_equal(cut.vertices, VERTICES)
    np.testing.assert_array_equal(cut.faces, FACES)
    np.testing.assert_array_equal(cut.origin, np.arange(len(VERTICES)))


def test_functions_and_fields_of_a_cut_mesh():
    """Fields on the pages of a book do not meet; functions do."""
    vertices, faces = fan()
    cut = cut_sheets(vertices, faces)
    fields = TangentBundle.from_mesh(cut)
    assert fields.sorted_graph.num_components == len(faces)
    functions = TangentBundle.scalar_from_mesh(vertices, faces)
    assert functions.sorted_graph.num_components == 1
    values = np.arange(7.0)[:, None, None]
    assert (functions.laplacian() @ values)[cut.origin].shape == (15, 1, 1)
