"""Breaks the mechanism of each invariant once, in a copy, and shows which test notices.

Each `*.patch` here begins with `# invariant: N` (or none), `# what: a sentence`, and who should notice: `# tests: paths, node
ids`, or `# cells: names` of the fault matrix, one a line; then a diff.
Prints a table and `N killed, M survived`; exits with 1 if a mutant survives, no longer applies, or the tests fail without it.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from acuse.embedded import EmbeddedPair

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
ROOMS = ("service", "relay", "adapters", "migrations")
LONGEST_SECONDS = 600
CELLS_AT_ONCE = 3
"""Mutants whose cells are struck at once: each on servers of its own, and most of it is waiting."""


@dataclass(frozen=True)
class Mutant:
    """One patch with what it breaks and who should notice: tests, or cells of the fault matrix."""

    file: Path
    invariant: str
    what: str
    tests: tuple[str, ...]
    cells: tuple[str, ...]


def read(file: Path) -> Mutant:
    """Read the head of a patch. Raises `SystemExit` naming the line that is missing."""
    head: dict[str, list[str]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.startswith("# "):
            break
        word, _, value = line[2:].partition(":")
        head.setdefault(word.strip(), []).append(value.strip())
    for words in (("invariant",), ("what",), ("tests", "cells")):
        if not any(filter(None, head.get(word, [])) for word in words):
            sys.exit(f"{file.name}: its head has no line '# {' or '.join(words)}: …'")
    tests = tuple(" ".join(head.get("tests", [])).split())
    return Mutant(file, " ".join(head["invariant"]), " ".join(head["what"]), tests, tuple(head.get("cells", [])))


def copy_tree(target: Path) -> None:
    """Copy what git tracks or would track."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout
    for name in filter(None, listed.split("\0")):
        source = ROOT / name
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)


def run_tests(tree: Path, tests: tuple[str, ...], servers: dict[str, str]) -> tuple[int, str]:
    """Run tests against the packages of a tree. Returns pytest's exit code and the first failed test."""
    try:
        done = run(tree, [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", *tests], servers)
    except subprocess.TimeoutExpired:
        return 1, "(took too long)"
    failed = [line.split(" ")[1] for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    first = failed[0] if failed else done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr[-300:]
    return done.returncode, first


def run_cells(tree: Path, cells: tuple[str, ...]) -> tuple[int, str]:
    """Strike cells of the matrix with the packages of a tree, on servers of their own. Returns 1 and the wrong ones, or 0."""
    with tempfile.TemporaryDirectory(prefix="acuse-cells-") as folder:
        report = Path(folder) / "report.json"
        filters = [word for cell in cells for word in ("--filter", cell)]
        try:
            done = run(tree, [sys.executable, "-m", "acuse", "faults", "--seed", "1", "--json", str(report), *filters], {})
        except subprocess.TimeoutExpired:
            return 2, "(took too long)"
        if not report.exists():
            return 2, done.stderr.strip()[-300:]
        results = json.loads(report.read_text(encoding="utf-8"))["results"]
    wrong = [f"{one['cell']}: {one['verdict']}" for one in results if one["verdict"] != "right"]
    return int(bool(wrong)), "; ".join(wrong) or f"{len(results)} cells right"


def run(tree: Path, command: list[str], environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run a command in a tree with its packages. Raises `subprocess.TimeoutExpired`."""
    packages = os.pathsep.join(str(tree / room) for room in ROOMS)
    return subprocess.run(
        command,
        cwd=tree,
        env={**os.environ, **environment, "PYTHONPATH": packages},
        capture_output=True,
        text=True,
        timeout=LONGEST_SECONDS,
        check=False,
    )


def notice(tree: Path, mutants: list[Mutant], where: dict[str, str]) -> tuple[int, str]:
    """Run what should notice these mutants. Returns 0 if nothing fails, 1 and the first that does, else another number."""
    tests = tuple(sorted({test for mutant in mutants for test in mutant.tests}))
    cells = tuple(sorted({cell for mutant in mutants for cell in mutant.cells}))
    code, first = run_tests(tree, tests, where) if tests else (0, "no tests")
    if code == 0 and cells:
        code, first = run_cells(tree, cells)
    return code, first


def applies(tree: Path, patch: Path) -> bool:
    """Apply a patch to a tree."""
    return subprocess.run(["git", "apply", "--whitespace=nowarn", str(patch)], cwd=tree, check=False).returncode == 0


@contextmanager
def servers() -> Iterator[dict[str, str]]:
    """Yield the servers for all runs: those of the environment, else one embedded pair."""
    names = ("ACUSE_TEST_DATABASE_URL", "ACUSE_TEST_REDIS_URL")
    if all(os.environ.get(name) for name in names):
        yield {name: os.environ[name] for name in names}
        return
    with EmbeddedPair.temporary(durable=False) as pair:
        yield dict(zip(names, (pair.database_url, pair.redis_url), strict=True))


@dataclass(frozen=True)
class Verdict:
    """`killed`, `SURVIVED` or `does not apply`, who noticed first, and how long that took."""

    word: str
    first: str
    seconds: float


def judge(mutant: Mutant, where: dict[str, str]) -> Verdict:
    """Say whether a mutant is killed, survives or does not apply, and who noticed."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="acuse-mutant-") as folder:
        tree = Path(folder)
        copy_tree(tree)
        if not applies(tree, mutant.file):
            return Verdict("does not apply", "", time.monotonic() - began)
        code, first = notice(tree, [mutant], where)
    # 1: tests failed, or cells were wrong. Everything else (a collection error, no tests) shows nothing about the mechanism.
    return Verdict("killed" if code == 1 else "SURVIVED", first, time.monotonic() - began)


def main() -> int:
    """Run every mutant, or those whose file names contain a word."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="only patches whose names contain one of these")
    words = parser.parse_args().words
    mutants = [read(file) for file in sorted(HERE.glob("*.patch")) if not words or any(word in file.name for word in words)]
    killed = 0
    with servers() as where, ThreadPoolExecutor(CELLS_AT_ONCE) as cells:
        code, first = notice(ROOT, mutants, where)
        if code != 0:
            print(f"what should notice them fails without any mutant: {first}")
            return 1
        print(f"{'invariant':9}  {'verdict':14}  {'seconds':>7}  mutant")
        early = {mutant: cells.submit(judge, mutant, where) for mutant in mutants if mutant.cells}
        for mutant in mutants:
            verdict = early[mutant].result() if mutant in early else judge(mutant, where)
            killed += verdict.word == "killed"
            print(f"{mutant.invariant:9}  {verdict.word:14}  {verdict.seconds:7.1f}  {mutant.file.stem}: {mutant.what}")
            print(f"{'':36}{'noticed by ' if verdict.word == 'killed' else ''}{verdict.first}", flush=True)
    print(f"{killed} killed, {len(mutants) - killed} survived")
    return 0 if killed == len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main())
