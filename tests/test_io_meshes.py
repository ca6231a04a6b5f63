"""Mesh files of many programs: read as what they are, repaired when asked, or refused with a
remedy."""

import meshio
import numpy as np
import pytest
from test_known_frames import icosphere
from test_mesh import moebius

from tangentbundle.errors import TangentBundleError
from tangentbundle.io import Field, Mesh, Request, read_field, write_field
from tangentbundle.io.meshes import from_meshio

POINTS = np.concatenate([np.eye(3), -np.eye(3)])
SIGNS = [(a, b, c) for a in (0, 3) for b in (1, 4) for c in (2, 5)]
FACES = np.array([(a, b, c) if (a + b + c) % 2 else (a, c, b) for a, b, c in SIGNS])
BARE = Request(needs_vectors=False)
CUBE = (
    "v 0 0 0{c}\nv 1 0 0{c}\nv 1 1 0{c}\nv 0 1 0{c}\nv 0 0 1{c}\nv 1 0 1{c}\nv 1 1 1{c}\nv 0 1 "
    "1{c}\n"
)
OBJ = {
    "colours": CUBE.format(c=" 1 0 .5") + "f 1 4 3 2\nf 5 6 7 8\n",
    "texture": CUBE.format(c="")
    + "vt 0 0\nvt 1 1\nvn 0 0 1\nf 1/1/1 4/2/1 3/1/1 2/2/1\nf 5//1 6//1 7//1 8//1\n",
    "backwards": CUBE.format(c="") + "f -8 -5 -6 -7\nf -4 -3 -2 -1\n",
    "normals": CUBE.format(c="") + "# \u00e9\n" + "vn 0 0 1\n" * 8 + "f 1 4 3 2\nf 5 6 7 8\n",
}


@pytest.mark.parametrize("name", OBJ)
def test_obj_files_of_many_kinds_are_read(name, tmp_path):
    (tmp_path / "a.obj").write_text(OBJ[name], encoding="latin-1")
    field = read_field(tmp_path / "a.obj", BARE)
    assert field.values is None and [note.problem for note in field.notes] == [
        "faces of 4 corners split into triangles: 2"
    ]
    assert np.array_equal(field.space.points[6], [1, 1, 1])
    assert {tuple(sorted(face)) for face in field.space.faces.tolist()} == {
        (0, 2, 3),
        (0, 1, 2),
        (4, 5, 6),
        (4, 6, 7),
    }


def test_data_of_polygons_is_averaged(tmp_path):
    """A pentagon and triangles: the fan of a polygon has its data."""
    angles = np.arange(5) * 0.4 * np.pi
    points = np.concatenate(
        [np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1), [[0, 0, 1.0]]]
    )
    sides = np.stack([np.arange(5), (np.arange(5) + 1) % 5, np.full(5, 5)], axis=1)
    cells = [("polygon", np.arange(5)[None, ::-1]), ("triangle", sides)]
    field = from_meshio(
        meshio.Mesh(points, cells, cell_data={"w": [np.full((k, 3), float(k)) for k in (1, 5)]})
    )
    assert len(field.space.faces) == 8 and np.allclose(field.values[0, 5], 5)
    assert ((field.values[0, :5] > 1) & (field.values[0, :5] < 5)).all()
    assert field.space.bundle().weights.mesh.boundary == 0


def test_ply_files_may_name_their_faces_vertex_index(tmp_path):
    path = tmp_path / "a.ply"
    for binary in (True, False):
        meshio.write(path, meshio.Mesh(POINTS, [("triangle", FACES)]), binary=binary)
        path.write_bytes(path.read_bytes().replace(b"vertex_indices", b"vertex_index"))
        assert np.array_equal(read_field(path, BARE).space.faces, FACES)


