"""How fast the environment steps, observation included, beside the copy bandwidth of the same GPU.

Run: python benchmarks/env_throughput.py [--backend cpu|cuda] [--quick]. Results are checked first.
"""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from harness import (
    arguments,
    cuda_present,
    device_seconds,
    host_seconds,
    launch_seconds,
    print_table,
    single_stepper,
    write_json,
)

import fox_env
from fox_env import Bars, EnvConfig, FoxFuturesVectorEnv, Market, _layout

MARKET_BARS = (30_000, 200_000)
CPU_ENVS = 4_096
CPU_SIZES = (256, 1_024, 4_096, 16_384, 65_536)
FEATURES: dict[str, dict[str, Any]] = {
    "plain": {},
    "full info": {"info_level": "full"},
    "copies": {"copy": True},
    "copies and full info": {"copy": True, "info_level": "full"},
    "exits": {
        "config": EnvConfig(
            trail_atr=(2.0, 2.0), profit_target_atr=3.0, margin="intrabar", flat_at_session_end=True
        )
    },
}
"""What a step may be asked for beside the plain one: arguments of the environment."""
ROLLOUT_STEPS = 64
ROLLOUT_ENVS = (4_096, 65_536, 1_048_576)
CUDA_ENVS = (4_096, 65_536, 262_144, 1_048_576, 4_194_304)
STEPS_PER_READING = 16
COPY_BYTES = 2**31


def random_walk_market(bars: int) -> Market:
    """Minute bars of a random walk on the tick grid, around the clock, as long as asked for."""
    rng = np.random.default_rng(0)
    close = 20_000 + np.cumsum(rng.integers(-3, 4, bars))
    open_ = np.concatenate(([20_000], close[:-1]))
    high = np.maximum(open_, close) + rng.integers(0, 3, bars)
    low = np.minimum(open_, close) - rng.integers(0, 3, bars)
    ts = np.datetime64("2020-01-01T00:00", "ns") + np.arange(bars) * np.timedelta64(60, "s")
    volume = rng.integers(50, 500, bars).astype(np.float64)
    return Market.from_bars(
        Bars.from_arrays(ts, 0.25 * open_, 0.25 * high, 0.25 * low, 0.25 * close, volume), contract="ES"
    )


def make_env(num_envs: int, market: Market, backend: str, **changes: Any) -> FoxFuturesVectorEnv:
    """Build the environment as a learner uses it: no copies, no info, same-step autoreset; or with ``changes``."""
    arguments: dict[str, Any] = {"config": EnvConfig(), "copy": False, "info_level": "none", **changes}
    return FoxFuturesVectorEnv(
        num_envs,
        market,
        backend=backend,
        output="torch" if backend == "cuda" else "numpy",
        autoreset_mode=AutoresetMode.SAME_STEP,
        seed=0,
        **arguments,
    )


def action_pool(env: FoxFuturesVectorEnv, count: int) -> list[Any]:
    """Random actions, drawn before the clock starts, where the environment wants them."""
    rng = np.random.default_rng(1)
    pool = [
        np.stack([rng.integers(0, k, env.num_envs) for k in _layout.ACTION_BRANCHES], axis=1)
        for _ in range(count)
    ]
    if env.device == "cpu":
        return pool
    import torch

    return [torch.from_numpy(actions).to(env.device) for actions in pool]


def check_account(market: Market) -> None:
    """Refuse to time an environment whose books do not balance."""
    env = make_env(256, market, "cpu", info_level="full")
    env.reset(seed=0)
    for actions in action_pool(env, 64):
        obs, reward, _, _, info = env.step(actions)
        equity = info["cash"] + info["unrealized"]
        if not np.allclose(info["equity"], equity, rtol=1e-12, atol=0):
            raise SystemExit("equity differs from cash + unrealised: not timed")
        if not (
            np.isfinite(obs).all()
            and np.abs(obs).max() <= _layout.Observation.LIMIT
            and np.isfinite(reward).all()
        ):
            raise SystemExit("an observation or reward is not finite or out of range: not timed")
    env.close()


def check_parity(market: Market) -> None:
    """Refuse to time a GPU whose trajectories are not those of the CPU, bit for bit."""
    envs = [make_env(CPU_ENVS, market, backend) for backend in ("cpu", "cuda")]
    pools = [action_pool(env, 32) for env in envs]
    for env in envs:
        env.reset(seed=0)
    for step, (on_host, on_device) in enumerate(zip(*pools, strict=True)):
        expected, got = envs[0].step(on_host), envs[1].step(on_device)
        for name, left, right in zip(
            ("obs", "reward", "terminated", "truncated"), expected, got, strict=False
        ):
            if np.asarray(left).tobytes() != right.cpu().numpy().tobytes():
                raise SystemExit(f"{name} differs between cpu and cuda at step {step}: not timed")
    for env in envs:
        env.close()


