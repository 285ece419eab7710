"""What every picture has: endings, themes, notebooks, fonts, colours."""

import re
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import torch
from PIL import Image

from regard.pictures import THEMES, Picture, colour_table, fonts, weight_bars, weight_heatmap

WORDS = ["The", "cat", "sat"]


def bars(**options: object) -> Picture:
    return weight_bars([0.1, 0.7, 0.2], WORDS, **options)


class TestSaving:
    @pytest.mark.parametrize(
        ("ending", "start"),
        [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF"), (".html", b"<!DOCTYPE html>")],
    )
    def test_the_ending_determines_the_format(self, tmp_path: Path, ending: str, start: bytes) -> None:
        path = bars().save(tmp_path / f"x{ending}")
        assert path.read_bytes().startswith(start)
        assert [p.name for p in tmp_path.iterdir()] == [f"x{ending}"]  # nothing temporary is left

    def test_other_endings_are_rejected_and_no_file_is_written(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match=r"saved as \.png, \.svg, \.pdf or \.html, got 'x\.gif'"):
            bars().save(tmp_path / "x.gif")
        assert not list(tmp_path.iterdir())

    def test_files_are_replaced_atomically(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "x.svg"
        path.write_text("before")
        monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
        with pytest.raises(OSError, match="full"):
            bars().save(path)
        assert path.read_text() == "before"
        assert len(list(tmp_path.iterdir())) == 1

    def test_the_same_picture_gives_the_same_file(self, tmp_path: Path) -> None:
        one, two = bars().save(tmp_path / "1.svg"), bars().save(tmp_path / "2.svg")
        assert one.read_bytes() == two.read_bytes()

    def test_svg_holds_text_as_text(self, tmp_path: Path) -> None:
        svg = bars(title="“cat” & <mat>").save(tmp_path / "x.svg").read_text(encoding="utf-8")
        for word in [*WORDS, "0.700", "weight", "key"]:
            assert f">{word}</text>" in svg
        html = bars(title="“cat” & <mat>").save(tmp_path / "x.html").read_text(encoding="utf-8")
        assert html.count("<title>“cat” &amp; &lt;mat&gt;</title>") == 2  # the page's and the picture's
        assert 'role="img"' in html
        hosts = set(re.findall(r"""(?:src|href)=["'](https?:[^"']*)""", html))
        assert not hosts

    def test_notebooks_get_png_and_html(self) -> None:
        assert bars()._repr_png_().startswith(b"\x89PNG")
        assert "<svg" in bars()._repr_html_()

    def test_the_users_settings_are_neither_read_nor_changed(self, tmp_path: Path) -> None:
        plain = bars().save(tmp_path / "1.png").read_bytes()
        with matplotlib.rc_context({"axes.facecolor": "red", "font.size": 30}):
            assert bars().save(tmp_path / "2.png").read_bytes() == plain
            assert matplotlib.rcParams["font.size"] == 30

    def test_the_error_for_an_unknown_theme_names_it(self) -> None:
        with pytest.raises(ValueError, match="theme must be one of light, dark, got 'sepia'"):
            bars(theme="sepia")

    @pytest.mark.parametrize("theme", THEMES)
    def test_the_background_is_the_themes(self, tmp_path: Path, theme: str) -> None:
        image = Image.open(bars(theme=theme).save(tmp_path / "x.png")).convert("RGB")
        assert "#{:02x}{:02x}{:02x}".format(*image.getpixel((0, 0))) == THEMES[theme].background


def oklab(table: np.ndarray) -> np.ndarray:
    linear = np.where(table / 255 <= 0.04045, table / 255 / 12.92, ((table / 255 + 0.055) / 1.055) ** 2.4)
    cones = np.array([[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]])
    to_lab = np.array([[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]])
    return np.cbrt(linear @ cones.T) @ to_lab.T


class TestColours:
    @pytest.mark.parametrize("theme", THEMES)
    def test_lightness_is_monotonic_and_steps_are_equal(self, theme: str) -> None:
        lab = oklab(colour_table(theme).astype(float))
        light = lab[::5, 0]
        assert (np.diff(light) < 0).all() or (np.diff(light) > 0).all()
        assert np.ptp(light) > 0.65
        steps = np.linalg.norm(np.diff(lab[::15], axis=0), axis=1)
        assert steps.max() / steps.min() < 1.25

    @pytest.mark.parametrize("theme", THEMES)
    def test_order_survives_grey_print_and_colour_blindness(self, theme: str) -> None:
        rgb = colour_table(theme).astype(float)
        grey = rgb @ [0.299, 0.587, 0.114]
        # Deuteranopia and protanopia, in the linear approximation of Viénot, Brettel and Mollon (1999).
        blind = [rgb @ [0.29, 0.71, 0.0], rgb @ [0.11, 0.89, 0.0]]
        sign = np.sign(grey[-1] - grey[0])
        for seen in (grey, *blind):
            assert (sign * np.diff(seen[::8]) > 0).all()


class TestFonts:
    def test_chinese_is_drawn_with_a_font_that_has_it(self, tmp_path: Path) -> None:
        if len(fonts.families()) == 1:
            pytest.skip("NO FONT WITH CHINESE IS INSTALLED: apt-get install fonts-noto-cjk")
        picture = weight_bars([0.5, 0.5], ["猫", "坐"])  # a warning of matplotlib's would be an error
        picture.save(tmp_path / "x.png")
        picture.save(tmp_path / "x.pdf")
        assert ">猫</text>" in picture.svg()

    def test_a_font_that_was_installed_after_matplotlib_made_its_list_is_found(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from matplotlib import font_manager

        if len(fonts.families()) == 1:
            pytest.skip("NO FONT WITH CHINESE IS INSTALLED: apt-get install fonts-noto-cjk")
        old = [font for font in font_manager.fontManager.ttflist if font.name == fonts.BASE]
        monkeypatch.setattr(font_manager.fontManager, "ttflist", old)
        fonts.families.cache_clear()
        try:
            assert len(fonts.families()) > 1
        finally:
            fonts.families.cache_clear()

    def test_without_a_font_code_points_are_drawn_with_a_warning(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(fonts, "families", lambda: ("DejaVu Sans",))
        with pytest.warns(UserWarning, match=r"猫 \(U\+732B\).*install one, such as fonts-noto-cjk"):
            assert fonts.labels(["猫", "a"]) == ["U+732B", "a"]

    @pytest.mark.parametrize(
        ("token", "shown"),
        [("$x$", "$x$"), ("\n", "↵"), ("  ", "␣␣"), ("a\u200db", "aU+200Db"), ("", ""), ("Ġcat", "Ġcat")],
    )
    def test_invisible_characters_are_replaced(self, token: str, shown: str) -> None:
        assert fonts.labels([token]) == [shown]

    def test_dollar_signs_are_drawn_literally(self, tmp_path: Path) -> None:
        picture = weight_bars([0.5, 0.5], ["$100", r"$\frac$"])
        picture.save(tmp_path / "x.png")
        assert r">$\frac$</text>" in picture.svg()


class TestGiven:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
    def test_tensors_lists_and_arrays(self, dtype: torch.dtype) -> None:
        weights = torch.tensor([[[[0.25, 0.75], [0.5, 0.5]]]], dtype=dtype, requires_grad=True)
        shown = weight_heatmap(weights, ["a", "b"]).figure.axes[0].images[0].get_array()
        np.testing.assert_array_equal(shown, [[0.25, 0.75], [0.5, 0.5]])

    @pytest.mark.parametrize(
        ("weights", "tokens", "message"),
        [
            (np.ones((2, 3, 4, 5)), None, r"shape \(H, L, S\) with no size 0, got \(2, 3, 4, 5\)"),
            (np.ones((0, 3)), None, r"got \(0, 3\)"),
            (np.ones((2, 2)), ["a"], "tokens must hold one name for each query, got 1 names for 2"),
        ],
    )
    def test_mistakes_are_named(self, weights: np.ndarray, tokens: list[str] | None, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            weight_heatmap(weights, tokens)
