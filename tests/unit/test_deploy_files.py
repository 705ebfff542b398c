"""What `deploy/` says must be true of the code: series, labels, settings, commands, functions, sections of the runbook.

There is no YAML parser among the dependencies, so YAML is read line by line: these files are ours and keep to a plain form.
"""

import argparse
import ast
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest

import acuse_adapters
from acuse.command.accounts import accounts
from acuse.command.approvals import approvals
from acuse.command.incidents import incidents
from acuse.command.main import Command
from acuse.command.operations import operations
from acuse.settings import Settings
from acuse_adapters.port.settings import AdapterSettings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
RUNBOOK = (DEPLOY / "runbook.md").read_text(encoding="utf-8")
RULES = (DEPLOY / "prometheus" / "rules.yml").read_text(encoding="utf-8")
DASHBOARDS = sorted((DEPLOY / "grafana" / "dashboards").glob("*.json"))
YAML_FILES = sorted([*DEPLOY.rglob("*.yml"), *DEPLOY.rglob("*.yaml")])

SERIES_SOURCES = (
    ROOT / "adapters" / "acuse_adapters" / "engine" / "counters.py",
    ROOT / "relay" / "acuse_relay" / "metrics.py",
)
SUFFIXES = {
    "Counter": ("_total",),
    "CounterMetricFamily": ("_total",),
    "Histogram": ("_bucket", "_count", "_sum"),
    "Summary": ("_count", "_sum"),
}
GAUGES = {"Gauge", "GaugeMetricFamily", "_gauge"}
PROMETHEUS_OWN_LABELS = {"le", "job", "instance"}
OF_THE_IMAGES = {"POSTGRES_USER", "POSTGRES_PASSWORD", "POSTGRES_DB", "REDISCLI_AUTH"}


def exported_series() -> dict[str, set[str]]:
    """Every series that relay and worker export, with its labels, read from the source."""
    series: dict[str, set[str]] = {}
    for source in SERIES_SOURCES:
        for call in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and call.args and isinstance(call.args[0], ast.Constant):
                kind, name = ast.unparse(call.func).rpartition(".")[2], str(call.args[0].value)
                if name.startswith("acuse_") and (kind in SUFFIXES or kind in GAUGES):
                    series |= {name + suffix: _labels(call) for suffix in SUFFIXES.get(kind, ("",))}
    return series


def _labels(call: ast.Call) -> set[str]:
    lists = [it for it in [*call.args[1:], *(keyword.value for keyword in call.keywords)] if isinstance(it, ast.List | ast.Tuple)]
    return {str(it.value) for one in lists for it in one.elts if isinstance(it, ast.Constant)}


def dashboard_expressions(file: Path) -> list[str]:
    return [target["expr"] for panel in json.loads(file.read_text(encoding="utf-8"))["panels"] for target in panel["targets"]]


def expressions() -> list[str]:
    """Every PromQL expression in rules and dashboards."""
    return [*(rule["expr"] for rule in alerts()), *(it for file in DASHBOARDS for it in dashboard_expressions(file))]


def alerts() -> list[dict[str, str]]:
    """Each alert's fields, its annotations among them."""
    blocks = re.split(r"^ +- (?=alert:)", RULES, flags=re.MULTILINE)[1:]
    return [{key: value.strip('"') for key, value in re.findall(r"^ *(\w+): (.+)$", block, re.MULTILINE)} for block in blocks]


def known_settings() -> set[str]:
    """The environment variables that Acuse and its adapters read."""
    for package in iter_modules(acuse_adapters.__path__):
        if package.ispkg and (Path(acuse_adapters.__path__[0]) / package.name / "settings.py").exists():
            import_module(f"acuse_adapters.{package.name}.settings")
    ours = {f"ACUSE_{field}".upper() for field in Settings.model_fields}
    return ours | {kind.variable(field) for kind in AdapterSettings.__subclasses__() for field in kind.model_fields}


def environment_keys() -> Iterator[str]:
    """The names in every `environment:` of the compose file, and in the settings that services share."""
    block: int | None = None
    for line in COMPOSE.splitlines():
        indent = len(line) - len(line.lstrip())
        if block is not None and line.strip() and indent <= block:
            block = None
        if re.match(r" *(environment|x-settings):", line):
            block = indent
        elif block is not None and (key := re.match(r" +([A-Z][A-Z0-9_]*):", line)):
            yield key[1]


