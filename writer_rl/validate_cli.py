"""`writer-rl validate`: checks, an estimate for a device, and, if asked, one round without a model's words."""

from __future__ import annotations

from typing import Annotated

import typer

from writer_rl.told import told


def validate(
    recipe: Annotated[str, typer.Argument(help="a file, or a bundled recipe's name")],
    overrides: Annotated[list[str] | None, typer.Argument(help="key=value, for example grpo.rounds=2")] = None,
    gpu: Annotated[str | None, typer.Option(help="estimate for H100, A100-80, L4, ..., cpu; none: what is here")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="walk one round with replayed completions")] = False,
    resolved: Annotated[bool, typer.Option("--resolved", help="print the recipe with every default first")] = False,
) -> None:
    """Check a recipe before it is launched, and estimate memory, tokens, time, LLM calls and cost."""
    from transformers.utils.logging import disable_progress_bar

    from writer_rl import dry_run as walking
    from writer_rl import recipe as recipes
    from writer_rl import validate as checks
    from writer_rl.estimate_page import estimate
    from writer_rl.estimates import device_named

    disable_progress_bar()
    with told():
        device = device_named(gpu or here())
        loaded = recipes.load(recipe, overrides or [])
        if resolved:
            print(loaded.to_yaml())
        checked = checks.validate(loaded, lambda finding: print(*checks.lines([finding]), sep="\n", flush=True))
        if checked.shape is not None and checked.written:
            print(*estimate(loaded, checked.shape, checked.written, device), sep="\n", flush=True)
        if checked.failed:
            raise typer.Exit(2)
        if dry_run:
            print(walking.told(walking.dry_run(checked)))


def here() -> str:
    """The device of the table that this machine has, or the nearest in memory; `cpu` without a GPU."""
    import torch

    from writer_rl.estimates import DEVICES, Device

    if not torch.cuda.is_available():
        return "cpu"
    properties = torch.cuda.get_device_properties(0)

    def distance(one: Device) -> tuple[bool, float]:
        return one.name.split("-")[0] not in properties.name, abs(one.memory - properties.total_memory)

    return min((one for one in DEVICES.values() if not one.host), key=distance).name
