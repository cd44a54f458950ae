from __future__ import annotations

from pathlib import Path

import pytest

from fadewise.files import write_whole


def test_what_was_there_stays_until_the_new_text_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "file"
    write_whole(file, "before")
    with pytest.raises(UnicodeEncodeError):
        write_whole(file, "x" * 100_000 + "\udc00")
    assert file.read_text() == "before"
    assert list(tmp_path.iterdir()) == [file]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "file")
    write_whole(link, "text")
    assert link.is_symlink()
    assert (tmp_path / "file").read_text() == "text"
