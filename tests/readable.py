"""Whether a figure can be read: every text inside, apart from the others, and large enough."""

from io import BytesIO
from itertools import combinations

from matplotlib.text import Text

from ceiling.plots.style import COLUMN, FONT, PAGE, style

SLACK = 2.0  # pixels a glyph's box may stand over the edge by rounding


def assert_readable(figure, monkeypatch):
    """Draw `figure` and look at the texts that are drawn; a tick beyond the axis has a label that is not."""
    drawn = []

    def draw(text, renderer, original=Text.draw):
        if text.get_visible() and text.get_text():
            drawn.append(text)
        original(text, renderer)

    monkeypatch.setattr(Text, "draw", draw)
    with style():
        figure.savefig(BytesIO(), format="png")
    assert figure.get_size_inches()[0] in (COLUMN, PAGE)
    width, height = figure.canvas.get_width_height()
    boxes = {text: text.get_window_extent() for text in drawn}
    assert len(boxes) > 5
    for (a, first), (b, second) in combinations(boxes.items(), 2):
        assert not first.padded(-SLACK).overlaps(second.padded(-SLACK)), (a, b)
    for text, box in boxes.items():
        assert text.get_fontsize() >= FONT, text
        assert min(box.x0, box.y0) >= -SLACK, text
        assert box.x1 <= width + SLACK, text
        assert box.y1 <= height + SLACK, text
