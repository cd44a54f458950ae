"""What the pages say is so: their code runs, their links lead somewhere, their skeletons are real parts."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import fadewise

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
SKELETONS = {"policies": "adding-a-policy.md", "channels": "adding-a-channel.md"}

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
IN_FILE = re.compile(r"`src/(fadewise/[\w/]+\.py)`[.:]\n\n```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
each_skeleton = pytest.mark.parametrize("package", SKELETONS)


def blocks(page: Path, language: str) -> list[str]:
    """The page's code in a language, each block on the lines that it has in the page."""
    text = page.read_text(encoding="utf-8")
    return [
        "\n" * text.count("\n", 0, match.start(2)) + match[2] for match in FENCE.finditer(text) if match[1] == language
    ]


def anchors(page: Path) -> set[str]:
    """What a page's headings are called in links."""
    headings = HEADING.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each_page
def test_code_runs_in_order(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = blocks(page, "python")
    assert code or (page == README and not page.read_text(encoding="utf-8").strip()), f"{page.name} has no code"
    # A module, and one that can be found: dataclasses look up their annotations there.
    module = ModuleType("page_" + re.sub(r"\W", "_", page.stem))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.chdir(tmp_path)
    for block in code:
        exec(compile(block, str(page), "exec"), module.__dict__)


@each_page
def test_links_lead_to_files_and_headings(page: Path) -> None:
    targets = LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    dead = []
    for target in targets:
        if re.match(r"\w+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            dead.append(target)
    assert not dead, f"{page.name} links to what is not there: {', '.join(dead)}"


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package to which the skeletons have been added as their pages say, and nothing else."""
    copy = tmp_path_factory.mktemp("extended")
    shutil.copytree(Path(fadewise.__file__).parent, copy / "fadewise", ignore=shutil.ignore_patterns("__pycache__"))
    for name in SKELETONS.values():
        steps = IN_FILE.findall((ROOT / "docs" / name).read_text(encoding="utf-8"))
        assert [language for _, language, _ in steps] == ["python", "diff"], f"{name}: a file, then an export line"
        for path, language, text in steps:
            file = copy / path
            if language == "python":
                assert not file.exists(), f"{name} adds {path}, which is there already"
                file.write_text(text, encoding="utf-8")
            else:
                file.write_text(changed(file.read_text(encoding="utf-8"), text), encoding="utf-8")
    return copy


def changed(text: str, diff: str) -> str:
    """The text with a diff's lines added where its other lines are."""
    lines = diff.splitlines(keepends=True)
    before = "".join(line[1:] for line in lines if line[0] == " ")
    assert text.count(before) == 1, f"what the page shows is not in the file once: {before}"
    assert sum(line[0] == "+" for line in lines) == 1, "an export is one line"
    return text.replace(before, "".join(line[1:] for line in lines))


def ran(extended: Path, *words: str) -> str:
    """What Python prints, with the extended package in place of the installed one."""
    environment = os.environ | {"PYTHONPATH": str(extended), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "160"}
    result = subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
    return result.stdout


def kind_of(extended: Path, package: str) -> str:
    """The kind that a page's skeleton adds: the one that only the extended package has."""
    code = f"from fadewise.{package} import {package.upper()} as parts; print(*parts)"
    (kind,) = set(ran(extended, "-c", code).split()) - set(vars(sys.modules[f"fadewise.{package}"])[package.upper()])
    return kind


CONFORMANCE = """
import sys
import fadewise, pytest

extended, package, kind = sys.argv[1:]
assert fadewise.__file__.startswith(extended), fadewise.__file__

def is_of_this_kind(item):
    return hasattr(item, "callspec") and kind in item.callspec.params.values()

class OfThisKind:
    def pytest_collection_modifyitems(self, items):
        items[:] = filter(is_of_this_kind, items)

sys.exit(pytest.main(["-p", "no:cacheprovider", f"tests/{package}/test_conformance.py"], plugins=[OfThisKind()]))
"""


@each_skeleton
def test_a_skeleton_passes_the_conformance_suite(extended: Path, package: str) -> None:
    """Exported, it is under test: the suite is run as it is, for the new kind alone."""
    said = ran(extended, "-c", CONFORMANCE, str(extended), package, kind_of(extended, package))
    passed = re.search(r"(\d+) passed", said)
    assert passed is not None, said
    assert int(passed[1]) >= 4, said
    assert not re.search(r"failed|error|skipped|xfailed", said), said


@each_skeleton
def test_a_skeletons_commands_plan(extended: Path, package: str) -> None:
    """The page's `fadewise` commands, word for word, on the extended package."""
    page = ROOT / "docs" / SKELETONS[package]
    commands = [shlex.split(line) for block in blocks(page, "sh") for line in block.split("\n") if line]
    plans = [words[1:] for words in commands if words[0] == "fadewise"]
    assert plans
    kind = kind_of(extended, package)
    for words in plans:
        assert kind in " ".join(words)
        said = ran(extended, "-c", "from fadewise.cli import main; main()", *words, "--rounds", "50", "--json")
        assert '"mean_participants": ' in said
