"""regard.patching against single patches, its tables and its picture."""

from io import StringIO

import pytest
import torch
from rich.console import Console
from torch import Tensor, nn

import regard
from regard.interventions import patch
from tests.support.edited_attention import Layer


class Model(nn.Module):
    """Two attention calls of different modules, and a module that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.twice = Layer("sdpa"), Layer("eager")

    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        return self.twice(self.twice(self.first(x))) * scale


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.manual_seed(0)
    return Model()


def metric(out: Tensor) -> Tensor:
    return out[:, -1].sum()


def test_each_value_is_the_share_that_one_patch_recovers(model: nn.Module) -> None:
    clean, corrupted = torch.randn(2, 2, 5, 12)
    result = regard.patching(model, clean, corrupted, metric)
    assert result.values.shape == (3, 4)
    assert result.modules == ["first", "twice", "twice"]
    with torch.no_grad(), regard.watch(model) as seen:
        assert result.clean == pytest.approx(float(metric(model(clean))), abs=1e-5)
    with torch.no_grad(), regard.intervene(model, {"first": patch(seen, "output", heads=2)}):
        patched = float(metric(model(corrupted)))
    assert float(result.metrics[0, 2]) == pytest.approx(patched, abs=1e-5)
    share = (patched - result.corrupted) / (result.clean - result.corrupted)
    assert float(result.values[0, 2]) == pytest.approx(share, abs=1e-4)
    # After the last attention call the model is linear, so that the shares of its heads and queries add up.
    by_query = regard.patching(model, clean, corrupted, metric, by="head, query")
    assert by_query.values.shape == (3, 4, 5)
    assert float(result.values[2].sum()) == pytest.approx(1.0, abs=1e-4)
    assert (by_query.values[2, :, :-1].abs() < 1e-5).all()
    torch.testing.assert_close(by_query.values[2, :, -1], result.values[2], atol=1e-4, rtol=1e-4)
    assert by_query.largest(1)[0].keys() == {"call", "head", "query", "recovered"}


def test_inputs_may_be_tuples_and_dicts(model: nn.Module) -> None:
    clean, corrupted = torch.randn(2, 2, 5, 12)
    expected = regard.patching(model, clean, corrupted, metric).values
    for wrap in (lambda x: (x, 2.0), lambda x: {"x": x, "scale": 2.0}):
        torch.testing.assert_close(regard.patching(model, wrap(clean), wrap(corrupted), metric).values, expected)


def test_tables_and_pictures(model: nn.Module) -> None:
    clean, corrupted = torch.randn(2, 1, 3, 12)
    for by, words in (("head", ["twice #2", "%"]), ("head, query", ["query", "recovered"])):
        result = regard.patching(model, clean, corrupted, metric, by=by)
        console = Console(width=100, record=True, file=StringIO())
        console.print(result.table())
        text = console.export_text()
        assert all(word in text for word in words), text
        picture = result.picture(title="Who matters")
        assert "<svg" in picture.svg()
        rows = [label.get_text() for label in picture.figure.axes[0].get_yticklabels()]
        assert len(rows) == (3 if by == "head" else 12)


def test_the_picture_shows_the_sign_of_effects_and_all_of_its_title() -> None:
    result = regard.watching.interventions.activation_patching.PatchingResult(
        torch.tensor([[0.8, -0.8]]), ["layers.0"], 1.0, 0.0
    )
    for title in (None, "Heads of the model that matter for this question, and those that do not"):
        figure = result.picture(title=title).figure
        figure.canvas.draw()
        box, whole = figure._suptitle.get_window_extent(), figure.bbox
        assert whole.x0 <= box.x0
        assert box.x1 <= whole.x1
    (image,) = figure.axes[0].images
    red, _, blue, _ = image.to_rgba(image.get_array())[0].T
    assert blue[0] > red[0]  # 0.8 is blue, −0.8 orange
    assert blue[1] < red[1]
