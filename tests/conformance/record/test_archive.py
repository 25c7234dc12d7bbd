"""Archives of a run: the same bytes for the same files, and nothing bad from anybody else's."""

from __future__ import annotations

import hashlib
import io
import stat
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from calling import call
from hypothesis import given, settings
from hypothesis import strategies as st

from npu_assay.conformance.record import archive
from npu_assay.conformance.record.archive import MEMBERS as ALL
from npu_assay.conformance.record.archive import archive_bytes, read_archive
from npu_assay.conformance.record.certificate import Selection, certificate_text, read_certificate
from npu_assay.conformance.record.names import (
    ATTESTATION,
    CERTIFICATE,
    FUZZ,
    RESULTS,
    STANDARD,
    TABLE,
    Contents,
    PackageError,
)
from npu_assay.conformance.record.read import read_folder
from npu_assay.conformance.verify.verification import verify
from tests.conformance.record.test_package import NEG, TODAY, run

OPTIONAL = (FUZZ, ATTESTATION, *STANDARD.values())
MEMBERS = tuple(name for name in ALL if name not in OPTIONAL)  # of a run without random programs
SMALL = {name: f"{name}\n".encode() * 3 for name in MEMBERS}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("assay") / "out"
    run(made)
    return made


def read(tmp_path: Path, data: bytes) -> Contents:
    path = tmp_path / "a.zip"
    path.write_bytes(data)
    return read_archive(path)


# ------------------------------------------------------------------------------------ ours


