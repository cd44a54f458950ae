"""Known data sets: found where they are said to be looked for, checked, and downloaded over bad lines."""

import gzip
import hashlib
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import fadewise as fw
from fadewise.data import sources
from fadewise.data.sources import Checked, DataSet, File, Release
from tests.data.files import shared

CONTENT = bytes(range(256)) * 40_000  # 10 MB
MD5 = hashlib.md5(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves CONTENT, as badly as it is told to."""

    daemon_threads = True
    ranges = True
    content = CONTENT
    cut_after: int | None = None
    """Every answer ends after so many bytes, whatever it promised."""
    errors: list[int]
    """The next answers are these errors."""
    asked: list[str | None]
    """The Range of each request."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.asked.append(wanted)
        if self.server.errors:
            self.send_error(self.server.errors.pop(0))
            return
        content, start = self.server.content, 0
        if wanted and self.server.ranges:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(content)}")
                self.end_headers()
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        end = None if self.server.cut_after is None else start + self.server.cut_after
        self.wfile.write(content[start:end])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as running:
        running.errors, running.asked = [], []
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        publish(monkeypatch, f"http://127.0.0.1:{running.server_port}/data.tar.gz")
        yield running
        running.shutdown()
        thread.join()


def publish(monkeypatch: pytest.MonkeyPatch, url: str, md5: str | None = MD5, name: str = "data.tar.gz") -> None:
    """A data set that is one file, to be downloaded from there."""
    file = File(name, md5, url=url)
    archive = Release("binary", ("thing",), (name,), archive=True, files=(file,))
    monkeypatch.setitem(sources.DATA_SETS, "thing", DataSet("A thing", (archive,), (file,)))
    monkeypatch.setattr(sources, "_PAUSE_S", 0.0)
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)


def part() -> Path:
    path = sources.downloads() / "thing" / "data.tar.gz.part"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def arrived() -> bool:
    path = sources.downloads() / "thing" / "data.tar.gz"
    return path.read_bytes() == CONTENT and os.listdir(path.parent) == [path.name]


def refused() -> str:
    with pytest.raises(fw.FadewiseError) as raised:
        sources.fetch("thing")
    said = str(raised.value)
    assert "\n" not in said
    return said