def anchors() -> set[str]:
    """The anchors of the runbook's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", RUNBOOK, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def _incidents(node: ast.AST) -> set[str]:
    """The kinds of incidents that a node opens: `incident="…"`, `open_incident(…, "…", …)`, `Unreadable(…, "…")`, or
    what `contradiction` returns.
    """
    values: list[ast.expr | None] = []
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("incident", "Unreadable")):
        values = list(node.args[1:])
    elif isinstance(node, ast.keyword) and node.arg == "incident":
        values = [node.value]
    elif isinstance(node, ast.FunctionDef) and node.name == "contradiction":
        values = [it.value for it in ast.walk(node) if isinstance(it, ast.Return)]
    return {it.value for it in values if isinstance(it, ast.Constant) and isinstance(it.value, str)}


def commands() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return set(project["entry-points"]["acuse.commands"])


def seconds_of(pattern: str) -> float:
    found = re.findall(pattern, COMPOSE, re.MULTILINE | re.DOTALL)
    assert len(found) == 1, f"{pattern} stands {len(found)} times in compose.yaml"
    return float(found[0])


def test_the_sources_of_series_are_understood() -> None:
    series = exported_series()

    assert series["acuse_attempts_total"] == {"provider", "outcome"}
    assert series["acuse_unresolved_operations"] == {"provider", "state"}
    assert "acuse_send_seconds_bucket" in series
    assert "acuse_relayed_total" in series


@pytest.mark.parametrize("expression", expressions())
def test_every_series_and_label_that_is_asked_for_is_exported(expression: str) -> None:
    known = exported_series()
    names = set(re.findall(r"\bacuse_\w+", expression))

    assert names or "up{" in expression, "it asks for nothing of ours"
    assert names <= set(known), f"nobody exports {sorted(names - set(known))}"
    grouped = re.findall(r"\bby \(([^)]*)\)", expression)
    matched = re.findall(r"(\w+)\s*(?:=~|!=|!~|=)\s*\"", expression)
    asked = {label.strip() for group in grouped for label in group.split(",")} | set(matched)
    carried = PROMETHEUS_OWN_LABELS.union(*(known[name] for name in names))
    assert asked <= carried, f"these series carry no label {sorted(asked - carried)}"


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.name)
def test_a_dashboard_has_panels_that_do_not_overlap(file: Path) -> None:
    panels = json.loads(file.read_text(encoding="utf-8"))["panels"]
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


def test_duplicates_and_what_is_unresolved_come_before_anything_else() -> None:
    panels: list[dict[str, Any]] = json.loads((DEPLOY / "grafana" / "dashboards" / "acuse.json").read_text(encoding="utf-8"))[
        "panels"
    ]

    top = sorted((panel for panel in panels if panel["gridPos"]["y"] == 0), key=lambda panel: panel["gridPos"]["x"])

    asked = [re.findall(r"acuse_\w+", panel["targets"][0]["expr"])[0] for panel in top]
    assert asked == [
        "acuse_duplicates_prevented_total",
        "acuse_open_incidents",
        "acuse_unresolved_operations",
        "acuse_oldest_unresolved_seconds",
        "acuse_held_operations",
    ]
    assert 'kind="duplicate_effect"' in top[1]["targets"][0]["expr"]


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_every_alert_says_what_to_do_and_where_to_read_on(alert: dict[str, str]) -> None:
    file, _, anchor = alert["runbook"].partition("#")

    assert alert["summary"].endswith(".")
    assert alert["action"].endswith(".")
    assert (DEPLOY / file).samefile(DEPLOY / "runbook.md")
    assert anchor in anchors()
    section = RUNBOOK.lower().split(f"## {anchor.replace('-', ' ')}\n")[1].split("\n## ")[0]
    assert f"**alert** `{alert['alert'].lower()}`" in section


def test_every_alert_of_the_runbook_exists() -> None:
    assert set(re.findall(r"\*\*Alert\*\* `(\w+)`", RUNBOOK)) == {alert["alert"] for alert in alerts()}


def test_every_link_within_the_runbook_leads_somewhere() -> None:
    assert set(re.findall(r"\]\(#([^)]+)\)", RUNBOOK)) <= anchors()


@pytest.mark.parametrize("file", ["README.md", "runbook.md", "compose.yaml", ".env.example", "../CONTRIBUTING.md"])
def test_every_setting_that_is_named_exists(file: str) -> None:
    of_the_tests = {"ACUSE_TEST_DATABASE_URL", "ACUSE_TEST_REDIS_URL"}
    named = set(re.findall(r"\bACUSE_[A-Z0-9_]*[A-Z0-9]\b", (DEPLOY / file).read_text(encoding="utf-8")))

    assert named - of_the_tests <= known_settings()


def test_every_variable_of_the_compose_file_is_known_to_somebody() -> None:
    keys = {key for key in environment_keys() if not key.startswith("GF_")}

    assert "ACUSE_DATABASE_URL" in keys
    assert "ACUSE_GRACE_SECONDS" in keys
    assert keys - OF_THE_IMAGES <= known_settings()


def test_the_example_of_env_has_what_the_compose_file_takes_from_it_and_no_secret() -> None:
    lines = (DEPLOY / ".env.example").read_text(encoding="utf-8").splitlines()
    example = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    taken = set(re.findall(r"\$\{(\w+)", COMPOSE)) | set(re.findall(r"^ +(ACUSE_\w+):$", COMPOSE, re.MULTILINE))

    assert set(example) == taken
    assert not any(example.values())


def test_no_secret_stands_in_a_file() -> None:
    for line in COMPOSE.splitlines():
        if re.search(r"PASSWORD|AUTH|requirepass", line) and (value := re.match(r" +\w+: (.+)", line)):
            assert "${" in value[1], line


def test_a_worker_is_given_longer_to_stop_than_its_own_grace() -> None:
    grace = seconds_of(r"ACUSE_GRACE_SECONDS: (\d+)")

    assert seconds_of(r"^  worker:$.*?stop_grace_period: (\d+)s$") > grace + 10


def test_prometheus_scrapes_the_port_that_the_processes_serve() -> None:
    served = re.findall(r"ACUSE_METRICS_PORT: (\d+)", COMPOSE)
    scraped = re.findall(r"port: (\d+)", (DEPLOY / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))

    assert len(served) == 1
    assert set(scraped) == set(served)


def test_every_command_that_is_named_exists() -> None:
    started = set(re.findall(r"^    command: \[(\w+)", COMPOSE, re.MULTILINE))
    texts = (
        RUNBOOK
        + RULES
        + (DEPLOY / "README.md").read_text(encoding="utf-8")
        + (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    )

    assert started == {"migrate", "relay", "worker"}
    assert set(re.findall(r"`acuse ([a-z]+)", texts)) | started <= commands()


def test_every_function_and_table_that_the_runbook_uses_exists() -> None:
    folder = ROOT / "migrations" / "acuse_migrations" / "versions"
    sql = "\n".join(file.read_text(encoding="utf-8") for file in sorted(folder.rglob("*.sql")))
    made = set(re.findall(r"create (?:or replace )?(?:function|table) acuse\.(\w+)", sql))

    used = set(re.findall(r"(?:from|update|select) acuse\.(\w+)", RUNBOOK))
    assert used <= made


@pytest.mark.parametrize(
    ("name", "command"),
    [("accounts", accounts), ("approvals", approvals), ("incidents", incidents), ("operations", operations)],
)
def test_every_call_of_the_runbook_is_understood_by_the_command(name: str, command: Command) -> None:
    parser = argparse.ArgumentParser()
    command.configure(parser)
    calls = re.findall(rf"^acuse {name} (.+)$", RUNBOOK, re.MULTILINE) + re.findall(rf"`acuse {name} ([^`]+)`", RUNBOOK)

    assert calls
    for call in calls:
        parser.parse_args(shlex.split(f"{call} op_1" if call == "show" else call, comments=True))


def test_every_act_of_the_runbook_is_understood_by_the_command() -> None:
    parser = argparse.ArgumentParser()
    operations.configure(parser)
    calls = re.findall(r"^acuse operations (.+)$", RUNBOOK, re.MULTILINE) + re.findall(r"`acuse operations ([^`]+)`", RUNBOOK)
    table = set(re.findall(r"^\| .+ \| `\w+` \| `([a-z-]+)`", RUNBOOK, re.MULTILINE))

    parsed = [vars(parser.parse_args(shlex.split(f"{call} op_1" if call == "show" else call))) for call in calls]

    assert {"list", "show", "explain", "confirm", "reject", "recheck"} <= {one["act"] for one in parsed}
    for act in table | {"suspect"}:
        result = ["--result-id", "T-81"] if act == "confirm" else []
        parser.parse_args([act, "op_1", "--version", "7", "--reason", "it was looked at", *result])
    assert table == {"confirm", "reject", "recheck", "accept-risk", "resume"}


def test_every_incident_that_the_code_opens_is_explained() -> None:
    explained = set(re.findall(r"^\| `(\w+)` \|", RUNBOOK, re.MULTILINE))
    opened: set[str] = set()
    for file in [*(ROOT / "service" / "acuse").rglob("*.py"), *(ROOT / "adapters" / "acuse_adapters").rglob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            opened |= _incidents(node)
    for file in (ROOT / "migrations").rglob("*.sql"):
        opened |= set(re.findall(r"open_incident\(\w+, '(\w+)'", file.read_text(encoding="utf-8")))

    assert opened == explained


@pytest.mark.parametrize("file", YAML_FILES, ids=lambda file: file.name)
def test_yaml_is_written_plainly(file: Path) -> None:
    text = file.read_text(encoding="utf-8")

    assert "\t" not in text
    assert text.endswith("\n")
    for line in text.splitlines():
        code = line.split(" #")[0] if not line.lstrip().startswith("#") else ""
        assert code.count('"') % 2 == 0, line
        assert (len(line) - len(line.lstrip())) % 2 == 0, line


def test_the_image_runs_without_root_and_holds_no_probe_that_says_nothing() -> None:
    lines = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").splitlines()
    words = [line.split()[0] for line in lines if line and line[0].isupper()]

    assert "USER 10001:10001" in lines
    assert words.index("USER") < words.index("ENTRYPOINT")
    assert 'ENTRYPOINT ["acuse"]' in lines
    assert "HEALTHCHECK" not in words
    assert sum("-c constraints.txt" in line for line in lines) == sum("pip install" in line for line in lines)


def test_what_the_image_is_built_from_is_let_into_the_build() -> None:
    copied = [
        word
        for line in (DEPLOY / "Dockerfile").read_text(encoding="utf-8").splitlines()
        if line.startswith("COPY ")
        for word in line.split()[1:-1]
    ]
    let_in = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()

    for name in (word.rstrip("/") for word in copied if not word.startswith(("-", "/"))):
        assert (ROOT / name).exists()
        assert f"!{name}" in let_in
