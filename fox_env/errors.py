"""The exceptions a user of Fox can meet; each message names what is wrong, where, and the mend."""

__all__ = ["ActionError", "BackendError", "ConfigError", "DataError", "FoxError"]


class FoxError(Exception):
    """Base class of every error that Fox raises on purpose."""


class DataError(FoxError, ValueError):
    """Market data that cannot be read or are not usable."""


class ConfigError(FoxError, ValueError):
    """An unknown or ill-typed option, contract or preset."""


class ActionError(FoxError, ValueError):
    """An action outside the action space, or a step that the environment's state does not allow."""


class BackendError(FoxError, RuntimeError):
    """A missing compiler output, GPU, driver or library."""
