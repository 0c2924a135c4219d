"""How fast Fox steps beside three other trading environments, all timed in turns in one process on one CPU.

Run: python benchmarks/env_peers.py [--quick]. Needs pandas, and matplotlib for the plot; a peer that is not installed
gets a row that says how to install it. Results are checked before anything is timed. Every round times each contestant
once, so that a busy neighbour slows all of them: figures are medians over the rounds, ratios medians of each round's.
"""

import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from env_throughput import (
    MARKET_BARS,
    action_pool,
    bytes_per_env,
    check_account,
    make_env,
    random_walk_market,
    stepper,
)
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv
from harness import ROOT, arguments, print_table, single_stepper, write_json
from numpy.typing import NDArray

import fox_env
from fox_env import FoxFuturesEnv, Market, _layout

FOX = "fox"
ELSEWHERE = "AsyncVectorEnv"  # steps in processes of its own
PEERS = {
    "gym-trading-env": ("gym_trading_env", "gym-trading-env==0.3.5", 300),
    "gym-anytrading": ("gym_anytrading", "gym-anytrading==2.0.0", 40),
    "torchtrade": ("torchtrade", "torchtrade==0.1.0", 10),
}
"""Name -> module, what pip installs, and how many times faster Fox's batch should be."""
FOX_ENVS = (256, 1_024, 4_096, 16_384, 65_536)
SMALL_BATCH = 16  # environments of a Gymnasium vector environment of single ones
TORCHTRADE_ENVS = (64, 1_024, 4_096, 16_384, 65_536)
TORCHTRADE_WINDOWS = (1, 10)  # the smallest, and its default
ANYTRADING_WINDOW = 30  # the default of its stocks
BATCH_STEPS, SINGLE_STEPS = 8, 500
READING_SECONDS = 0.04
COPY_BYTES = 2**28


@dataclass(frozen=True)
class Contestant:
    """One configuration of one library, ready to be timed."""

    library: str
    way: str
    envs: int
    observation: str
    observation_bytes: int
    steps: int
    work: Callable[[], None]


def frame(market: Market) -> Any:
    """The market's bars as the frame that the peers read."""
    pandas = import_module("pandas")
    bars = market.bars
    columns = {name: getattr(bars, name) for name in ("open", "high", "low", "close", "volume")}
    return pandas.DataFrame(columns, index=pandas.DatetimeIndex(bars.ts, name="timestamp"))


def refuse(wrong: bool, what: str) -> None:
    """End the run where a result is not what it must be."""
    if wrong:
        raise SystemExit(f"{what}: not timed")


# ---- Fox -----------------------------------------------------------------------------------------------------


def fox(market: Market, sizes: tuple[int, ...]) -> Iterator[Contestant]:
    """Fox's batch over its sizes, and its single environment."""
    check_account(market)
    width = 4 * int(_layout.Observation.SIZE)
    for size in sizes:
        env = make_env(size, market, "cpu")
        env.reset(seed=0)
        yield Contestant(
            FOX, "batch", size, "128", width, BATCH_STEPS, stepper(env, action_pool(env, BATCH_STEPS))
        )
    single = FoxFuturesEnv(market)
    rng = np.random.default_rng(2)
    actions = np.stack([rng.integers(0, k, SINGLE_STEPS) for k in _layout.ACTION_BRANCHES], axis=1)
    yield Contestant(FOX, "single", 1, "128", width, SINGLE_STEPS, single_stepper(single, list(actions)))


# ---- the peers -----------------------------------------------------------------------------------------------


def vector_stepper(env: VectorEnv[Any, Any, Any], actions: list[Any]) -> Callable[[], None]:
    """One reading's worth of steps of a Gymnasium vector environment."""
    env.reset(seed=0)

    def work() -> None:
        for row in actions:
            env.step(row)

    return work


