"""Whether the agent fits into memory, asked before anything is allocated."""

import os

import torch

from fox_env.errors import ConfigError

__all__ = ["require_memory"]

_GIB = 2**30


def require_memory(needed: int, what: str, mend: str, device: torch.device) -> None:
    """ConfigError when ``what`` takes more bytes than ``device`` has in all.

    Parameters
    ----------
    needed : int
        Bytes.
    what, mend : str
        What takes them, and the settings to lower.
    device : torch.device
        A GPU, or the CPU for the machine's main memory.
    """
    if device.type == "cuda":
        total = torch.cuda.mem_get_info(device)[1]
    else:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > total:
        raise ConfigError(
            f"{what} takes {needed / _GIB:,.1f} GiB and the {device.type} has {total / _GIB:,.1f} GiB; {mend}"
        )
