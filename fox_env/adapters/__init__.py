"""Fox under other libraries: one module a library, imported only when its name is asked for.

:mod:`fox_env.adapters.sb3` (Stable-Baselines3 and sb3-contrib), :mod:`fox_env.adapters.torchrl` and
:mod:`fox_env.adapters.tianshou`. Gymnasium's own wrappers need none; ``docs/adapters.md`` shows them all.
"""
