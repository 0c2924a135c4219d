"""The examples in the docstrings give what they show."""

import doctest
import importlib
import pkgutil

import pytest

import fox_agents
import fox_env

APART = ("fox_env.adapters.", "fox_agents.dqn.projection_kernel")  # they need a library that may be absent
MODULES = [
    module.name
    for package in (fox_env, fox_agents)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if not module.name.endswith("__main__")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    if name.startswith(APART):
        pytest.importorskip(name, exc_type=ImportError)
    results = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.failed == 0


def test_some_modules_have_examples() -> None:
    finder = doctest.DocTestFinder()
    own = [name for name in MODULES if not name.startswith(APART)]
    tests = [t for name in own for t in finder.find(importlib.import_module(name)) if t.examples]
    assert len(tests) >= 3
