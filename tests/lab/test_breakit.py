"""The view Break it: every mistake is computed by the shipped translator, and the game names it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import regard
from regard import training
from regard.lab.api.breakit import guess, play, run
from regard.lab.models.damaged_model import DAMAGES, damaged, translate
from regard.lab.models.watched_models import load_model
from regard.lab.server.request_fields import FieldError
from support.lab_page import WORK_PATIENCE, Opened

Open = Callable[..., Opened]
TEXT = "The cat sat on the mat"


def decoder_logits(damage: str | None) -> tuple[torch.Tensor, Any]:
    trained = training.load("phrases")
    source, target, *_ = trained.pair(TEXT, "猫坐在垫子上")
    loaded = load_model("phrases")
    with torch.no_grad(), damaged(loaded, damage), regard.watch(loaded.named.model) as seen:
        return loaded.named.model(source, target), seen


def test_the_model_as_trained_translates() -> None:
    result = translate(TEXT, None)
    assert result["written"] == "猫坐在垫子上"
    assert result["tokens"][-1] == "<end>"


@pytest.mark.parametrize("damage", DAMAGES)
def test_every_mistake_changes_what_the_model_computes_and_leaves_no_trace(damage: str) -> None:
    healthy = translate(TEXT, None)
    broken = translate(TEXT, damage)
    assert broken["probabilities"] != healthy["probabilities"]
    assert torch.equal(decoder_logits(None)[0], decoder_logits(None)[0])


def test_mistakes_have_their_signs() -> None:
    names = {
        damage: {call.name: call.weights(batch=0) for call in decoder_logits(damage)[1].calls} for damage in DAMAGES
    }
    own, cross = "decoder.layers.0.attention", "decoder.layers.1.cross"
    trained = {call.name: call.weights(batch=0) for call in decoder_logits(None)[1].calls}
    assert names["axis"][cross].sum(-2).allclose(torch.ones(()), atol=1e-5)
    assert names["unmasked"][own].triu(1).sum() > 0
    assert names["inverted"][own].tril().sum() == 0
    assert names["scale"][own].amax(-1).mean() > trained[own].amax(-1).mean()
    for damage in ("merge", "head", "padding"):  # in the first layer the weights are those of the trained model
        assert torch.equal(names[damage][own], trained[own])


def test_merging_without_transposing_is_what_reshape_does() -> None:
    seen = decoder_logits("merge")[1]
    call = seen.calls[0]
    right = call.weights() @ call.v
    batch, heads, length, width = right.shape
    merged = call.output.transpose(1, 2).reshape(batch, length, heads * width)
    assert torch.allclose(merged, right.reshape(batch, length, heads * width), atol=1e-5)


def test_each_mistake_occurs_once_in_eight_rounds_and_can_be_guessed() -> None:
    rounds = [guess({"seed": 5, "round": number, "guess": "axis"}) for number in range(16)]
    assert {one["damage"] for one in rounds[:8]} == {one["damage"] for one in rounds[8:]} == set(DAMAGES)
    assert [one["right"] for one in rounds] == [one["damage"] == "axis" for one in rounds]
    assert "damage" not in play({"seed": 5, "round": 0, "text": TEXT})


@pytest.mark.parametrize(
    ("fields", "field"),
    [({"text": ""}, "text"), ({"text": "xqzt"}, "text"), ({"damage": "fire"}, "damage")],
)
def test_wrong_fields_are_named(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(FieldError) as raised:
        run(fields)
    assert raised.value.field == field


def test_trying_and_guessing_on_the_page(opened: Open) -> None:
    page = opened("#/breakit?damage=positions")
    page.tab.wait_for_selector(".breakit-result.damaged", timeout=WORK_PATIENCE)
    page.settle()
    written = "document.querySelector('.breakit-result.damaged [data-written]').dataset.written"
    assert page.tab.evaluate(written) == translate(TEXT, "positions")["written"]
    page.tab.locator("[data-damage=axis]").click()
    page.settle()
    assert page.tab.evaluate(written) == translate(TEXT, "axis")["written"]
    assert "0.38" in page.tab.locator(".breakit-result.damaged .remark").last.inner_text()
    page.tab.locator("[data-mode=guess]").click()
    page.settle()
    assert page.tab.locator(".breakit-why").is_hidden()
    page.tab.locator("[data-damage=scale]").focus()
    page.tab.keyboard.press("Enter")
    page.tab.wait_for_selector(".verdict")
    page.settle()
    right = page.tab.locator(".verdict.right").count()
    assert page.tab.locator(".score").inner_text() == f"{right} of 1 right"
    assert page.tab.locator(".damages .right").count() == 1
    assert page.violations() == []
    page.tab.get_by_role("button", name="Next round").click()
    page.settle()
    assert page.tab.locator(".breakit-choices h2").inner_text() == "Round 2"


def test_chinese_on_a_phone(opened: Open) -> None:
    page = opened("#/breakit?damage=merge", locale="zh-CN", viewport={"width": 390, "height": 844})
    page.tab.wait_for_selector(".breakit-result.damaged", timeout=WORK_PATIENCE)
    page.settle()
    assert page.tab.locator(".breakit-why h2").inner_text() == "合并各头时没有转置"
    assert page.tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
