"""What a figure draws, recorded once and drawn by each renderer: a walk through all parts of a figure takes longer than
the drawing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from matplotlib.backend_bases import GraphicsContextBase, RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.transforms import Affine2D, Bbox, TransformedPath


class RecordedFigure(Figure):
    """A figure of the size of another that draws what was recorded of that one."""

    def __init__(self, figure: Figure) -> None:
        """Records what `figure`, whose canvas measures text, draws at its own resolution."""
        super().__init__(figsize=tuple(figure.get_size_inches()), dpi=figure.dpi)
        FigureCanvasAgg(self)
        self._recording = _Recording(figure)
        figure.draw(self._recording)

    def draw(self, renderer: RendererBase) -> None:
        """Draws the whole figure, at the renderer's resolution."""
        self._recording.draw_on(renderer, self.dpi)


@dataclass(frozen=True)
class _Target:
    """A renderer, and how many of its pixels are one of the recording's."""

    renderer: Any
    scale: float

    def scaled(self, transform: Any) -> Any:
        """The transform of a path, with its result in the renderer's pixels."""
        return transform + Affine2D().scale(self.scale)

    def graphics_context(self, recorded: GraphicsContextBase) -> GraphicsContextBase:
        """The renderer's own context with the properties of the recorded one; lines are in points in both."""
        context = self.renderer.new_gc()
        context.copy_properties(recorded)
        box = recorded.get_clip_rectangle()
        path: Any  # a path, though matplotlib's types say that it is one with its transform
        path, transform = recorded.get_clip_path()
        if box is not None:
            context.set_clip_rectangle(Bbox(box.get_points() * self.scale))
        if path is not None:
            context.set_clip_path(TransformedPath(path, self.scaled(transform)))
        return context


class _Recording(RendererBase):
    """The calls by which a figure draws, except of images. Text is measured as the figure's own canvas does."""

    def __init__(self, figure: Figure) -> None:
        super().__init__()
        self._dpi = figure.dpi
        canvas: Any = figure.canvas
        self._measuring = canvas.get_renderer()
        self._calls: list[Callable[[_Target], None]] = []

    def draw_on(self, renderer: RendererBase, dpi: float) -> None:
        """Repeats the calls on a renderer of this resolution."""
        target = _Target(renderer, dpi / self._dpi)
        for call in self._calls:
            call(target)

    def flipy(self) -> bool:
        return False

    def get_canvas_width_height(self) -> tuple[float, float]:
        return self._measuring.get_canvas_width_height()

    def points_to_pixels(self, points: Any) -> Any:
        return self._measuring.points_to_pixels(points)

    def get_text_width_height_descent(self, s: str, prop: Any, ismath: Any) -> tuple[float, float, float]:
        return self._measuring.get_text_width_height_descent(s, prop, ismath)

    def open_group(self, s: str, gid: str | None = None) -> None:
        self._calls.append(lambda target: target.renderer.open_group(s, gid))

    def close_group(self, s: str) -> None:
        self._calls.append(lambda target: target.renderer.close_group(s))

    def draw_path(self, gc: GraphicsContextBase, path: Any, transform: Any, rgbFace: Any = None) -> None:
        gc, transform = _copy_context(gc), transform.frozen()
        self._calls.append(
            lambda target: target.renderer.draw_path(
                target.graphics_context(gc), path, target.scaled(transform), rgbFace
            )
        )

    def draw_markers(
        self, gc: GraphicsContextBase, marker_path: Any, marker_trans: Any, path: Any, trans: Any, rgbFace: Any = None
    ) -> None:
        gc, marker_trans, trans = _copy_context(gc), marker_trans.frozen(), trans.frozen()

        def draw(target: _Target) -> None:
            marker, places = target.scaled(marker_trans), target.scaled(trans)
            target.renderer.draw_markers(target.graphics_context(gc), marker_path, marker, path, places, rgbFace)

        self._calls.append(draw)

    def draw_path_collection(
        self, gc: GraphicsContextBase, master_transform: Any, paths: Any, all_transforms: Any, offsets: Any,
        offset_trans: Any, *looks: Any, **more_looks: Any,
    ) -> None:  # fmt: skip
        gc, master, places = _copy_context(gc), master_transform.frozen(), offset_trans.frozen()

        def draw(target: _Target) -> None:
            target.renderer.draw_path_collection(
                target.graphics_context(gc), target.scaled(master), paths, all_transforms, offsets,
                target.scaled(places), *looks, **more_looks,
            )  # fmt: skip

        self._calls.append(draw)

    def draw_text(
        self, gc: GraphicsContextBase, x: float, y: float, s: str, prop: Any, angle: float, ismath: Any = False,
        mtext: Any = None,
    ) -> None:  # fmt: skip
        gc = _copy_context(gc)

        def draw(target: _Target) -> None:
            _, height = target.renderer.get_canvas_width_height()
            place = height - y * target.scale if target.renderer.flipy() else y * target.scale
            target.renderer.draw_text(
                target.graphics_context(gc), x * target.scale, place, s, prop, angle, ismath, mtext
            )

        self._calls.append(draw)


def _copy_context(context: GraphicsContextBase) -> GraphicsContextBase:
    """A context with the same properties: artists go on with theirs."""
    copied = GraphicsContextBase()
    copied.copy_properties(context)
    return copied
