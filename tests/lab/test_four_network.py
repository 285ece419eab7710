"""The view Connect Four with a network: its policy, its value, and what its heads look at."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from playwright.sync_api import Browser, expect

from regard.connectx import Board, NetworkPlayer
from regard.lab import Lab, Settings
from regard.lab.models import board_attention as heads
from regard.lab.models.board_attention import find_network
from regard.models import BoardNet, Evaluator, load, save
from support.four_page import LATE, done_thinking, press_column
from support.lab_page import WORK_PATIENCE, Opened, needs_axe, opening

Open = Callable[..., Opened]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(5)
    where = tmp_path_factory.mktemp("networks") / "small"
    save(BoardNet("tiny", attn_every=2, sees=("all", "lines")), where)
    return where


@pytest.fixture(scope="module")
def networked(browser: Browser, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    settings = Settings(warm=False, network=folder, data=tmp_path_factory.mktemp("data"))
    with Lab(settings, port=0) as lab, opening(browser, lab) as open_page:
        yield open_page


def test_without_a_network_the_page_says_how_to_get_one(opened: Open) -> None:
    page = opened("#/four")
    shipped = find_network(None) is not None
    assert page.tab.locator(".commands").count() == int(not shipped)
    assert ("network" in page.tab.get_by_label("You play against").inner_text()) == shipped


class TestNetwork:
    def test_it_is_described_without_being_loaded(self, folder: Path) -> None:
        found = heads.describe_network(folder)
        learnt = sum(parameter.numel() for parameter in load(folder).parameters())
        assert (found["name"], found["layers"], found["parameters"]) == ("small", 2, learnt)
        assert found["memory"] is None

    def test_a_memory_is_told_apart(self, folder: Path, tmp_path: Path, opened: Open) -> None:
        plain = heads.describe_network(folder)
        save(
            BoardNet("tiny", attn_every=2, sees=("all", "lines"), opening_table=(6, 7, 8), opening_table_bits=10),
            tmp_path,
        )
        found = heads.describe_network(tmp_path)
        assert (found["parameters"], found["memory"]) == (plain["parameters"], [6, 7, 8, 1024])
        shipped = find_network(None)
        assert shipped is not None
        rows, columns, stones, numbers = heads.describe_network(shipped)["memory"]
        said = opened("#/four").tab.locator(".four-network .explanation").first.inner_text()
        assert f"{rows} × {columns} boards with up to {stones} stones, the exact results are stored" in said
        assert f"{numbers / 1e6:.2f} million further numbers" in said

    def test_kinds_of_squares(self) -> None:
        board = Board.from_moves("44")
        found = dict(zip(heads.KINDS, heads.square_kinds(board), strict=True))
        corner = 5 * 7
        counts = {kind: int(where[corner].sum()) for kind, where in found.items()}
        assert counts == {"row": 6, "column": 5, "diagonal": 5, "local": 3, "own": 1, "opponent": 1}
        assert not any(bool(found[kind].diagonal().any()) for kind in ("row", "column", "diagonal", "local"))

    def test_shares_are_measured_beside_chance(self, folder: Path) -> None:
        net, board = heads.load_board_network(folder)[0], Board.from_moves("4453")
        found = heads.attention_by_head(net, board, 17)
        assert len(found) == 8
        squares = torch.tensor(board.kaggle()).view(1, 6, 7)
        x = net.stem(torch.stack([squares == 1, squares == 2], 1).float())  # four stones: the first player moves
        for block in net.blocks[:2]:
            x = block(x)
        layer = net.attention[0]
        _, weights = layer.squares(layer.norm(x), weights=True)  # heads 0 and 1 see everything
        np.testing.assert_allclose(found[1]["weights"], weights[0, 1, 17].detach(), atol=2e-6)
        row = np.array([[a // 7 == b // 7 and a != b for b in range(42)] for a in range(42)])
        share = (weights[0, 1].detach().numpy() * row).sum() / 42
        assert found[1]["shares"]["row"] == pytest.approx(share, abs=1e-6)
        assert found[1]["chances"]["row"] == pytest.approx(6 / 42)
        assert found[1]["sees"] == "all"
        assert found[3]["sees"] == "lines"
        seen = np.array([sum(on_line(a, b) for b in range(42)) for a in range(42)])
        assert found[3]["chances"]["row"] == pytest.approx((6 / seen).mean())

    @pytest.mark.parametrize("simulations", [0, 25])
    def test_its_move_is_legal_and_a_win_is_found_by_search(self, folder: Path, simulations: int) -> None:
        player = heads.load_board_network(folder)[1]
        board = Board.from_moves("112233")
        found = heads.network_move(player, board, simulations)["column"]
        assert found in board.legal
        if simulations:
            assert found == 3

    def test_policy_value_and_heads_on_the_page(self, networked: Open, folder: Path) -> None:
        page = networked(f"#/four?opponent=friend&moves={LATE}&truth=true&square=17&sort=column")
        page.tab.wait_for_selector(".policy li", timeout=WORK_PATIENCE)
        done_thinking(page)
        board = Board.from_moves(LATE)
        policy, value = NetworkPlayer(Evaluator(load(folder), mirror=True)).evaluate(board)
        shown = [float(one.get_attribute("data-value") or "9") for one in page.tab.locator(".policy-share").all()]
        np.testing.assert_allclose(shown, policy, atol=1e-6)
        said = page.tab.locator(".value-words strong").get_attribute("data-value") or ""
        assert float(said) == pytest.approx(value, abs=1e-6)
        assert page.tab.locator(".policy .verdict").count() == len(board.legal)
        found = heads.attention_by_head(heads.load_board_network(folder)[0], board, 17)
        wanted = sorted(found, key=lambda head: head["chances"]["column"] - head["shares"]["column"])
        order = [one.get_attribute("data-head") for one in page.tab.locator(".head").all()]
        assert order == [f"{head['layer'] + 1}.{head['head'] + 1}" for head in wanted]
        page.tab.locator(".head[data-head='2.3']").click()
        here = page.tab.locator(".shares [data-here=own]").get_attribute("data-value") or ""
        head = next(one for one in found if (one["layer"], one["head"]) == (1, 2))
        assert float(here) == pytest.approx(head["here"]["own"], abs=1e-6)
        page.tab.locator(".square[data-square='17']").focus()
        page.tab.keyboard.press("ArrowUp")
        expect(page.tab.locator(".square[data-square='10']")).to_have_attribute("aria-pressed", "true")
        assert page.tab.evaluate("document.activeElement.dataset.square") == "10"

    def test_it_plays(self, networked: Open) -> None:
        page = networked(f"#/four?opponent=network&moves={LATE}")
        press_column(page, Board.from_moves(LATE).legal[0] + 1)
        expect(page.tab.locator(".move-list .move")).to_have_count(len(LATE) + 2, timeout=WORK_PATIENCE)
        options = page.tab.get_by_label("Strength").locator("option").all_inner_texts()
        assert options == ["policy only, no search", "25 simulations", "200 simulations"]

    @needs_axe
    def test_axe_finds_nothing_serious(self, networked: Open) -> None:
        page = networked("#/four?opponent=friend&moves=4455", color_scheme="dark", reduced_motion="reduce")
        page.tab.wait_for_selector(".head", timeout=WORK_PATIENCE)
        assert page.violations() == []


def on_line(a: int, b: int) -> bool:
    down, right = abs(a // 7 - b // 7), abs(a % 7 - b % 7)
    return down == 0 or right == 0 or down == right
