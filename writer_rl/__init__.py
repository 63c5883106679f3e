"""What learns and what people call. `writer_rl.Memory` is the memory as a tool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from writer_rl.memory import Memory

__all__ = ["Memory"]


def __getattr__(name: str) -> Any:
    """Imported on first use: training does not pay for the memory, nor the memory for training."""
    if name == "Memory":
        from writer_rl.memory import Memory

        return Memory
    raise AttributeError(f"module 'writer_rl' has no attribute {name!r}")
