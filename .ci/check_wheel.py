"""Check the built wheel: its tag, its contents, and that it steps an environment outside the source tree."""

import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

PROBE = """
import pathlib, fox_env, fox_agents
assert pathlib.Path(fox_env.__file__).is_relative_to({target!r}), fox_env.__file__
market = fox_env.synthetic.regimes(seed=0)
env = fox_env.FoxFuturesVectorEnv(4, market, fox_env.EnvConfig(), backend="cpu", seed=0)
env.reset(seed=0)
env.step(env.action_space.sample())
print("the wheel's environment steps")
"""


def problems(wheel: Path, cuda_src: Path) -> list[str]:
    """Return one sentence for everything that the wheel lacks or should not hold."""
    found = []
    if "-py3-none-" not in wheel.name:
        found.append(f"{wheel.name} is not tagged py3-none: one wheel should serve every Python 3")
    names = zipfile.ZipFile(wheel).namelist()
    for source in sorted(cuda_src.iterdir()):
        if f"fox_env/cuda_src/{source.name}" not in names:
            found.append(f"cuda_src/{source.name} is not in the wheel")
    for needed in ("fox_env/contracts.toml", "fox_env/py.typed", "fox_agents/py.typed"):
        if needed not in names:
            found.append(f"{needed} is not in the wheel")
    if not any(n.startswith("fox_env/_lib/") and n.endswith((".so", ".dylib", ".dll")) for n in names):
        found.append("the host library is not in the wheel")
    stray = [n for n in names if n.split("/")[0] not in ("fox_env", "fox_agents") and ".dist-info/" not in n]
    if stray:
        found.append(f"unexpected files in the wheel: {', '.join(stray[:5])}")
    return found


def main() -> int:
    """Check the only wheel in the folder named on the command line."""
    wheels = list(Path(sys.argv[1]).glob("*.whl"))
    if len(wheels) != 1:
        print(f"expected one wheel in {sys.argv[1]}, found {len(wheels)}")
        return 1
    found = problems(wheels[0], Path("cuda_src"))
    for line in found:
        print(line)
    with tempfile.TemporaryDirectory() as target:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "--target", target, str(wheels[0])], check=True)
        # -S leaves out this environment's editable install; its other packages come back through the path.
        env = {"PYTHONPATH": f"{target}:{sysconfig.get_paths()['purelib']}"}
        probe = subprocess.run([sys.executable, "-S", "-c", PROBE.format(target=target)], cwd=target, env=env)
    print(f"{wheels[0].name}: {wheels[0].stat().st_size / 1e6:.1f} MB")
    return 1 if found or probe.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
