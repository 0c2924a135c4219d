"""What a newcomer meets first: the two commands, the pinned versions, the README's links and examples."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")])


def requirement_names(lines: list[str]) -> set[str]:
    """Normalised package names at the head of requirement lines."""
    names = (re.match(r"[A-Za-z0-9._-]+", line) for line in lines)
    return {re.sub(r"[-_.]+", "-", name.group()).lower() for name in names if name}


def run_make(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run make in the project's root with nothing inherited from an outer make."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "VENV"))} | environment
    return subprocess.run(["make", *words], cwd=ROOT, env=env, capture_output=True, text=True, timeout=60)


def test_every_dependency_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        asked += extra
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    assert requirement_names(asked) - requirement_names(pins) == set()


def test_constraints_hold_exact_versions_and_nothing_else() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", line)] == []


@pytest.mark.parametrize("command", ["demo", "test"])
def test_readme_commands_are_make_targets(command: str) -> None:
    assert f"make {command}" in (ROOT / "README.md").read_text()
    assert re.search(rf"^{command}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_make_names_the_python_that_is_too_old(tmp_path: Path) -> None:
    done = run_make("test", f"VENV={tmp_path / 'venv'}", "PYTHON=false")
    assert done.returncode == 2
    assert "Fox needs Python 3.11 or newer" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_make_names_the_missing_compiler(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.touch()
    done = run_make("test", f"VENV={tmp_path}", "CXX=no-such-compiler")
    assert done.returncode == 2
    assert "No C++ compiler 'no-such-compiler'" in done.stderr


def test_ci_runs_every_stage_and_names_the_failed_ones(tmp_path: Path) -> None:
    make = tmp_path / "make"
    make.write_text(
        '#!/bin/sh\ncase "$*" in *lint*|wheel) exit 1;; test) echo "=== 3 passed in 0.1s ===";; esac\n'
    )
    make.chmod(0o755)
    script = (ROOT / ".ci" / "run").read_text().replace("../shared/accept", str(tmp_path / "absent"))
    place = tmp_path / ".ci" / "run"
    place.parent.mkdir()
    place.write_text(script)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "CI": ""}
    done = subprocess.run(["bash", place], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-2:] == ["=== 3 passed in 0.1s ===", "CI failed in: lint wheel"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text())
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_named_files_exist(document: Path) -> None:
    folders = "fox_env|fox_agents|cuda_src|scripts|configs|tests|benchmarks|docs"
    named = re.findall(rf"`((?:{folders})/[\w./-]+)`", document.read_text())
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("document", ["README.md", "docs/user-guide.md"])
def test_python_examples_run(document: str, tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / document).read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    for code in blocks:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def test_import_is_light() -> None:
    heavy = ("torch", "pandas", "matplotlib", "polars", "talib", "stable_baselines3", "torchrl", "cuda")
    code = f"import sys, fox_env; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
