"""The batched environment: a Gymnasium vector environment over one backend."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike

from fox_env import _layout
from fox_env.actions import ActionReader, action_space
from fox_env.allocation import allocate_batch
from fox_env.arguments import (
    RENDER_FPS,
    RENDER_MODES,
    check_arguments,
    first_seed,
    merge_config,
    read_autoreset_mode,
    read_mask,
    read_start,
    refuse_ended,
    refuse_faults,
)
from fox_env.backends import Backend, ClosedBackend
from fox_env.config import EnvConfig
from fox_env.device_metrics import BatchMetrics, read_metrics, require_metrics
from fox_env.errors import ActionError, FoxError
from fox_env.idle_options import warn_of_idle_options
from fox_env.knobs import KNOBS, check_knob, initial_knobs, with_physics_knobs
from fox_env.market import Market
from fox_env.markets import resolve_markets
from fox_env.params import seed_arrays
from fox_env.render import Recorder
from fox_env.rollout import Rollout, RolloutCollector
from fox_env.state import read_state, write_state
from fox_env.step_values import StepReader, StepValues
from fox_env.trades import trades_frame

if TYPE_CHECKING:
    import polars as pl
    import torch

__all__ = ["FoxFuturesVectorEnv"]


class FoxFuturesVectorEnv(VectorEnv[Any, Any, Any]):
    """``num_envs`` futures accounts that trade one market, or several, stepped together.

    Parameters
    ----------
    num_envs
        Number of accounts N.
    market
        A :class:`~fox_env.Market`, the name of a synthetic one or the path of a file; None: ``"regimes:seed=0"``.
    config
        Options of the account; any option may also be given by name.
    markets
        Several markets instead of ``market``, with contracts of their own; ``bar_index`` counts within each.
    market_of
        (N,) index of the market of each environment, with ``markets``; None deals them out in turn.
    contract
        Name of the contract of every market that is a path, or a list with one for each of ``markets``; None: the one
        that a prepared file holds, else ES. Money is in the currency of each account's contract.
    read_hints
        Arguments of :meth:`~fox_env.Market.from_file` for every market that is a path, such as ``{"tz": "UTC"}``.
    backend
        ``"cpu"``, ``"cuda"``, or ``"auto"`` for the GPU where there is one.
    output
        ``"numpy"`` or ``"torch"``; torch tensors lie on the backend's device and are ready in stream order.
    autoreset_mode
        A Gymnasium :class:`~gymnasium.vector.AutoresetMode`; None means NEXT_STEP.
    seed
        Seed of the first reset where ``reset`` is given none.
    copy
        True: returned arrays are the caller's; those of an info lie in one block of memory, which stays while one of
        them is kept. False: they are views, valid until the next step.
    info_level
        ``"full"``, ``"learn"`` (what a learner needs: branch_active, bar_index) or ``"none"``.
    action_type
        ``"branches"`` (MultiDiscrete([4, 3, 3, 3])), ``"discrete"`` (8 exposures) or ``"continuous"`` (a target in
        [-1, 1]).
    trade_capacity
        Trades kept for each account; None chooses for ``info_level="full"`` and keeps none otherwise.
    metrics
        Add up the performance of every account as it steps, for :meth:`metrics`.
    max_episode_steps
        Gymnasium's name for ``horizon``; the smaller of both holds.
    render_mode
        ``"ansi"``, ``"rgb_array"``, ``"human"`` (environment 0 in a window, at every step) or None.
    threads
        CPU threads; None uses all of them.
    **options
        Fields of :class:`~fox_env.EnvConfig` by name.

    Notes
    -----
    Observations are (N, 128) float32 in [-10, 10]; rewards (N,) float32; both flags (N,) bool. Environment ``i`` of
    ``reset(seed=s)`` draws from the counter (i, episode, step, purpose) under the key splitmix64(s), so its path
    depends neither on N nor on the device. ``reset(seed=[...])`` gives every environment a key of its own.

    Examples
    --------
    >>> import fox_env
    >>> env = fox_env.FoxFuturesVectorEnv(4, "regimes:seed=0", horizon=100, backend="cpu")
    >>> obs, info = env.reset(seed=7)
    >>> obs.shape
    (4, 128)
    """

    metadata: dict[str, Any] = {
        "render_modes": list(RENDER_MODES),
        "render_fps": RENDER_FPS,
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        num_envs: int = 1,
        market: Market | str | os.PathLike[str] | None = None,
        config: EnvConfig | None = None,
        *,
        markets: Sequence[Market | str | os.PathLike[str]] | None = None,
        market_of: ArrayLike | None = None,
        contract: str | Sequence[str | None] | None = None,
        read_hints: Mapping[str, Any] | None = None,
        backend: str = "auto",
        output: str = "numpy",
        autoreset_mode: AutoresetMode | str | None = None,
        seed: int | None = None,
        copy: bool = True,
        info_level: str = "full",
        action_type: str = "branches",
        trade_capacity: int | None = None,
        metrics: bool = False,
        max_episode_steps: int | None = None,
        render_mode: str | None = None,
        threads: int | None = None,
        **options: Any,
    ) -> None:
        self._arguments = {
            key: value for key, value in locals().items() if key not in ("self", "options", "__class__")
        }
        self._arguments.update(options)
        check_arguments(num_envs, output, info_level, render_mode, trade_capacity, threads, metrics)
        self.num_envs = int(num_envs)
        self.markets, self.market_of = resolve_markets(
            market, markets, market_of, contract, read_hints, num_envs
        )
        self._bars = np.array([len(m) for m in self.markets])[self.market_of]
        self.config = merge_config(config, options, max_episode_steps)
        warn_of_idle_options(self.config, action_type)
        self.autoreset_mode = read_autoreset_mode(autoreset_mode)
        self.metadata = {**type(self).metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = render_mode
        limit = float(_layout.Observation.LIMIT)
        self.single_observation_space = gym.spaces.Box(
            -limit, limit, (int(_layout.Observation.SIZE),), np.float32
        )
        self.single_action_space = action_space(action_type)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

        self._action_type = action_type
        self._copy = copy
        self._torch = output == "torch"
        self._seed = seed
        self._needs_reset = True
        self._collector: RolloutCollector | None = None
        self._backend: Backend = allocate_batch(
            self.config,
            self.markets,
            self.market_of,
            backend=backend,
            torch_output=self._torch,
            autoreset_mode=self.autoreset_mode,
            info_level=info_level,
            action_type=action_type,
            trade_capacity=trade_capacity,
            metrics=metrics,
            threads=threads,
        )
        self._reader = StepReader(self._backend.plan, copy=copy, torch_output=self._torch)
        self.device = self._backend.device
        self._actions = ActionReader(self._backend, self.single_action_space, self.config.validate_actions)
        self._knobs: dict[str, float] = {}
        for name, value in initial_knobs(self.config).items():
            self.set_knob(name, value)
        self._recorder = None if render_mode is None else self._make_recorder(render_mode)

    # ---- Gymnasium's calls -----------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin new episodes.

        Parameters
        ----------
        seed
            An integer for the batch, or one for every environment. Seeding also clears the trade ledger and the
            episode count. None goes on with the present random numbers, or draws entropy at the first reset.
        options
            ``start``: (N,) decision bars, each from 0 to T - 2 of its market; negative entries are drawn.
            ``reset_mask``: (N,) bool, the environments to reset; the others keep their episode and return their
            present observation.

        Returns
        -------
        observation, info
            (N, 128) float32 and the info of the new state.

        Raises
        ------
        ActionError
            If a start or a mask does not fit the batch.
        """
        mask = read_mask(options or {}, self.num_envs)
        start = read_start(options or {}, self._bars)
        if self._needs_reset and mask is not None and not mask.all():
            raise ActionError(
                "the first reset must reset every environment; call reset() without a mask first"
            )
        if seed is None and self._needs_reset:
            seed = first_seed(self._seed)
        keys = streams = None
        if seed is not None:
            keys, streams = seed_arrays(seed, self.num_envs)
            super().reset(seed=int(np.atleast_1d(np.asarray(seed, dtype=object))[0]))
        self._backend.reset(mask, start, keys, streams)
        self._needs_reset = False
        obs, *_, info = self._values(stepped=False)
        return obs, info

    def step(self, actions: Any, conviction: Any | None = None) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Advance every environment by one bar.

        Parameters
        ----------
        actions
            (N, 4) integers, (N,) integers or (N,) / (N, 1) float32, by ``action_type``; torch tensors on the
            environment's device are used in place.
        conviction
            Optional (N,) factor in [0, 1] on the target's size.

        Returns
        -------
        observation, reward, terminated, truncated, info

        Raises
        ------
        ActionError
            For host actions outside the action space (before anything changes), for device actions outside it (at
            the next call), and for a step before the first reset or, in DISABLED mode, after an end.
        """
        self._advance(actions, conviction)
        return self._values(stepped=True)

    def _advance(self, actions: Any, conviction: Any | None = None) -> None:
        self._refuse_unready("step")
        values, action_format, factor = self._actions.read(actions, conviction)
        if self.autoreset_mode == AutoresetMode.DISABLED and (self.device == "cpu" or not self._torch):
            # Elsewhere the kernel raises a sticky fault instead: nothing waits for it.
            refuse_ended(self._backend.read("state.done"))
        self._backend.step(values, action_format, factor)

    def _refuse_unready(self, call: str) -> None:
        if self._needs_reset:
            raise ActionError(f"{call}() was called before reset(); call reset() first")
        refuse_faults(self._backend.take_faults())

    def close_extras(self, **kwargs: Any) -> None:
        """Free the batch's memory; the environment cannot be used any more."""
        self._collector = None
        if self._recorder is not None:
            self._recorder.close()
            self._recorder = cast("Recorder", ClosedBackend())
        self._backend.close()
        self._backend = cast("Backend", ClosedBackend())
        self._actions = cast("ActionReader", ClosedBackend())  # the reader keeps the backend

    def render(self) -> tuple[Any, ...] | None:
        """One text or picture an environment, by ``render_mode``; None for "human", which shows every step itself."""
        return None if self._recorder is None else self._recorder.frames()

    # ---- what Fox adds ---------------------------------------------------------------------------------------

    @property
    def market(self) -> Market:
        """The market of a batch that trades one.

        Raises
        ------
        FoxError
            If it trades several.
        """
        if len(self.markets) > 1:
            raise FoxError(
                f"this batch trades {len(self.markets)} markets; use env.markets and env.market_of"
            )
        return self.markets[0]

    @property
    def knobs(self) -> dict[str, dict[str, Any]]:
        """Name -> kind (``physics`` acts in both modes, ``training`` only while training) and present value."""
        return {name: {"kind": KNOBS[name].kind, "value": value} for name, value in self._knobs.items()}

    def set_knob(self, name: str, value: float) -> None:
        """Write a knob in device memory, in stream order; a captured CUDA graph sees it at its next launch.

        Raises
        ------
        ConfigError
            For an unknown name, a value outside the knob's range, or a stop's distance where there are no stops.
        """
        self._knobs[name] = check_knob(name, value, self.config)
        self._backend.set_knob(_layout.Knob[name.upper()], self._knobs[name])

    @property
    def present_config(self) -> EnvConfig:
        """``config`` with the physics knobs at their present values: the rules that belong to a policy."""
        return with_physics_knobs(self.config, self._knobs)

    def rollout(
        self, policy: Callable[[torch.Tensor], Any], steps: int, *, copy: bool | None = None, **options: Any
    ) -> Rollout:
        """Let a torch ``policy`` play ``steps`` steps from the present state, on a GPU as one CUDA graph.

        Needs ``output="torch"`` and an autoreset mode that resets. ``copy`` stands for the environment's own; the
        options and the errors are those of :meth:`fox_env.rollout.RolloutCollector.collect`.
        """
        self._refuse_unready("rollout")
        if self._collector is None:
            self._collector = RolloutCollector(self.device, self.outputs, self.autoreset_mode)
        copy = self._copy if copy is None else copy
        return self._collector.collect(self._advance, policy, steps, copy=copy, **options)

    def action_masks(self) -> Any:
        """Distinct legal actions of the present state: (N, 13) bool for branches, (N, 8) for exposures.

        When flat, Hold and Flat are one action; at the target, Hold and Long are: only the first counts.

        Raises
        ------
        FoxError
            For the continuous action space, which has none.
        """
        if self._action_type == "continuous":
            raise FoxError(
                "a continuous action space has no action masks; use action_type='branches' or 'discrete'"
            )
        return self._backend.masks(self._action_type == "discrete")

    def trades(self) -> pl.DataFrame:
        """Every finished trade since the last seeding, as a polars frame ordered by environment and time.

        Raises
        ------
        FoxError
            If the environment keeps no trades (``trade_capacity=0``).
        """
        if "ledger" not in self._backend.plan.slots:
            raise FoxError(
                "this environment keeps no trades; make it with info_level='full' or a trade_capacity"
            )
        ledger, counts = self._backend.read("ledger"), self._backend.read("state.ledger_count")
        return trades_frame(ledger, counts, self.markets, self.market_of)

    def metrics(self) -> BatchMetrics:
        """Performance of every account and of all together since the last seeding or :meth:`reset_metrics`.

        Raises
        ------
        FoxError
            If the environment keeps none (``metrics=False``).
        """
        return read_metrics(self._backend, self.markets, self.market_of, self.config.initial_cash)

    def reset_metrics(self) -> None:
        """Begin the figures of :meth:`metrics` anew, in stream order; the episodes go on."""
        require_metrics(self._backend)
        self._backend.clear_metrics()

    def state_dict(self) -> dict[str, Any]:
        """The exact state as NumPy arrays by name: accounts, random counters, knobs, trades, metrics, observation."""
        state = read_state(self._backend, self.markets, self.market_of, self.config)
        return {**state, "needs_reset": np.array([self._needs_reset])}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state_dict`` was taken, in any autoreset mode and on any backend.

        Raises
        ------
        ConfigError
            If the state is of another batch or market: the first array that is missing or does not fit.
        """
        write_state(self._backend, state, self.markets, self.market_of, self.config)
        self._needs_reset = bool(np.asarray(state["needs_reset"]).any())
        self._knobs = dict(zip(KNOBS, np.asarray(state["knobs"]).tolist(), strict=True))

    @property
    def outputs(self) -> dict[str, Any]:
        """Every output array by name (``obs``, ``info.equity``, ...): views, valid until the next step."""
        return self._backend.outputs()

    @property
    def observation(self) -> Any:
        """The present observation, (N, 128) float32: what the last reset, step or load left."""
        if self._torch:
            return self._backend.outputs()["obs"].clone()
        return self._backend.read("obs")

    # ---- pickling --------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        return {"arguments": self._arguments, "state": self.state_dict(), "spec": self.spec}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        self.__init__(**saved["arguments"])  # type: ignore[misc]
        self.load_state_dict(saved["state"])
        self.spec = saved["spec"]

    def __deepcopy__(self, memo: dict[int, Any]) -> FoxFuturesVectorEnv:
        twin = type(self)(**self._arguments)
        twin.load_state_dict(self.state_dict())
        twin.spec = self.spec
        return twin

    # ---- helpers ---------------------------------------------------------------------------------------------

    def _make_recorder(self, mode: str) -> Recorder:
        return Recorder(
            [self.markets[m] for m in self.market_of],
            mode,
            targets=self.config.profit_target_atr is not None,
            read=self._backend.read,
            keeps_trades="ledger" in self._backend.plan.slots,
        )

    def _values(self, *, stepped: bool) -> StepValues:
        values = self._reader.read(self._backend, stepped=stepped)
        if self._recorder is not None:
            self._recorder.record(values[-1])
        return values
