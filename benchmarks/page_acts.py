"""What a hand does in the views of a report."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from page_measure import Act

if TYPE_CHECKING:
    from page_measure import Stage

TIMELINE = "canvas.tp-stage-canvas"
FLAME = "canvas.tp-flame-canvas"
GRID = ".tp-grid"
PLOT = ".tp-plot .u-over"
SEARCH = ".tp-search:visible"
ZOOM_PX = 60
PAN_PX = 60
NOTCH_PX = 120  # of a wheel
TURN_AFTER = 30  # inputs, then a pan or a zoom comes back


class Turn(NamedTuple):
    """Another shape of the flame graph: the button that turns to it, and what is in the page once it is painted."""

    button: str
    painted: str


class View(NamedTuple):
    """A tab, what is in the page once it is painted, and the acts."""

    tab: str
    painted: str
    acts: tuple[Act, ...]


def pan(stage: Stage, at: int) -> None:
    """Turn the wheel sideways."""
    stage.page.mouse.wheel(PAN_PX * _direction(at), 0)


def zoom(stage: Stage, at: int) -> None:
    """Turn the wheel with Ctrl held."""
    stage.page.keyboard.down("Control")
    stage.page.mouse.wheel(0, -ZOOM_PX * _direction(at))
    stage.page.keyboard.up("Control")


def _direction(at: int) -> int:
    return 1 if at // TURN_AFTER % 2 == 0 else -1


def _scroll(stage: Stage, at: int) -> None:
    stage.page.mouse.wheel(0, NOTCH_PX * _direction(at))


def hover(selector: str, height: float = 0.9) -> Act:
    """Return moves of the pointer over an element."""

    def move(stage: Stage, at: int) -> None:
        stage.page.mouse.move(*stage.point(selector, 0.2 + at * 7 % 70 / 100, 0.06 + at * 13 % 100 / 100 * height))

    return Act(name="hover", do=move)


def click(selector: str, height: float = 0.5) -> Act:
    """Return clicks at different points in an element."""

    def click_at(stage: Stage, at: int) -> None:
        stage.page.mouse.click(*stage.point(selector, 0.2 + at * 17 % 70 / 100, 0.06 + at * 7 % 30 / 30 * height))

    return Act(name="select", do=click_at, is_stream=False)


def type_word(word: str) -> Act:
    """Return the typing of a word into the search box, letter by letter, and its deletion."""
    keys = [*word, *["Backspace"] * len(word)]
    return Act(
        name="search",
        do=lambda stage, at: stage.press(keys[at % len(keys)]),
        prepare=_empty_search,
        finish=_empty_search,
        is_stream=False,
        times=len(keys),
    )


def _empty_search(stage: Stage) -> None:
    stage.root.locator(SEARCH).fill("")


def _next_match(word: str) -> Act:
    return Act(
        name="next match",
        do=lambda stage, _: stage.press("Enter"),
        prepare=lambda stage: stage.root.locator(SEARCH).fill(word),
        finish=_empty_search,
        is_stream=False,
    )


def _clear(stage: Stage, canvas: str) -> None:
    """Leave the search, the range, the zoom and the selection; the keys then belong to the canvas."""
    stage.root.locator(SEARCH).fill("")
    stage.root.locator(canvas).focus()
    stage.press(*["Escape"] * 6, "0")
    stage.page.mouse.move(*stage.point(canvas, 0.5, 0.3))


def on(canvas: str, act: Act, *keys: str) -> Act:
    """Return an act that begins with the whole picture, after some keys."""

    def prepare(stage: Stage) -> None:
        _clear(stage, canvas)
        stage.press(*keys)
        act.prepare(stage)

    return replace(act, prepare=prepare)


def show_step(stage: Stage) -> None:
    """Show one step of the timeline."""
    stage.root.get_by_role("button", name="Step", exact=True).click()
    stage.root.locator(TIMELINE).focus()
    stage.page.mouse.move(*stage.point(TIMELINE, 0.5, 0.3))


def _begin_range(stage: Stage) -> None:
    stage.page.mouse.move(*stage.point(TIMELINE, 0.15, 0.3))
    stage.page.mouse.down()


def _stretch_range(stage: Stage, at: int) -> None:
    stage.page.mouse.move(*stage.point(TIMELINE, 0.2 + at % 70 / 100, 0.3))


def _end_range(stage: Stage) -> None:
    stage.page.mouse.up()
    _clear(stage, TIMELINE)


def _sort(stage: Stage, at: int) -> None:
    """Click on each head twice."""
    heads = stage.root.locator("[data-tp-column]:visible")
    heads.nth(at // 2 % heads.count()).click()


def _over_grid(stage: Stage) -> None:
    stage.page.mouse.move(*stage.point(GRID, 0.3, 0.5))


def _table_acts(word: str) -> tuple[Act, ...]:
    return (
        Act(name="scroll", do=_scroll, prepare=_over_grid),
        hover(GRID),
        Act(name="sort", do=_sort, is_stream=False),
        type_word(word),
        click(GRID),
    )


def _drag_in_plot(stage: Stage, at: int) -> None:
    """Choose a range, or give it up again."""
    if at % 2:
        stage.press("Escape")
        return
    stage.page.mouse.move(*stage.point(PLOT, 0.3, 0.5))
    stage.page.mouse.down()
    stage.page.mouse.move(*stage.point(PLOT, 0.6, 0.5), steps=4)
    stage.page.mouse.up()


MOVES = (
    on(TIMELINE, Act(name="pan half", do=pan), "w", "w"),
    on(TIMELINE, Act(name="pan a step", do=pan, prepare=show_step)),
    on(TIMELINE, Act(name="zoom", do=zoom)),
)
VIEWS = (
    View(
        "timeline",
        f"{TIMELINE}[data-tp-painted]",
        (
            *MOVES,
            on(TIMELINE, hover(TIMELINE, 0.4)),
            on(TIMELINE, Act(name="draw a range", do=_stretch_range, prepare=_begin_range, finish=_end_range)),
            on(TIMELINE, click(TIMELINE, 0.3)),
            on(TIMELINE, type_word("op_12")),
            on(TIMELINE, _next_match("addmm")),
        ),
    ),
    View(
        "flame",
        f"{FLAME}[data-tp-painted]",
        (
            on(FLAME, Act(name="pan", do=pan), *["w"] * 4),
            on(FLAME, Act(name="zoom", do=zoom)),
            on(FLAME, hover(FLAME, 0.4)),
            on(FLAME, click(FLAME, 0.3)),
            on(FLAME, type_word("op_12")),
            on(FLAME, _next_match("op_12")),
        ),
    ),
    View("ops", "[data-tp-row]", _table_acts("op_12")),
    View("source", "[data-tp-row]", _table_acts("model")),
    View("modules", "[data-tp-row]", _table_acts("block")),
    View("memory", PLOT, (hover(PLOT), Act(name="choose a range", do=_drag_in_plot, is_stream=False))),
)

TURNS = (
    Turn("Inverted", f"{FLAME}[data-tp-painted]"),
    Turn("In time order", f"{TIMELINE}[data-tp-painted]"),
)
SELECTED = f'{TIMELINE}:not([data-tp-row="-1"])'
