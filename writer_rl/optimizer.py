"""The optimizer and the learning rate schedule."""

from __future__ import annotations

from typing import Literal

from torch import nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR

Schedule = Literal["constant", "linear"]


def build_optimizer(model: nn.Module, lr: float, weight_decay: float = 0.0) -> AdamW:
    """AdamW over the trainable parameters; norms and biases (everything below two dimensions) are not decayed."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [parameter for parameter in trained if parameter.ndim >= 2], "weight_decay": weight_decay},
        {"params": [parameter for parameter in trained if parameter.ndim < 2], "weight_decay": 0.0},
    ]
    return AdamW([group for group in groups if group["params"]], lr=lr, fused=True)


def build_scheduler(optimizer: AdamW, schedule: Schedule = "constant", steps: int = 0, warmup_steps: int = 0) -> LambdaLR:
    """`constant`, or `linear` decay to 0 at `steps`; both rise linearly over the first `warmup_steps` steps."""

    def factor(step: int) -> float:
        if step < warmup_steps:
            return (step + 1) / warmup_steps
        if schedule == "constant":
            return 1.0
        return max(0.0, (steps - step) / max(1, steps - warmup_steps))

    return LambdaLR(optimizer, factor)