def test_a_folder_becomes_one_archive_that_is_certified(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.zip"
    packed = call("package", folder, "--out", out)
    assert packed.exit_code == 0 and packed.output.endswith("\ncertified\n")
    assert verify(out, TODAY).certified
    found = call("verify", out)
    assert found.exit_code == 0 and found.output.endswith("a.zip: certified, self-declared\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zip"]


def test_the_same_files_give_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert call("package", folder, "--out", tmp_path / name).exit_code == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    with zipfile.ZipFile(tmp_path / "a") as packed:
        assert packed.namelist() == sorted(MEMBERS)
        assert {info.date_time for info in packed.infolist()} == {archive.TIME}
        assert {name: packed.read(name) for name in MEMBERS} == {n: (folder / n).read_bytes() for n in MEMBERS}


def test_what_does_not_certify_is_packed_and_says_so(tmp_path: Path) -> None:
    run(tmp_path / "out", selection=Selection(NEG, True))
    packed = call("package", tmp_path / "out", "--out", tmp_path / "a.zip")
    assert packed.exit_code == 0 and packed.output.endswith("\nnot certified\n")
    found = call("verify", tmp_path / "a.zip")
    assert found.exit_code == 1 and "only a selection of the table's cases was run (--smoke -k" in found.output


@pytest.mark.parametrize("name", ["certificate.json", "a.zip", "sub/../results.jsonl"])
def test_an_archive_does_not_stand_in_its_folder(name: str, folder: Path) -> None:
    (folder / "sub").mkdir(exist_ok=True)
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    found = call("package", folder, "--out", folder / name)
    assert found.exit_code == 2 and f"inside {folder}, whose files it is made of; expected --out FILE" in found.output
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_a_folder_that_contradicts_itself_is_not_packed(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in MEMBERS:
        (copy / name).write_bytes((folder / name).read_bytes().replace(b"accept", b"reject", name == RESULTS))
    found = call("package", copy, "--out", tmp_path / "a.zip")
    assert found.exit_code == 1 and f"problem: {RESULTS} line 1" in found.output
    assert not (tmp_path / "a.zip").exists()


@pytest.mark.parametrize("name", ["nowhere", "empty", "file"])
def test_what_is_no_folder_of_a_run_is_not_packed(name: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    found = call("package", tmp_path / name, "--out", tmp_path / "a.zip")
    assert found.exit_code == 2 and found.stderr.startswith("assay: ") and len(found.stderr.splitlines()) == 1


def test_an_archive_that_cannot_be_written_says_so(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for out in (tmp_path, tmp_path / "file" / "a.zip"):
        found = call("package", folder, "--out", out)
        assert found.exit_code == 2 and len(found.stderr.splitlines()) == 1


# ------------------------------------------------------------------------------------ damaged


def test_every_byte_and_every_length_of_an_archive_matters(tmp_path: Path) -> None:
    whole = archive_bytes(SMALL)
    assert read(tmp_path, whole) == Contents(str(tmp_path / "a.zip"), SMALL)
    for place in range(len(whole)):
        for mask in (1, 0x80):
            edited = whole[:place] + bytes([whole[place] ^ mask]) + whole[place + 1 :]
            assert tells(tmp_path, edited), (place, mask)
        with pytest.raises(PackageError):
            read(tmp_path, whole[:place])


def tells(tmp_path: Path, data: bytes) -> bool:
    """Whether an archive is refused, has problems, or is known to be packed by something else."""
    try:
        found = read(tmp_path, data)
    except PackageError:
        return True
    return bool(found.problems or (found.notes and found.files == SMALL))  # of the container alone


@settings(max_examples=200, deadline=None, database=None, derandomize=True)
@given(data=st.binary(max_size=200), place=st.integers(0, 10_000), bare=st.booleans())
def test_hostile_bytes_are_one_error(
    data: bytes, place: int, bare: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    whole = archive_bytes(SMALL)
    at = place % len(whole)
    hostile = data if bare else whole[:at] + data + whole[at + len(data) :]
    try:
        found = read(tmp_path_factory.getbasetemp(), hostile)
    except PackageError as error:
        assert "\n" not in str(error)
    else:
        assert set(found.files) <= set(ALL)


def zipped(files: Mapping[str, bytes], method: int = zipfile.ZIP_STORED, mode: int = 0, comment: bytes = b"") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as made:
        made.comment = comment
        for name, data in files.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = method
            info.external_attr = mode << 16
            made.writestr(info, data)
    return out.getvalue()


def hostile() -> Iterator[tuple[str, bytes]]:
    for name in ("../x", "/etc/passwd", "a/b", "a\\b", "C:x", "", "..", "table.toml/", "x" * 3 + "\n"):
        yield "the name of a file elsewhere", zipped({**SMALL, name: b""})
    yield "a link or a device", zipped({RESULTS: b"/etc/passwd"}, mode=stat.S_IFLNK | 0o777)
    yield "a link or a device", zipped({RESULTS: b""}, mode=stat.S_IFDIR)
    yield "compressed by method 14", zipped(SMALL, zipfile.ZIP_LZMA)
    yield "bytes that unpack to", zipped({RESULTS: bytes(2**24)}, zipfile.ZIP_DEFLATED)
    yield "bytes, expected at most", zipped({TABLE: bytes(2**23 + 1)})
    yield "entries in", zipped({f"x{number}": b"" for number in range(65)})
    yield "an archive of 'assay package'", zipped(SMALL, comment=b"x")
    yield "an archive of 'assay package'", b""
    yield "an archive of 'assay package'", b"not a zip archive at all, but longer than its last record"
    yield "an archive of 'assay package'", archive_bytes(SMALL) + b"\0"
    yield "damaged", b"\0" + archive_bytes(SMALL)
    yield "encrypted", encrypted(zipped({RESULTS: b"x"}))


def encrypted(data: bytes) -> bytes:
    """The same with the flag of encryption in both records of its member."""
    local, central = data.index(b"PK\3\4") + 6, data.index(b"PK\1\2") + 8
    edited = bytearray(data)
    edited[local] |= 1
    edited[central] |= 1
    return bytes(edited)


@pytest.mark.parametrize(("message", "data"), [*hostile()], ids=[str(n) for n in range(len([*hostile()]))])
def test_a_hostile_archive_is_refused(message: str, data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(data)
    found = call("verify", path)
    assert found.exit_code == 2 and message in found.stderr and len(found.stderr.splitlines()) == 1, found.stderr
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.zip"]


def test_a_size_that_a_member_only_claims_is_not_believed(tmp_path: Path) -> None:
    """A member that unpacks to more than it says."""
    data = bytearray(zipped({RESULTS: bytes(2**20)}, zipfile.ZIP_DEFLATED))
    for place in (data.index(b"PK\3\4") + 22, data.index(b"PK\1\2") + 24):
        data[place : place + 4] = (100).to_bytes(4, "little")
    (problem,) = read(tmp_path, bytes(data)).problems
    assert problem.startswith(f"{RESULTS}: its bytes are not those that were packed")


# ------------------------------------------------------------------------------------ tampered with


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in MEMBERS}


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_tampered_archives_name_the_file(folder: Path, tmp_path: Path) -> None:
    files = contents(folder)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as twice:
        for name, data in [*files.items(), (RESULTS, b"")]:
            twice.writestr(name, data)
    tampered = {
        f"problem: {RESULTS} stands twice in the archive": out.getvalue(),
        "problem: notes.txt: not a file of a run": zipped({**files, "notes.txt": b""}),
        f"problem: {RESULTS} line 1": zipped(files | {RESULTS: files[RESULTS].replace(b"accept", b"reject", 1)}),
        **{
            f"problem: incomplete: {name}": zipped({k: v for k, v in files.items() if k != name})
            for name in MEMBERS
            if name != "certificate.json"
        },
        "problem: incomplete: ": zipped({k: v for k, v in files.items() if k != "certificate.json"}),
    }
    for problem, data in tampered.items():
        (tmp_path / "a.zip").write_bytes(data)
        found = call("verify", tmp_path / "a.zip")
        assert found.exit_code == 1 and problem in found.output, found.output


def test_an_archive_packed_by_something_else_counts_by_its_files(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(zipped(contents(folder), zipfile.ZIP_DEFLATED))
    found = verify(tmp_path / "a.zip", TODAY)
    assert found.certified and "packed by something else" in found.notes[0]


BOMBS = {
    "dots": (".".join("ab" * 15_000) + " = 1", "a key of more than 16 parts"),
    "digits": (f"a = {'8' * 5000}", "a number of more than 1000 digits"),
    "hexadecimal": (f"a = 0x{'f' * 5000}", "a number of more than 1000 digits"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_table_that_is_a_bomb_is_one_error(name: str, folder: Path, tmp_path: Path) -> None:
    """Its digests are made to fit: it is the table that the certificate names."""
    bomb, message = BOMBS[name]
    files = {**read_folder(folder).files, TABLE: f"{bomb}\n".encode()}
    certificate = read_certificate(files[CERTIFICATE].decode())
    named = replace(certificate, table={**certificate.table, "sha256": hashlib.sha256(files[TABLE]).hexdigest()})
    (tmp_path / "a.zip").write_bytes(archive_bytes({**files, CERTIFICATE: certificate_text(named).encode()}))
    found = call("verify", tmp_path / "a.zip")
    assert found.exit_code == 2 and found.output.count("\n") == 1
    assert f"a.zip: not a table that a run writes: table.toml: {message}" in found.output
