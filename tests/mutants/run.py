"""Breaks the mechanism of each invariant once, in a copy, and shows which test notices.

Each `*.patch` here begins with `# invariant: N` (or none), `# what: a sentence`, `# tests: paths, node ids`, then a diff.
Prints a table and `N killed, M survived`; exits with 1 if a mutant survives, no longer applies, or the tests fail without it.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from acuse.embedded import EmbeddedPair

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
ROOMS = ("service", "relay", "adapters", "migrations")
LONGEST_SECONDS = 300


@dataclass(frozen=True)
class Mutant:
    """One patch with what it breaks and who should notice."""

    file: Path
    invariant: str
    what: str
    tests: tuple[str, ...]


def read(file: Path) -> Mutant:
    """Read the head of a patch. Raises `SystemExit` naming the line that is missing."""
    head: dict[str, str] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.startswith("# "):
            break
        word, _, value = line[2:].partition(":")
        head[word.strip()] = f"{head.get(word.strip(), '')} {value.strip()}".strip()
    for word in ("invariant", "what", "tests"):
        if not head.get(word):
            sys.exit(f"{file.name}: its head has no line '# {word}: …'")
    return Mutant(file, head["invariant"], head["what"], tuple(head["tests"].split()))


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
    environment = {**os.environ, **servers, "PYTHONPATH": os.pathsep.join(str(tree / room) for room in ROOMS)}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", *tests],
            cwd=tree,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LONGEST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 1, "(took too long)"
    failed = [line.split(" ")[1] for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    first = failed[0] if failed else done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr[-300:]
    return done.returncode, first


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


def judge(mutant: Mutant, where: dict[str, str]) -> tuple[str, str]:
    """Say whether a mutant is killed, survives or does not apply, and who noticed."""
    with tempfile.TemporaryDirectory(prefix="acuse-mutant-") as folder:
        tree = Path(folder)
        copy_tree(tree)
        if not applies(tree, mutant.file):
            return "does not apply", ""
        code, first = run_tests(tree, mutant.tests, where)
    # 1: tests failed. Everything else (a collection error, no tests) shows nothing about the mechanism.
    return ("killed", first) if code == 1 else ("SURVIVED", first)


def main() -> int:
    """Run every mutant, or those whose file names contain a word."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="only patches whose names contain one of these")
    words = parser.parse_args().words
    mutants = [read(file) for file in sorted(HERE.glob("*.patch")) if not words or any(word in file.name for word in words)]
    killed = 0
    with servers() as where:
        wanted = tuple(sorted({test for mutant in mutants for test in mutant.tests}))
        code, first = run_tests(ROOT, wanted, where)
        if code != 0:
            print(f"the tests fail without any mutant: {first}")
            return 1
        print(f"{'invariant':9}  {'verdict':14}  {'seconds':>7}  mutant")
        for mutant in mutants:
            began = time.monotonic()
            verdict, first = judge(mutant, where)
            killed += verdict == "killed"
            print(f"{mutant.invariant:9}  {verdict:14}  {time.monotonic() - began:7.1f}  {mutant.file.stem}: {mutant.what}")
            print(f"{'':36}noticed by {first}" if verdict == "killed" else f"{'':36}{first}", flush=True)
    print(f"{killed} killed, {len(mutants) - killed} survived")
    return 0 if killed == len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main())
