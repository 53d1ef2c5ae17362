"""How far runs are: bars on a terminal, lines elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TaskID, TextColumn

from deploy.cli.output import status_console
from experiments.schedule import Observer, State


@contextmanager
def progress(total: int, *, quiet: bool = False) -> Iterator[Observer]:
    """Show bars of all runs and of those under way on a terminal, a line for each run elsewhere."""
    if quiet:
        yield lambda _state, _line: None
        return
    if not status_console.is_terminal:
        yield _line
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=status_console) as shown:
        task = shown.add_task("runs", total=total, left="")
        bars: dict[str, TaskID] = {}

        def observe(state: State, line: str) -> None:
            if line:
                shown.console.print(line, highlight=False, markup=False)
            ended = _ended(state)
            shown.update(task, completed=ended, left=f"{ended} of {total}, {_time_left(state)}")
            for name in bars.keys() - state.running.keys():
                shown.remove_task(bars.pop(name))
            for name, share in state.running.items():
                if name not in bars:
                    bars[name] = shown.add_task(f"  {name}", total=1.0, left="")
                shown.update(bars[name], completed=share, left=f"{share:.0%} of its rounds")

        yield observe


def _line(state: State, line: str) -> None:
    if line:
        text = f"[{_ended(state)}/{state.total}] {line}; {_time_left(state)}"
        status_console.print(text, highlight=False, markup=False, soft_wrap=True)


def _ended(state: State) -> int:
    return len(state.done) + len(state.failed)


def _time_left(state: State) -> str:
    seconds = state.seconds_left
    if seconds is None:
        return "time left not known yet"
    minutes = seconds / 60
    return f"about {minutes:.0f} min left" if minutes < 90 else f"about {minutes / 60:.1f} h left"