def gymnasium_ways(
    library: str, make: Callable[[], gym.Env[Any, Any]], observation: str
) -> Iterator[Contestant]:
    """A peer of single environments: alone, and as Gymnasium's two vector environments."""
    env = make()
    size = int(np.prod(env.observation_space.shape or ())) * 4
    rng = np.random.default_rng(3)
    actions = [int(action) for action in rng.integers(0, 2, SINGLE_STEPS)]
    yield Contestant(library, "single", 1, observation, size, SINGLE_STEPS, single_stepper(env, actions))
    steps = SINGLE_STEPS // SMALL_BATCH
    for kind, way in ((SyncVectorEnv, "SyncVectorEnv"), (AsyncVectorEnv, ELSEWHERE)):
        batch = kind([make] * SMALL_BATCH)
        rows = list(rng.integers(0, 2, (steps, SMALL_BATCH)))
        yield Contestant(library, way, SMALL_BATCH, observation, size, steps, vector_stepper(batch, rows))


def gym_trading_env(market: Market) -> Iterator[Contestant]:
    """gym-trading-env with five static features and its two own, no window: its fastest observation."""
    with warnings.catch_warnings():  # importing it turns every warning of the process into an error
        trading_env = import_module("gym_trading_env.environments").TradingEnv
    data = frame(market)
    for name in ("open", "high", "low", "close", "volume"):
        data[f"feature_{name}"] = data[name] / data[name].iloc[0]

    def make() -> gym.Env[Any, Any]:
        env: gym.Env[Any, Any] = trading_env(
            data, positions=[0, 1], trading_fees=0.0, initial_position=1, verbose=0
        )
        return env

    env = make()
    env.reset(seed=0)
    for _ in range(100):
        observation, _, _, _, info = env.step(1)
    growth = info["portfolio_valuation"] / 1000.0
    close = data["close"].to_numpy()
    refuse(abs(growth - close[100] / close[0]) > 1e-9, "gym-trading-env: a holding does not follow its price")
    refuse(observation.shape != (7,), "gym-trading-env: an observation is not 7 numbers")
    yield from gymnasium_ways("gym-trading-env", make, "7")


def gym_anytrading(market: Market) -> Iterator[Contestant]:
    """gym-anytrading's stocks with their default window, an observation that is a view of its data."""
    stocks_env = import_module("gym_anytrading.envs").StocksEnv
    data = frame(market).rename(columns=str.capitalize)

    def make() -> gym.Env[Any, Any]:
        env: gym.Env[Any, Any] = stocks_env(
            data, window_size=ANYTRADING_WINDOW, frame_bound=(ANYTRADING_WINDOW, len(data))
        )
        return env

    env = make()
    env.reset(seed=0)
    close = data["Close"].to_numpy()
    rewards = [env.step(1)[1] for _ in range(100)]
    observation, reward, *_ = env.step(0)
    first, last = ANYTRADING_WINDOW + 1, ANYTRADING_WINDOW + 101
    refuse(any(rewards), "gym-anytrading: holding is rewarded")
    refuse(
        abs(reward - (close[last] - close[first])) > 1e-2, "gym-anytrading: a trade does not earn its move"
    )
    refuse(
        not np.allclose(observation[:, 0], close[last - ANYTRADING_WINDOW + 1 : last + 1]),
        "gym-anytrading: an observation is not the last closes",
    )
    yield from gymnasium_ways("gym-anytrading", make, f"{ANYTRADING_WINDOW}x2")


