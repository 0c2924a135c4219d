"""Each extra that is not installed gives one sentence that names it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENV = "import fox_env; fox_env.FoxFuturesVectorEnv(2, "
PICTURE = "import fox_env; e = fox_env.FoxFuturesEnv(render_mode='rgb_array'); e.reset(seed=0); e.render()"


def without(modules: tuple[str, ...], code: str) -> subprocess.CompletedProcess[str]:
    """Run ``code`` in an interpreter that finds none of ``modules``."""
    hide = f"import sys\nfor name in {modules}: sys.modules[name] = None\n"
    return subprocess.run([sys.executable, "-c", hide + code], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("modules", "code", "error", "extra"),
    [
        (("torch",), ENV + "output='torch', backend='cpu')", "BackendError", "agents"),
        (("cuda",), ENV + "backend='cuda')", "BackendError", "cuda"),
        (("matplotlib",), PICTURE, "BackendError", "render"),
        (("torch",), "import fox_agents", "ImportError", "agents"),
        (("safetensors", "rich"), "import fox_agents", "ImportError", "agents"),
        (("plotly",), "import fox_agents", "ImportError", "agents"),
        (("stable_baselines3",), "import fox_env.adapters.sb3", "ImportError", "sb3"),
        (("torchrl",), "import fox_env.adapters.torchrl", "ImportError", "torchrl"),
        (("torch",), "import fox_env.adapters.torchrl", "ImportError", "torchrl"),
        (("tianshou",), "import fox_env.adapters.tianshou", "ImportError", "tianshou"),
    ],
)
def test_a_missing_extra_is_named(modules: tuple[str, ...], code: str, error: str, extra: str) -> None:
    done = without(modules, code)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert error in last.split(":", 1)[0]
    assert f"pip install 'fox-futures[{extra}]'" in last


def test_the_environment_needs_no_extra() -> None:
    hidden = ("torch", "cuda", "pandas", "pyarrow", "rich", "typer", "safetensors", "tensorboard")
    done = without(
        hidden, "import fox_env; e = fox_env.FoxFuturesVectorEnv(2); print(e.reset(seed=0)[0].shape)"
    )
    assert done.stdout.strip() == "(2, 128)", done.stderr


@pytest.mark.parametrize("script", ["train_dqn.py", "evaluate.py"])
@pytest.mark.parametrize("module", ["typer", "torch"])
def test_scripts_name_the_extra_in_one_line(script: str, module: str) -> None:
    code = f"import runpy; sys.argv = ['x']; runpy.run_path({str(ROOT / 'scripts' / script)!r}, run_name='__main__')"
    done = without((module,), code)
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1
    assert "pip install 'fox-futures[agents]'" in done.stderr
