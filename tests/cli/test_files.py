"""Replacing a directory as a whole: what is seen under its name is complete, or what was there before."""

import os
import stat
from pathlib import Path

import pytest

from tests.errors import refuses
from toolkit.files import check_replaceable, move_into_parent, replacing


def fill(folder: Path, text: str) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "file.txt").write_text(text)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_directory(tmp_path: Path) -> None:
    with replacing(tmp_path / "deep" / "out") as folder:
        fill(folder, "new")
        assert not (tmp_path / "deep" / "out").exists()
    assert (tmp_path / "deep" / "out" / "sub" / "file.txt").read_text() == "new"
    assert names(tmp_path / "deep") == ["out"]


def test_permissions_are_those_of_an_ordinary_directory(tmp_path: Path) -> None:
    (tmp_path / "ordinary").mkdir()
    with replacing(tmp_path / "out"):
        pass
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ordinary", "out")}
    assert len(modes) == 1


def test_an_existing_one_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with refuses("exists", "`force`"), replacing(tmp_path / "out"):
        pytest.fail("the block must not run")
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("kind", ["directory", "file", "link"])
def test_force_replaces_as_a_whole(tmp_path: Path, kind: str) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    elsewhere.mkdir()
    fill(elsewhere, "kept")
    if kind == "directory":
        out.mkdir()
        (out / "old.txt").write_text("old")
    elif kind == "file":
        out.write_text("old")
    else:
        out.symlink_to(elsewhere)
    with replacing(out, force=True) as folder:
        fill(folder, "new")
    assert names(out) == ["sub"]
    assert not out.is_symlink()
    assert names(tmp_path) == ["elsewhere", "out"]
    assert (elsewhere / "sub" / "file.txt").read_text() == "kept"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("existing", [False, True])
def test_nothing_is_left_when_interrupted(tmp_path: Path, error: type[BaseException], existing: bool) -> None:
    out = tmp_path / "made" / "out"
    if existing:
        out.mkdir(parents=True)
        (out / "old.txt").write_text("old")
    with pytest.raises(error), replacing(out, force=True) as folder:  # noqa: PT012
        fill(folder, "half")
        raise error
    if existing:
        assert names(out) == ["old.txt"]
        assert names(out.parent) == ["out"]
    else:
        assert names(tmp_path) == []


def test_what_was_there_comes_back_when_renaming_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "old.txt").write_text("old")
    rename = Path.rename

    def fails_for_the_new(self: Path, target: Path) -> Path:
        if self.suffix == ".part":
            raise OSError("disk gone")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fails_for_the_new)
    monkeypatch.setattr("toolkit.files._exchange_names", lambda *_: False)  # as where names can't change places
    with pytest.raises(OSError, match="gone"), replacing(out, force=True) as folder:
        fill(folder, "new")
    assert names(out) == ["old.txt"]
    assert names(tmp_path) == ["out"]


def test_one_that_appears_meanwhile_is_kept(tmp_path: Path) -> None:
    with refuses("exists", "`force`"), replacing(tmp_path / "out") as folder:
        fill(folder, "ours")
        (tmp_path / "out").mkdir()
    assert names(tmp_path) == ["out"]
    assert names(tmp_path / "out") == []


@pytest.mark.parametrize("where", [".", "..", "../..", "/", "inner/.."])
def test_the_working_directory_and_above_are_safe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    (tmp_path / "a" / "b" / "inner").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    with refuses("write", f"`{where}`"), replacing(where, force=True):
        pytest.fail("the block must not run")


def test_a_link_to_the_working_directory_is_safe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    with refuses("write", "link`"):
        check_replaceable(tmp_path / "link", force=True)


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with refuses("write", "out`"), replacing(tmp_path / "file" / "out"):
        pytest.fail("the block must not run")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_no_permission(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    with refuses("write", "out`"), replacing(tmp_path / "locked" / "out"):
        pytest.fail("the block must not run")


def test_hoist(tmp_path: Path) -> None:
    with replacing(tmp_path / "out") as folder:
        (folder / "log").mkdir()
        fill(folder / "log", "x")
        move_into_parent(folder / "log")
    assert names(tmp_path / "out") == ["sub"]