def torchtrade(market: Market) -> Iterator[Contestant]:
    """TorchTrade's vectorised environment over sizes, windows and starts, stepped as TorchRL steps it.

    Where all begin at one bar they read the same rows and none ends within the run: its fastest case.
    """
    import torch

    offline = import_module("torchtrade.envs.offline")
    data = frame(market).reset_index()

    def make(size: int, window: int, **options: Any) -> Any:
        config = offline.VectorizedSequentialTradingEnvConfig(
            num_envs=size, time_frames="1Min", execute_on="1Min", window_sizes=window, **options
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's notice of a read-only array
            return offline.VectorizedSequentialTradingEnv(data, config)

    env = make(64, 1, random_start=False, action_levels=[0.0, 1.0])
    state, gain = env.reset(), 0.0
    for _ in range(100):
        state = env.step(state.set("action", torch.ones(64, dtype=torch.int64)))["next"]
        gain += float(state["reward"][0])
    close = data["close"].to_numpy()
    refuse(
        abs(gain - np.log(close[100] / close[0])) > 1e-4,
        "torchtrade: a holding does not follow its price",
    )
    generator = torch.Generator().manual_seed(4)
    single = offline.SequentialTradingEnv(
        data,
        offline.SequentialTradingEnvConfig(
            time_frames="1Min", execute_on="1Min", window_sizes=1, leverage=2, random_start=False
        ),
    )
    actions = list(torch.randint(0, 3, (SINGLE_STEPS // 5,), generator=generator))
    yield Contestant("torchtrade", "single", 1, "1x5 + 6", 44, len(actions), torch_stepper(single, actions))
    for window, way in (*((window, "batch") for window in TORCHTRADE_WINDOWS), (1, "batch, one start")):
        for size in TORCHTRADE_ENVS:
            env = make(size, window, leverage=2, random_start=way == "batch")
            actions = [torch.randint(0, 3, (size,), generator=generator) for _ in range(BATCH_STEPS)]
            name, width = f"{window}x5 + 6", 4 * (5 * window + 6)
            yield Contestant("torchtrade", way, size, name, width, BATCH_STEPS, torch_stepper(env, actions))


def torch_stepper(env: Any, actions: list[Any]) -> Callable[[], None]:
    """One reading's worth of steps of a TorchRL environment, with its resets."""
    state = env.reset()

    def work() -> None:
        nonlocal state
        for action in actions:
            _, state = env.step_and_maybe_reset(state.set("action", action))

    return work


MAKERS: dict[str, Callable[[Market], Iterator[Contestant]]] = {
    "gym-trading-env": gym_trading_env,
    "gym-anytrading": gym_anytrading,
    "torchtrade": torchtrade,
}


# ---- measuring -----------------------------------------------------------------------------------------------


def wall_time(work: Callable[[], None]) -> float:
    """Seconds of one call."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def copy_bandwidth() -> float:
    """Bytes per second of a copy in this machine's memory on one core, read and written bytes both counted."""
    source = np.ones(COPY_BYTES, dtype=np.uint8)
    target = np.empty_like(source)
    return 2 * COPY_BYTES / statistics.median(wall_time(lambda: np.copyto(target, source)) for _ in range(5))


def measure(contestants: list[Contestant], rounds: int) -> NDArray[np.float64]:
    """(rounds, contestants, 2) environment steps per second and per second of processor time, after a warm-up.

    A reading is as many calls as fill ``READING_SECONDS``, so that a switch of contestants weighs little. Processor
    time is that of all threads of this process: it does not grow while a neighbour has the cores, but it counts
    threads that wait for each other, and not the processes of an ``AsyncVectorEnv``.
    """
    for contestant in contestants:
        contestant.work()
    calls = [math.ceil(READING_SECONDS / wall_time(c.work)) for c in contestants]

    def reading(contestant: Contestant, count: int) -> tuple[float, float]:
        wall, processor = time.perf_counter(), time.process_time()
        for _ in range(count):
            contestant.work()
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        steps = count * contestant.steps * contestant.envs
        return steps / wall, steps / processor

    return np.array([[reading(c, n) for c, n in zip(contestants, calls, strict=True)] for _ in range(rounds)])


def rows_of(
    contestants: list[Contestant], rounds: NDArray[np.float64], bandwidth: float
) -> list[dict[str, Any]]:
    """One row a contestant: its median speed, what it moves and its share of the copy bandwidth."""
    rows = []
    for c, (speed, per_processor) in zip(contestants, np.median(rounds, axis=0).tolist(), strict=True):
        moved = bytes_per_env() if c.library == FOX else c.observation_bytes
        rows.append(
            {
                "library": c.library,
                "way": c.way,
                "envs": c.envs,
                "observation": c.observation,
                "bytes": moved,
                "env_steps_per_s": speed,
                "per_processor_s": None if c.way == ELSEWHERE else per_processor,
                "copy_share": speed * moved / bandwidth,
            }
        )
    return rows


def ratios(contestants: list[Contestant], rounds: NDArray[np.float64]) -> list[dict[str, Any]]:
    """Fox over each peer, fastest point against fastest point: batch against batch and single against single."""
    out = []
    for peer in dict.fromkeys(c.library for c in contestants if c.library != FOX):
        for kind, wanted in (("batch", PEERS[peer][2]), ("single", None)):
            mine, theirs = (fastest(contestants, rounds, name, kind) for name in (FOX, peer))
            ours, other = contestants[mine], contestants[theirs]
            each = rounds[:, mine] / rounds[:, theirs]
            out.append(
                {
                    "peer": peer,
                    "kind": kind,
                    "fox": f"{ours.way} {ours.envs}",
                    "theirs": f"{other.way} {other.envs}, {other.observation}",
                    "ratio": float(np.median(each[:, 0])),
                    "least": float(each[:, 0].min()),
                    "most": float(each[:, 0].max()),
                    "processor_ratio": None if other.way == ELSEWHERE else float(np.median(each[:, 1])),
                    "wanted": wanted,
                }
            )
    return out


def fastest(contestants: list[Contestant], rounds: NDArray[np.float64], library: str, kind: str) -> int:
    """Index of a library's fastest point; a peer's single environment counts as a batch too where that is faster."""
    own = [
        i
        for i, c in enumerate(contestants)
        if c.library == library and (c.way == "single" if kind == "single" else library != FOX or c.envs > 1)
    ]
    return max(own, key=lambda i: float(np.median(rounds[:, i, 0])))


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Speed over the number of environments, one line for each library, way and observation."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    libraries = list(dict.fromkeys(row["library"] for row in rows))
    for library in libraries:
        own = [row for row in rows if row["library"] == library]
        for marker, key in zip(
            "osDv", dict.fromkeys((r["way"], r["observation"]) for r in own), strict=False
        ):
            line = [row for row in own if (row["way"], row["observation"]) == key]
            axes.loglog(
                [row["envs"] for row in line],
                [row["env_steps_per_s"] for row in line],
                marker=marker,
                color=f"C{libraries.index(library)}",
                label=f"{library} {key[0]} ({key[1]})",
            )
    axes.set_xlabel("environments in the batch")
    axes.set_ylabel("environment steps a second")
    axes.set_title("One CPU, all in turns in one run; in brackets the numbers of an observation")
    axes.grid(which="major", alpha=0.3)
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=100)
    print(f"written: {path}")


def main() -> None:
    """Check, measure in turns, print, write and draw."""
    parser = arguments(__doc__.splitlines()[0])
    parser.set_defaults(backend="cpu")
    options = parser.parse_args()
    if options.backend == "cuda":
        raise SystemExit("the peers run on the CPU; leave --backend out")
    market = random_walk_market(MARKET_BARS[0])
    contestants = list(fox(market, FOX_ENVS[1:3] if options.quick else FOX_ENVS))
    missing = []
    for name, (module, requirement, _) in PEERS.items():
        if find_spec(module) is None:
            missing.append(
                {"library": name, "state": "not installed", "install": f"pip install {requirement}"}
            )
            continue
        contestants += MAKERS[name](market)
    rounds = measure(contestants, 5 if options.quick else 9)
    bandwidth = copy_bandwidth()
    rows = rows_of(contestants, rounds, bandwidth)
    compared = ratios(contestants, rounds)
    print(f"{len(market)} bars; a copy on one core moves {bandwidth / 1e9:.1f} GB/s")
    print_table("One CPU, all in turns in one run", rows)
    print_table("Fox over its peers, best point against best point", compared)
    print_table("Not measured", missing)
    out = options.out or ROOT / "runs" / "benchmarks" / "env_peers.json"
    tables = {"rounds": len(rounds), "bars": len(market), "copy_bytes_per_s": bandwidth}
    write_json(
        "env_peers",
        out,
        {"fox_env": fox_env.__version__, **tables, "rows": rows, "ratios": compared, "missing": missing},
    )
    plot(rows, out.with_suffix(".png"))


if __name__ == "__main__":
    main()
