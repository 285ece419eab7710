"""Elo, intervals and the sequential test, on results whose truth is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.connectx import bradley_terry
from regard.connectx.arena.rating import ELO, log_likelihood_ratio, score_interval, sequential_test

Array = np.ndarray


def simulated(elo: list[float], games: int, draw: float, seed: int) -> tuple[Array, Array]:
    """Results of a round robin between players of these strengths; `draw` is the weight of a draw between equals."""
    lot = np.random.default_rng(seed)
    players = len(elo)
    wins, draws = np.zeros((2, players, players), int)
    for i in range(players):
        for j in range(i + 1, players):
            a, b = elo[i] / ELO, elo[j] / ELO
            weights = np.exp([a, np.log(draw) + (a + b) / 2 if draw else -np.inf, b])
            won, drawn, lost = lot.multinomial(games, weights / weights.sum())
            wins[i, j], wins[j, i], draws[i, j], draws[j, i] = won, lost, drawn, drawn
    return wins, draws


@pytest.mark.parametrize("draw", [0.0, 0.3, 2.0])
def test_known_strengths_are_recovered(draw: float) -> None:
    truth = [-300.0, -50.0, 0.0, 100.0, 250.0]
    inside, total = 0, 0
    for seed in range(40):
        ratings = bradley_terry(*simulated(truth, 200, draw, seed))
        assert abs(sum(rating.elo for rating in ratings)) < 1e-6
        inside += sum(abs(r.elo - t) <= r.margin for r, t in zip(ratings, truth, strict=True))
        total += len(truth)
    assert 0.90 <= inside / total <= 0.99  # 95 % intervals, 200 of them


def test_two_players_without_draws_are_the_logit() -> None:
    first, second = bradley_terry(np.array([[0, 640], [360, 0]]), np.zeros((2, 2)))
    assert first.elo - second.elo == pytest.approx(ELO * np.log(640 / 360), abs=0.5)


@given(st.integers(2, 5), st.integers(1, 1000))
def test_a_player_that_wins_every_game_has_a_finite_rating(players: int, games: int) -> None:
    wins = np.triu(np.full((players, players), games), 1)
    ratings = bradley_terry(wins, np.zeros_like(wins))
    numbers = [rating.elo for rating in ratings]
    assert np.isfinite([(rating.elo, rating.margin) for rating in ratings]).all()
    assert numbers == sorted(numbers, reverse=True)
    assert all(rating.margin > 0 for rating in ratings)


def test_without_games_the_interval_is_very_wide() -> None:
    ratings = bradley_terry(np.zeros((3, 3)), np.zeros((3, 3)))
    assert [rating.elo for rating in ratings] == [0, 0, 0]
    assert all(rating.margin > 1000 for rating in ratings)


@pytest.mark.parametrize(("win", "draw"), [(0.5, 0.0), (0.2, 0.6), (0.8, 0.1), (0.05, 0.05)])
def test_intervals_have_the_stated_coverage(win: float, draw: float) -> None:
    lot = np.random.default_rng(0)
    counts = lot.multinomial(60, [win, draw, 1 - win - draw], 2000)
    truth = win + draw / 2
    inside = sum(low <= truth <= high for low, high in (score_interval(*map(int, row)) for row in counts))
    assert 0.925 <= inside / 2000 <= 0.985


def test_intervals_at_the_edges() -> None:
    assert score_interval(0, 0, 0) == (0, 1)
    low, high = score_interval(20, 0, 0)
    assert (round(low, 2), high) == (0.84, 1)
    assert score_interval(0, 20, 0)[0] < 0.5 < score_interval(0, 20, 0)[1]


def outcomes(elo: float, stop: float, matches: int = 300, pairs: int = 400) -> dict[str, int]:
    lot = np.random.default_rng(7)
    share = 1 / (1 + 10 ** (-elo / 400))
    found = {"better": 0, "worse": 0, "equal": 0, "": 0}
    for _ in range(matches):
        results = lot.binomial(2, share, pairs) / 2
        found[next((v for n in range(8, pairs, 4) if (v := sequential_test(results[:n].tolist(), stop))), "")] += 1
    return found


def test_the_sequential_test_has_the_stated_error_rate() -> None:
    equal = outcomes(0, 100)
    assert equal["better"] + equal["worse"] <= 0.08 * 300
    assert equal["equal"] >= 0.9 * 300
    better = outcomes(100, 100)
    assert better["better"] >= 0.92 * 300
    assert better["worse"] == 0
    assert outcomes(-200, 100)["worse"] >= 0.99 * 300


def test_the_sequential_test_decides_in_both_directions() -> None:
    results = [0.75, 0.5, 1.0, 0.25] * 6
    assert log_likelihood_ratio([], 50) == 0
    assert log_likelihood_ratio(results, 50) > log_likelihood_ratio([1 - r for r in results], 50)
    assert sequential_test([1.0] * 7, 50) == ""  # too few to say
    assert sequential_test([1.0] * 60, 50) == "better"
    assert sequential_test([0.0] * 60, 50) == "worse"
    with pytest.raises(ValueError, match="greater than 0, got -5"):
        sequential_test(results, -5)