@pytest.mark.parametrize("suffix", ["ply", "obj", "stl", "vtk", "vtu"])
def test_cut_meshes_are_refused_with_a_remedy(suffix, tmp_path, capfd):
    path = tmp_path / f"a.{suffix}"
    meshio.write(path, meshio.Mesh(POINTS, [("triangle", FACES)]))
    path.write_bytes(path.read_bytes()[: {"obj": 90}.get(suffix, -60)])
    capfd.readouterr()
    with pytest.raises(
        TangentBundleError, match=r"mesh \(.*\)\. Write it anew, or convert it to|cut short"
    ):
        read_field(path, BARE)
    assert capfd.readouterr() == ("", "")


def test_normals_and_colours_of_obj_meshes_are_no_vectors():
    colours = np.concatenate([POINTS, np.ones((6, 3))], axis=1)
    mesh = meshio.Mesh(colours, [("triangle", FACES)], {"obj:vn": POINTS, "obj:vt": POINTS})
    field = from_meshio(mesh)
    assert field.values is None and np.array_equal(field.space.points, POINTS)


def test_vertices_as_a_cloud_need_no_surface():
    """Triangles of any orientation, or of a Moebius strip with a vertex that no triangle has, give
    the same cloud."""
    vertices, faces = icosphere(3)
    mixed = np.where(np.arange(len(faces))[:, None] % 2 == 0, faces[:, ::-1], faces)
    np.testing.assert_allclose(
        Mesh(vertices, mixed).bundle(neighbors=20).laplacian().spectrum(6)[0], 1, rtol=0.02
    )
    strip, bands = moebius()
    for space in (Mesh(strip, bands), Mesh(np.append(strip, [[0, 0, 3.0]], axis=0), bands)):
        with pytest.raises(
            TangentBundleError, match=r"Clean the mesh, or use its vertices only: neighbors=20\."
        ):
            space.bundle()
    t, s = (
        grid.ravel()
        for grid in np.meshgrid(np.linspace(0, 2 * np.pi, 80)[:-1], np.linspace(-0.3, 0.3, 9))
    )
    wide = 1 + s * np.cos(t / 2)
    dense = np.stack([wide * np.cos(t), wide * np.sin(t), s * np.sin(t / 2)], axis=1)
    assert not Mesh(dense, bands).bundle(neighbors=20).diagnose(quiet=True).orientable


@pytest.mark.parametrize("suffix", ["ply", "vtk", "npz"])
def test_vertices_at_one_place_are_merged_when_asked(suffix, tmp_path):
    """Triangles with corners of their own, and one without area, become the surface they were, with
    its vectors."""
    vertices, faces = icosphere(1)
    corners, flow = np.append(faces.ravel(), [0, 0, 1]), np.cross(vertices, [0.0, 0, 1])
    soup = Mesh(vertices[corners], np.arange(len(corners)).reshape(-1, 3))
    write_field(Field(soup, flow[corners][None]), tmp_path / f"a.{suffix}")
    with pytest.raises(
        TangentBundleError, match=r"201 of 243. Merge them with drop_duplicates=True\.$"
    ):
        read_field(tmp_path / f"a.{suffix}")
    field = read_field(tmp_path / f"a.{suffix}", Request(drop_duplicates=True))
    assert len(field.space) == len(
        vertices
    ) and "triangles left out, as their corners coincide: 1" in [
        note.problem for note in field.notes
    ]
    assert np.allclose(field.vectors[0], np.cross(field.space.points, [0, 0, 1]))
    assert field.space.bundle().weights.mesh.boundary == 0
    write_field(field, tmp_path / f"b.{suffix}")
    again = read_field(tmp_path / f"b.{suffix}")
    assert np.array_equal(again.space.faces, field.space.faces) and np.allclose(
        again.vectors, field.vectors
    )


def test_face_data_of_merged_vertices_is_averaged_over_all_their_triangles():
    normals = POINTS[FACES].sum(axis=1)
    soup = meshio.Mesh(
        POINTS[FACES].reshape(-1, 3),
        [("triangle", np.arange(24).reshape(-1, 3))],
        cell_data={"w": [normals]},
    )
    field = from_meshio(soup, Request(drop_duplicates=True))
    assert len(field.space) == 6 and np.allclose(field.vectors[0], field.space.points)
