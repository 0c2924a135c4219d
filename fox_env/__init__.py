"""Fox: a batched futures-trading environment with one trading physics on CPU and GPU.

Importing the package registers ``Fox-Futures-v0``, ``Fox-FuturesDiscrete-v0`` and ``Fox-FuturesContinuous-v0``.
"""

from fox_env import metrics, synthetic
from fox_env.bars import Bars
from fox_env.config import EnvConfig
from fox_env.continuous import Roll, continuous, roll_schedule
from fox_env.contracts import ContractSpec, load_contracts
from fox_env.errors import ActionError, BackendError, ConfigError, DataError, FoxError
from fox_env.market import Market
from fox_env.readers import list_symbols, read_bars, read_symbols, write_bars
from fox_env.reading.resample import resample
from fox_env.registration import register_envs
from fox_env.single_env import FoxFuturesEnv
from fox_env.validation import validate_bars
from fox_env.vector_env import FoxFuturesVectorEnv

__all__ = [
    "ActionError",
    "BackendError",
    "Bars",
    "ConfigError",
    "ContractSpec",
    "DataError",
    "EnvConfig",
    "FoxError",
    "FoxFuturesEnv",
    "FoxFuturesVectorEnv",
    "Market",
    "Roll",
    "continuous",
    "list_symbols",
    "load_contracts",
    "metrics",
    "read_bars",
    "read_symbols",
    "resample",
    "roll_schedule",
    "synthetic",
    "validate_bars",
    "write_bars",
]

__version__ = "0.1.0"

register_envs()