def test_download(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    folder = sources.fetch("thing", lambda *state: seen.append(state))
    assert folder == tmp_path / "cache" / "downloads" / "thing"
    assert arrived()
    assert seen[0] == ("data.tar.gz", 0, len(CONTENT))
    assert seen[-1] == ("data.tar.gz", len(CONTENT), len(CONTENT))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    assert sources.located("thing") == folder / "data.tar.gz"
    sources.fetch("thing")
    assert server.asked == [None]  # what is there is not downloaded again


@pytest.mark.parametrize("ranges", [True, False])
def test_an_interrupted_download_goes_on(server: Server, ranges: bool) -> None:
    server.ranges = ranges
    part().write_bytes(CONTENT[:4_000_000])
    seen: list[int] = []
    sources.fetch("thing", lambda _, done, total: seen.append(done))
    assert arrived()
    assert server.asked == ["bytes=4000000-"]
    assert seen[0] == (4_000_000 if ranges else 0)


def test_transfers_that_break_off_go_on_by_themselves(server: Server) -> None:
    server.cut_after = 3_000_000
    sources.fetch("thing")
    assert arrived()
    assert server.asked == [None, "bytes=3000000-", "bytes=6000000-", "bytes=9000000-"]


def test_a_transfer_that_never_gets_further_is_given_up_and_kept(server: Server) -> None:
    server.cut_after, server.ranges = 3_000_000, False
    url = sources.DATA_SETS["thing"].fetched[0].url
    assert refused() == (
        f"{url} cannot be downloaded (the transfer ended after 3000000 of 10240000 bytes); try again later, or "
        f"download it elsewhere and put it, as data.tar.gz, into the folder {part().parent}"
    )
    assert part().read_bytes() == CONTENT[:3_000_000]
    server.cut_after, server.ranges = None, True
    sources.fetch("thing")
    assert arrived()


def test_a_wrong_checksum(server: Server) -> None:
    server.content = CONTENT[:-1] + b"x"
    found = hashlib.md5(server.content).hexdigest()
    url = sources.DATA_SETS["thing"].fetched[0].url
    assert refused() == f"{url} has the wrong checksum: expected {MD5}, found {found}; it was removed"
    assert os.listdir(part().parent) == []


def test_a_part_of_another_file_is_dropped(server: Server) -> None:
    part().write_bytes(CONTENT + b"more")
    sources.fetch("thing")
    assert arrived()
    assert server.asked == [f"bytes={len(CONTENT) + 4}-", None]


def test_a_part_that_is_all_of_it_is_not_downloaded_again(server: Server) -> None:
    part().write_bytes(CONTENT)
    sources.fetch("thing")
    assert arrived()
    assert server.asked == [f"bytes={len(CONTENT)}-"]


def test_a_file_that_is_wrong_is_downloaded_again(server: Server) -> None:
    part().with_suffix("").write_bytes(b"something else")
    sources.fetch("thing")
    assert arrived()


def test_a_server_that_is_busy_is_asked_again(server: Server) -> None:
    server.errors = [503, 500]
    sources.fetch("thing")
    assert arrived()


def test_a_file_that_is_no_longer_there(server: Server) -> None:
    server.errors = [404, 404]
    assert "cannot be downloaded (HTTP 404 Not Found); try again later, or download it elsewhere" in refused()
    assert len(server.asked) == 1


def test_parquet_that_is_none(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"http://127.0.0.1:{server.server_port}/a"
    publish(monkeypatch, url, None, "a.parquet")
    server.content = b"<html>sign in</html>"
    assert refused() == f"{url} is not parquet, or was cut off; it was removed"
    server.content = b"PAR1 something PAR1"
    sources.fetch("thing")
    assert (sources.downloads() / "thing" / "a.parquet").read_bytes() == server.content


def test_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as closed:
        port = closed.server_port
    publish(monkeypatch, f"http://127.0.0.1:{port}/data.tar.gz")
    said = refused()
    assert said.startswith(f"http://127.0.0.1:{port}/data.tar.gz cannot be downloaded (")
    assert said.endswith(f"put it, as data.tar.gz, into the folder {part().parent}")


def test_a_folder_that_cannot_be_written(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FADEWISE_CACHE", str(tmp_path / "file"))
    assert refused() == (
        f"the folder {tmp_path}/file/downloads/thing cannot be written: Not a directory; "
        "set FADEWISE_CACHE to one that can"
    )


def test_what_cannot_be_downloaded(tmp_path: Path) -> None:
    with pytest.raises(fw.FadewiseError) as raised:
        sources.fetch("mnist-by-writer")
    assert str(raised.value) == (
        "the data set mnist-by-writer cannot be downloaded; it has no download: put its files into "
        f"{tmp_path}/cache/downloads/mnist-by-writer, or set FADEWISE_DATA to the folder that does"
    )
    with pytest.raises(fw.FadewiseError) as raised:
        sources.fetch("imagenet")
    assert str(raised.value) == "the data set is 'imagenet'; it must be one of cifar10, femnist, mnist-by-writer"


def make(path: Path, content: bytes = b"") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("name", "layout", "file", "found"),
    [
        ("cifar10", None, "data_batch_1.bin", ""),
        ("cifar10", None, "cifar-10-batches-bin/data_batch_3.bin", "cifar-10-batches-bin"),
        ("cifar10", None, "cifar-10-batches-py/data_batch_3", "cifar-10-batches-py"),
        ("cifar10", None, "cifar-10-binary.tar.gz", "cifar-10-binary.tar.gz"),
        ("cifar10", None, "cifar10/cifar-10-python.tar.gz", "cifar10/cifar-10-python.tar.gz"),
        ("femnist", "parquet", "femnist/train-00000-of-00003.parquet", "femnist"),
        ("femnist", "leaf", "leaf-femnist-28-writers/test/a.json", "leaf-femnist-28-writers"),
        ("femnist", "leaf", "femnist/a.json", "femnist"),
        ("mnist-by-writer", None, "mnist-by-writer/a.parquet", "mnist-by-writer"),
    ],
)
def test_where_data_sets_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, layout: str | None, file: str, found: str
) -> None:
    """In FADEWISE_DATA before ./data, and there before the downloads."""
    assert {one.name: one.found for one in sources.listed()}[name] is None
    make(sources.downloads() / file)
    assert sources.located(name, layout) == sources.downloads() / found
    make(tmp_path / "data" / file)
    assert sources.located(name, layout) == Path("data") / found
    make(tmp_path / "mine" / file)
    monkeypatch.setenv("FADEWISE_DATA", str(tmp_path / "mine"))
    assert sources.located(name, layout) == tmp_path / "mine" / found
    assert {one.name: one.found for one in sources.listed()}[name] == tmp_path / "mine" / found
    folder = tmp_path / "mine" / found if (tmp_path / "mine" / found).is_dir() else (tmp_path / "mine" / file).parent
    monkeypatch.setenv("FADEWISE_DATA", str(folder))  # the folder itself
    assert sources.located(name, layout) == tmp_path / "mine" / found


def test_other_files_are_no_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in (
        "a.json",
        "b.parquet",
        "other/c.parquet",
        "leaf-femnist/readme.md",
        "cifar-10-batches-bin/readme.html",
    ):
        make(tmp_path / "mine" / file)
    monkeypatch.setenv("FADEWISE_DATA", str(tmp_path / "mine"))
    assert [one.found for one in sources.listed()] == [None, None, None]
    with pytest.raises(fw.FadewiseError) as raised:
        sources.located("femnist")
    assert str(raised.value) == (
        f"the data set femnist was not found in FADEWISE_DATA ({tmp_path}/mine), data or {sources.downloads()}; "
        "`fadewise data fetch femnist` gets it, or set FADEWISE_DATA to the folder that has it"
    )


def test_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "data" / "thing"
    whole = gzip.compress(CONTENT)
    good, wrong, short, cut, unknown = b"good", b"evil", b"goo", whole[: len(whole) // 2], b"PAR1PAR1"
    md5 = hashlib.md5(good).hexdigest()
    files = (
        File("good", md5, 4),
        File("wrong", md5, 4),
        File("short", md5, 4),
        File("missing", md5, 4),
        File("cut.tar.gz", md5),
        File("wrong.tar.gz", md5),
        File("unknown.parquet"),
        File("cut.parquet"),
    )
    release = Release("binary", ("thing",), ("*",), files=files)
    monkeypatch.setitem(sources.DATA_SETS, "thing", DataSet("A thing", (release,)))
    contents = (good, wrong, short, None, cut, whole, unknown, unknown[:-1])
    for file, content in zip(files, contents, strict=True):
        if content is not None:
            make(folder / file.name, content)
    found = [Checked(one.path.absolute(), one.state, one.detail) for one in sources.checked("thing")]
    md5s = [hashlib.md5(content).hexdigest() for content in (wrong, whole)]
    assert found == [
        Checked(folder / "good", "ok"),
        Checked(folder / "wrong", "wrong checksum", f"expected {md5}, found {md5s[0]}"),
        Checked(folder / "short", "truncated", "3 of 4 bytes"),
        Checked(folder / "missing", "missing"),
        Checked(folder / "cut.tar.gz", "truncated", f"{len(cut)} bytes, without gzip's end"),
        Checked(folder / "wrong.tar.gz", "wrong checksum", f"expected {md5}, found {md5s[1]}"),
        Checked(folder / "unknown.parquet", "no published checksum"),
        Checked(folder / "cut.parquet", "truncated", "7 bytes, without parquet's end"),
    ]


def test_checked_says_which_files_of_a_download_are_missing(tmp_path: Path) -> None:
    make(tmp_path / "data" / "femnist" / "train-00001-of-00003.parquet", b"PAR1PAR1")
    assert [(one.path.name, one.state) for one in sources.checked("femnist")] == [
        ("train-00000-of-00003.parquet", "missing"),
        ("train-00001-of-00003.parquet", "no published checksum"),
        ("train-00002-of-00003.parquet", "missing"),
    ]


def test_checked_of_what_is_not_there() -> None:
    with pytest.raises(fw.FadewiseError, match="the data set cifar10 was not found in FADEWISE_DATA"):
        sources.checked("cifar10")


def test_the_real_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FADEWISE_DATA", str(shared("cifar-10-batches-bin").parent))
    assert [one.state for one in sources.checked("cifar10")] == ["ok"] * 6
    assert {one.state for one in sources.checked("mnist-by-writer")} == {"no published checksum"}
    assert {one.state for one in sources.checked("femnist")} == {"no published checksum"}