def bytes_per_env() -> int:
    """Bytes that a step of one environment has to move: observation, state in and out (plain rules), reward, flags."""
    moved = _layout.STATE_FIELDS.keys() - {
        name for group in _layout.RULE_STATE_FIELDS.values() for name in group
    }
    state = sum(np.dtype(_layout.STATE_FIELDS[name]).itemsize for name in moved)
    return int(4 * _layout.Observation.SIZE + 2 * state + 4 + 1 + 1)


def cpu_rows(markets: list[Market], sizes: tuple[int, ...], repeats: int) -> list[dict[str, Any]]:
    """Steps per second of the host library: each market at one size, then each size and each feature at the first."""
    cases = [(market, CPU_ENVS, "plain") for market in markets]
    cases += [(markets[0], size, "plain") for size in sizes if size != CPU_ENVS]
    cases += [(markets[0], CPU_ENVS, feature) for feature in FEATURES if feature != "plain"]
    rows = []
    for market, size, feature in cases:
        env = make_env(size, market, "cpu", **FEATURES[feature])
        env.reset(seed=0)
        pool = action_pool(env, STEPS_PER_READING)
        seconds = host_seconds(stepper(env, pool), max(repeats * CPU_ENVS // max(size, CPU_ENVS), 5))
        seconds /= STEPS_PER_READING
        rows.append(
            {
                "bars": len(market),
                "envs": size,
                "features": feature,
                "us_per_step": 1e6 * seconds,
                "env_steps_per_s": size / seconds,
            }
        )
        env.close()
    return rows


def stepper(env: FoxFuturesVectorEnv, pool: list[Any]) -> Callable[[], None]:
    """One reading's worth of steps."""

    def work() -> None:
        for actions in pool:
            env.step(actions)

    return work


def single_env_rows(repeats: int) -> list[dict[str, Any]]:
    """Steps per second of one environment through ``gym.make``, with the default wrappers."""
    import gymnasium as gym

    env = gym.make("Fox-Futures-v0", backend="cpu")
    rng = np.random.default_rng(2)
    actions = np.stack([rng.integers(0, k, 1000) for k in _layout.ACTION_BRANCHES], axis=1)
    seconds = host_seconds(single_stepper(env, list(actions)), repeats) / len(actions)
    env.close()
    return [{"envs": 1, "us_per_step": 1e6 * seconds, "env_steps_per_s": 1 / seconds}]


def copy_bandwidth(repeats: int) -> float:
    """Bytes per second of a device-to-device copy, read and written bytes both counted."""
    import torch

    source = torch.ones(COPY_BYTES, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * COPY_BYTES / device_seconds(lambda: target.copy_(source), repeats)


def captured(env: FoxFuturesVectorEnv, pool: list[Any]) -> Callable[[], None]:
    """Record the pool's steps as one CUDA graph and return its replay."""
    import torch

    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        stepper(env, pool)()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        stepper(env, pool)()
    return graph.replay


def cuda_rows(
    markets: list[Market], sizes: tuple[int, ...], repeats: int, bandwidth: float
) -> list[dict[str, Any]]:
    """Steps per second on the GPU, one row a market, size and way (from Python, as a captured graph)."""
    import torch

    rows = []
    for market in markets:
        for size in sizes:
            if 3 * size * 4 * _layout.Observation.SIZE > torch.cuda.mem_get_info()[0]:
                print(f"{size} environments do not fit into this GPU's free memory: left out")
                continue
            env = make_env(size, market, "cuda")
            env.reset(seed=0)
            pool = action_pool(env, STEPS_PER_READING if size < 2**20 else 4)
            for way, work in (("python", stepper(env, pool)), ("graph", captured(env, pool))):
                seconds = device_seconds(work, repeats) / len(pool)
                host = launch_seconds(work, repeats) / len(pool)
                rows.append(
                    {
                        "bars": len(market),
                        "envs": size,
                        "way": way,
                        "us_per_step": 1e6 * seconds,
                        "host_us_per_step": 1e6 * host,
                        "env_steps_per_s": size / seconds,
                        "copy_share": size * bytes_per_env() / seconds / bandwidth,
                    }
                )
            env.close()
            del env, pool, work
            torch.cuda.empty_cache()
    return rows


def cuda_feature_rows(market: Market, sizes: tuple[int, ...], repeats: int) -> list[dict[str, Any]]:
    """Steps per second on the GPU from Python with each feature."""
    rows = []
    for size in sizes:
        for feature, changes in FEATURES.items():
            env = make_env(size, market, "cuda", **changes)
            env.reset(seed=0)
            pool = action_pool(env, STEPS_PER_READING)
            work = stepper(env, pool)
            seconds = device_seconds(work, repeats) / len(pool)
            rows.append(
                {
                    "envs": size,
                    "features": feature,
                    "us_per_step": 1e6 * seconds,
                    "host_us_per_step": 1e6 * launch_seconds(work, repeats) / len(pool),
                    "env_steps_per_s": size / seconds,
                }
            )
            env.close()
    return rows


def rollout_rows(market: Market, sizes: tuple[int, ...], repeats: int) -> list[dict[str, Any]]:
    """Steps per second of ``env.rollout``: random actions, and the argmax of a linear layer; by graph and by step."""
    import torch

    splits = list(_layout.ACTION_BRANCHES)
    layer = torch.nn.Linear(int(_layout.Observation.SIZE), sum(splits), device="cuda")

    def random(obs: Any) -> Any:
        return torch.randint(0, min(splits), (len(obs), len(splits)), device=obs.device)

    def linear(obs: Any) -> Any:
        return torch.stack([q.argmax(dim=1) for q in layer(obs).split(splits, dim=1)], dim=1)

    rows = []
    for size in sizes:
        needed = 1.25 * ROLLOUT_STEPS * size * 4 * _layout.Observation.SIZE
        if needed > torch.cuda.mem_get_info()[0]:
            print(f"a rollout of {size} environments does not fit into this GPU's free memory: left out")
            continue
        for name, policy in (("random", random), ("linear", linear)):
            for graph in (True, False):
                env = make_env(size, market, "cuda")
                env.reset(seed=0)

                def work(env: Any = env, policy: Any = policy, graph: bool = graph) -> None:
                    env.rollout(policy, ROLLOUT_STEPS, graph=graph)

                work()  # step by step; the next call captures
                seconds = device_seconds(work, repeats) / ROLLOUT_STEPS
                host = launch_seconds(work, repeats) / ROLLOUT_STEPS
                rows.append(
                    {
                        "envs": size,
                        "steps": ROLLOUT_STEPS,
                        "policy": name,
                        "way": "graph" if graph else "by step",
                        "us_per_step": 1e6 * seconds,
                        "host_us_per_step": 1e6 * host,
                        "env_steps_per_s": size / seconds,
                    }
                )
                env.close()
                del env, work
                torch.cuda.empty_cache()
    return rows


def import_seconds(repeats: int) -> float:
    """Median time of ``import fox_env`` in a new interpreter, less the interpreter's own start."""
    command = [sys.executable, "-c"]
    bare = host_seconds(lambda: _run([*command, "pass"]), repeats)
    return host_seconds(lambda: _run([*command, "import fox_env"]), repeats) - bare


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True)


def main() -> None:
    """Check, measure, print, write."""
    options = arguments(__doc__.splitlines()[0]).parse_args()
    backends = [options.backend]
    if options.backend == "auto":
        backends = ["cpu", "cuda"] if cuda_present() else ["cpu"]
    repeats = 5 if options.quick else 30
    markets = [random_walk_market(bars) for bars in (MARKET_BARS[:1] if options.quick else MARKET_BARS)]
    tables: dict[str, Any] = {"fox_env": fox_env.__version__, "bytes_per_env_step": bytes_per_env()}
    if "cpu" in backends:
        check_account(markets[0])
        tables["cpu"] = cpu_rows(markets, CPU_SIZES[1:4] if options.quick else CPU_SIZES, 5 * repeats)
        tables["single"] = single_env_rows(repeats)
        tables["import_seconds"] = import_seconds(5)
        print_table(
            "CPU backend, step and observation; plain is copy=False, info_level='none'", tables["cpu"]
        )
        print_table("One environment through gym.make", tables["single"])
        print(f"\nimport fox_env: {tables['import_seconds']:.3f} s")
    if "cuda" in backends:
        check_parity(markets[0])
        bandwidth = copy_bandwidth(repeats)
        tables["copy_bytes_per_s"] = bandwidth
        sizes = CUDA_ENVS[:3] if options.quick else CUDA_ENVS
        tables["cuda"] = cuda_rows(markets, sizes, repeats, bandwidth)
        print(
            f"\ndevice copy: {bandwidth / 1e12:.2f} TB/s; a step moves {bytes_per_env()} bytes an environment"
        )
        print_table("CUDA backend, step and observation, copy=False, info_level='none'", tables["cuda"])
        tables["cuda_features"] = cuda_feature_rows(markets[0], sizes[:2], repeats)
        print_table("CUDA backend from Python by feature; plain is as above", tables["cuda_features"])
        rollouts = ROLLOUT_ENVS[:2] if options.quick else ROLLOUT_ENVS
        tables["rollout"] = rollout_rows(markets[0], rollouts, max(repeats // 3, 3))
        print_table("env.rollout on the GPU, copy=False", tables["rollout"])
    write_json("env_throughput", options.out, tables)


if __name__ == "__main__":
    main()
