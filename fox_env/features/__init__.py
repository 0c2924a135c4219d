"""Causal, scale-free features of bars: the market, order-flow and multi-timeframe blocks."""

from fox_env.features.cache import load_or_build
from fox_env.features.declare import Feature, Inputs
from fox_env.features.evaluation import evaluate
from fox_env.features.order_flow import N_RESERVED, RECORDED
from fox_env.features.table import CLIP, FEATURES, N_FEATURES, WARMUP, as_markdown

__all__ = [
    "CLIP",
    "FEATURES",
    "N_FEATURES",
    "N_RESERVED",
    "RECORDED",
    "WARMUP",
    "Feature",
    "Inputs",
    "as_markdown",
    "evaluate",
    "load_or_build",
]
