"""Runs that come with regard, and runs of one's own."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from regard import models, watch
from regard.training import Run, Settings, date_pairs, load, make_run_config, phrase_pairs, resume, shipped, train
from regard.training.data.phrases import CAT
from regard.training.launch import exact_match
from regard.training.run import SHIPPED

TINY = {"d_model": 16, "heads": 2, "layers": 1, "context": 32}
FEW = {"steps": 6, "batch": 4, "evaluate_every": 3}


@pytest.fixture(scope="module")
def translator() -> Run:
    return load("phrases")


class TestShipped:
    def test_they_are_there_and_small(self) -> None:
        assert shipped() == ["dates", "language", "phrases"]
        assert sum(path.stat().st_size for path in SHIPPED.rglob("*")) < 6_000_000

    def test_the_held_out_sentence(self, translator: Run) -> None:
        assert translator.generate(CAT[0]) == CAT[1]
        assert translator.generate(CAT[0], beams=4) == CAT[1]
        assert "".join(translator.stream(CAT[0])) == CAT[1]

    def test_cat_and_mat_are_what_it_looks_at(self, translator: Run) -> None:
        source, known, words, keys = translator.pair(*CAT)
        assert (words, keys) == (["猫", "坐", "在", "垫子", "上", "<end>"], CAT[0].split())
        with watch(translator.model) as seen, torch.no_grad():
            translator.model(source, known)
        last = [call for call in seen.calls if ".cross" in call.name][-1]
        weights = last.weights()[0].mean(0)
        for word, key in (("猫", "cat"), ("垫子", "mat")):
            row = weights[words.index(word)]
            assert keys[int(row.argmax())] == key
            assert row.max() > 0.9

    @pytest.mark.parametrize(("name", "data", "least"), [("phrases", phrase_pairs, 0.98), ("dates", date_pairs, 0.995)])
    def test_held_out_pairs(self, name: str, data: Any, least: float) -> None:
        run = load(name)
        assert run.about["results"]["exact_match"] >= least
        held = data().test[:300]
        assert exact_match(run, held)["exact_match"] >= least - 0.01

    def test_both_ways(self) -> None:
        run = load("dates")
        found = run.translate(["Tuesday, March 5, 2024", "二〇〇八年八月八日", "5 Sept 1931"])
        assert found == ["2024年3月5日星期二", "August 8, 2008", "1931年9月5日"]

    def test_the_language_model_goes_on(self) -> None:
        run = load("language")
        said = run.generate("The for statement", new_tokens=20)
        assert len(said) > 20
        assert "".join(run.stream("The for statement", new_tokens=20)) == said
        drawn = [run.generate("The ", temperature=1.0, top_k=50, seed=seed, new_tokens=20) for seed in (1, 1, 2)]
        assert drawn[0] == drawn[1] != drawn[2]

    def test_each_says_how_it_was_made(self) -> None:
        for name in shipped():
            about = load(name).about
            assert about["results"]["steps"] == about["plan"]["settings"]["steps"]
            assert {"regard", "torch", "python"} <= set(about["versions"])
            usual = make_run_config(about["plan"]["task"], tuple(about["plan"]["data"]), settings={"store": "float16"})
            kept = json.loads(json.dumps(usual.to_json()))
            assert about["plan"]["sizes"] == kept["sizes"]
            # A setting that there was not yet was as it is by default.
            assert Settings(**about["plan"]["settings"]) == Settings(**kept["settings"])


class TestAsked:
    def test_what_was_never_seen_is_named(self, translator: Run) -> None:
        with pytest.warns(UserWarning, match="the model never saw zebra, stripes"):
            translator.generate("The zebra has stripes")
        with pytest.raises(ValueError, match="nothing in the text was in the data the model learnt from: ÄÖ"):
            translator.generate("ÄÖ")

    def test_too_long_and_empty(self, translator: Run) -> None:
        with pytest.raises(ValueError, match="the text has 100 tokens, and the model takes at most"):
            translator.generate("cat " * 100)
        with pytest.raises(ValueError, match="the text is empty"):
            translator.generate(" ")
        language = load("language")
        with pytest.raises(ValueError, match="and the model takes at most"):
            language.generate("while " * 500)
        with pytest.raises(ValueError, match="more than the model's context"):
            language.generate("while", new_tokens=100_000)

    def test_a_run_of_another_task(self, translator: Run) -> None:
        with pytest.raises(ValueError, match="was trained for language, not for translate"):
            load("language").translate(["The cat"])
        with pytest.raises(ValueError, match="was trained for translate, not for masked"):
            translator.filled("a <mask>")

    def test_names(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(ValueError, match=r"no run 'phrase'.*did you mean phrases\?"):
            load("phrase")
        (tmp_path / "empty").mkdir()
        with pytest.raises(ValueError, match=r"is no run of regard train: it has no run\.json, but nothing"):
            load(tmp_path / "empty")
        monkeypatch.chdir(tmp_path)
        (tmp_path / "runs" / "mine").mkdir(parents=True)
        (tmp_path / "runs" / "mine" / "run.json").write_text('{"plan": {"task": "connectx"}}')
        with pytest.raises(ValueError, match="is a run of connectx, which writes no text"):
            load("mine")
        (tmp_path / "runs" / "mine" / "run.json").write_text("{")
        with pytest.raises(ValueError, match=r"run.json is damaged"):
            load("mine")


class TestTrained:
    @pytest.mark.parametrize("model", ["transformer", "lstm", "lstm-attention"])
    def test_translate(self, model: str, tiny: Any, tmp_path: Path) -> None:
        finished = train(tiny(model), tmp_path / "run")
        assert finished.results["tested"] == 4
        assert 0 <= finished.results["exact_match"] <= 1
        assert not (tmp_path / "run" / "checkpoints").exists()
        run = load(tmp_path / "run")
        assert run.has_alignment == (model == "transformer")
        assert isinstance(run.generate("123"), str)
        assert "12 steps" in "\n".join(finished.report())
        with pytest.raises(ValueError, match="is finished; to train longer, start a new run"):
            resume(tmp_path / "run")
        with pytest.raises(ValueError, match="exists already; go on with --resume"):
            train(tiny(model), tmp_path / "run")

    def test_language_and_masked(self, tmp_path: Path) -> None:
        file = tmp_path / "text.txt"
        file.write_text("the cat sat on the mat and the dog sat under the table. " * 60, encoding="utf-8")
        for task, kind in (("language", models.Decoder), ("masked", models.Encoder)):
            plan = make_run_config(task, (str(file),), tokenizer="words", sizes=TINY, settings=FEW)
            finished = train(plan, tmp_path / task)
            assert isinstance(finished.run.model, kind)
            assert finished.results["steps"] == 6
        assert load(tmp_path / "masked").generate("the <mask> sat on the <mask>").count(" ") == 5
        with pytest.raises(ValueError, match="write <mask> where a token is missing"):
            load(tmp_path / "masked").generate("the cat")
        assert isinstance(load(tmp_path / "language").generate("the cat", new_tokens=4), str)

    def test_changed_data_is_not_resumed(self, tiny: Any, pairs: Path, tmp_path: Path) -> None:
        plan = tiny()
        train(plan, tmp_path / "run")
        about = json.loads((tmp_path / "run" / "run.json").read_text())
        (tmp_path / "run" / "run.json").write_text(json.dumps({**about, "results": None}))
        pairs.write_text(pairs.read_text(encoding="utf-8") + "x\ty\n", encoding="utf-8")
        with pytest.raises(ValueError, match="is not what the run began with"):
            resume(tmp_path / "run")

    def test_plans(self) -> None:
        with pytest.raises(ValueError, match=r"no task 'translat'.*did you mean translate\?"):
            make_run_config("translat")
        with pytest.raises(ValueError, match=r"no model 'lstn'.*did you mean lstm\?"):
            make_run_config("translate", model="lstn")
        with pytest.raises(ValueError, match="the model lstm only translates"):
            make_run_config("language", model="lstm")
        with pytest.raises(ValueError, match="translate takes one data set"):
            make_run_config("translate", ("dates", "phrases"))
        assert make_run_config("translate", settings={"minutes": 2.0}).settings.steps is None
