"""Trained runs: those that come with regard, and new ones."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from regard import models
from regard.files import read_json, write_json
from regard.training import Run, Settings, date_pairs, load, make_run_config, phrase_pairs, resume, shipped, train
from regard.training.data.phrase_grammar import CAT
from regard.training.launch import exact_match
from regard.training.run import SHIPPED

TINY = {"d_model": 16, "heads": 2, "layers": 1, "context": 32}
FEW = {"steps": 6, "batch": 4, "evaluate_every": 3}


@pytest.fixture(scope="module")
def translator() -> Run:
    return load("phrases")


class TestShipped:
    def test_shipped_runs_are_small(self) -> None:
        assert shipped() == ["dates", "language", "phrases", "repeats"]
        assert sum(path.stat().st_size for path in SHIPPED.rglob("*")) < 6_000_000

    def test_translation_of_the_held_out_sentence(self, translator: Run) -> None:
        assert translator.generate(CAT[0]) == CAT[1]
        assert translator.generate(CAT[0], beams=4) == CAT[1]
        assert "".join(translator.stream(CAT[0])) == CAT[1]

    def test_the_alignment_of_cat_and_mat(self, translator: Run) -> None:
        alignment = translator.alignment(CAT[0])
        assert (alignment.source, alignment.translation) == CAT
        assert alignment.written_tokens == ["猫", "坐", "在", "垫子", "上", "<end>"]
        assert alignment.source_tokens == CAT[0].split()
        assert alignment.weights.shape == (6, 6)
        assert torch.allclose(alignment.weights.sum(-1), torch.ones(6), atol=1e-5)
        for word, key in (("猫", "cat"), ("垫子", "mat")):
            row = alignment.weights[alignment.written_tokens.index(word)]
            assert alignment.source_tokens[int(row.argmax())] == key
            assert row.max() > 0.9

    @pytest.mark.parametrize(("name", "data", "least"), [("phrases", phrase_pairs, 0.98), ("dates", date_pairs, 0.995)])
    def test_held_out_pairs(self, name: str, data: Any, least: float) -> None:
        run = load(name)
        assert run.about["results"]["exact_match"] >= least
        held = data().test[:300]
        assert exact_match(run, held)["exact_match"] >= least - 0.01

    def test_dates_are_translated_in_both_directions(self) -> None:
        run = load("dates")
        translations = run.translate(["Tuesday, March 5, 2024", "二〇〇八年八月八日", "5 Sept 1931"])
        assert translations == ["2024年3月5日星期二", "August 8, 2008", "1931年9月5日"]

    def test_the_language_model_continues_a_text(self) -> None:
        run = load("language")
        written = run.generate("The for statement", new_tokens=20)
        assert len(written) > 20
        assert "".join(run.stream("The for statement", new_tokens=20)) == written
        sampled = [run.generate("The ", temperature=1.0, top_k=50, seed=seed, new_tokens=20) for seed in (1, 1, 2)]
        assert sampled[0] == sampled[1] != sampled[2]

    def test_shipped_runs_used_the_default_configuration(self) -> None:
        for name in shipped():
            about = load(name).about
            assert about["results"]["steps"] == about["plan"]["settings"]["steps"]
            assert {"regard", "torch", "python"} <= set(about["versions"])
            default = make_run_config(
                about["plan"]["task"], tuple(about["plan"]["data"]), settings={"store": "float16"}
            )
            stored = json.loads(json.dumps(default.to_json()))
            assert about["plan"]["sizes"] == stored["sizes"]
            # Settings that did not exist yet had their default values.
            assert Settings(**about["plan"]["settings"]) == Settings(**stored["settings"])


class TestErrors:
    def test_unknown_words_are_named(self, translator: Run) -> None:
        with pytest.warns(UserWarning, match="did not contain zebra, stripes"):
            translator.generate("The zebra has stripes")
        with pytest.raises(ValueError, match="contained no word of the text: ÄÖ"):
            translator.generate("ÄÖ")

    def test_texts_that_are_too_long_or_empty(self, translator: Run) -> None:
        with pytest.raises(ValueError, match=r"the model takes at most \d+ tokens, got 100"):
            translator.generate("cat " * 100)
        with pytest.raises(ValueError, match="the text is empty"):
            translator.generate(" ")
        language = load("language")
        with pytest.raises(ValueError, match="the model takes at most"):
            language.generate("while " * 500)
        with pytest.raises(ValueError, match="exceed the model's context"):
            language.generate("while", new_tokens=100_000)

    def test_a_run_of_another_task(self, translator: Run) -> None:
        with pytest.raises(ValueError, match=r"trained for translate; .* was trained for language"):
            load("language").translate(["The cat"])
        with pytest.raises(ValueError, match=r"trained for masked; .* was trained for translate"):
            translator.fill_masks("a <mask>")

    def test_unknown_runs_and_damaged_files(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(ValueError, match=r"no run 'phrase'.*did you mean phrases\?"):
            load("phrase")
        (tmp_path / "empty").mkdir()
        with pytest.raises(ValueError, match=r"is no run of regard train: it contains nothing, but no run\.json"):
            load(tmp_path / "empty")
        monkeypatch.chdir(tmp_path)
        (tmp_path / "runs" / "mine").mkdir(parents=True)
        write_json(
            tmp_path / "runs" / "mine" / "run.json", {"format": 1, "plan": {"task": "connectx"}, "results": None}
        )
        with pytest.raises(ValueError, match="is a run of connectx, not of a text model"):
            load("mine")
        (tmp_path / "runs" / "mine" / "run.json").write_text("{")
        with pytest.raises(ValueError, match=r"run.json is not a run of regard train, or is damaged"):
            load("mine")


class TestNewRuns:
    @pytest.mark.parametrize("model", ["transformer", "lstm", "lstm-attention"])
    def test_translate(self, model: str, tiny: Any, tmp_path: Path) -> None:
        finished = train(tiny(model), tmp_path / "run")
        assert finished.results["tested"] == 4
        assert 0 <= finished.results["exact_match"] <= 1
        assert not (tmp_path / "run" / "checkpoints").exists()
        run = load(tmp_path / "run")
        assert run.has_alignment == (model == "transformer")
        written = run.generate("123")
        assert written == "".join(run.stream("123")) == run.translate(["123"])[0]
        assert set(written) <= set("零一二三四五六七八九0123456789")
        if model != "transformer":
            with pytest.raises(ValueError, match="holds a Recurrent, which has no cross-attention"):
                run.alignment("123")
        assert "12 steps" in "\n".join(finished.report())
        with pytest.raises(ValueError, match="is finished; to train longer, start a new run"):
            resume(tmp_path / "run")
        with pytest.raises(ValueError, match="exists already; resume it with --resume"):
            train(tiny(model), tmp_path / "run")

    def test_language_and_masked(self, tmp_path: Path) -> None:
        file = tmp_path / "text.txt"
        file.write_text("the cat sat on the mat and the dog sat under the table. " * 60, encoding="utf-8")
        for task, kind in (("language", models.Decoder), ("masked", models.Encoder)):
            config = make_run_config(task, (str(file),), tokenizer="words", sizes=TINY, settings=FEW)
            finished = train(config, tmp_path / task)
            assert isinstance(finished.run.model, kind)
            assert finished.results["steps"] == 6
        assert load(tmp_path / "masked").generate("the <mask> sat on the <mask>").count(" ") == 5
        with pytest.raises(ValueError, match="the text must contain <mask>"):
            load(tmp_path / "masked").generate("the cat")
        language = load(tmp_path / "language")
        written = language.generate("the cat", new_tokens=4)
        assert len(language.tokenizer.encode(written)) <= 4
        assert not language.tokenizer.unseen(written)

    def test_a_run_with_changed_data_is_not_resumed(self, tiny: Any, pairs: Path, tmp_path: Path) -> None:
        config = tiny()
        train(config, tmp_path / "run")
        about = read_json(tmp_path / "run" / "run.json", "a run", "")
        write_json(tmp_path / "run" / "run.json", {**about, "results": None})
        pairs.write_text(pairs.read_text(encoding="utf-8") + "x\ty\n", encoding="utf-8")
        with pytest.raises(ValueError, match="differ from those at the start of the run"):
            resume(tmp_path / "run")

    def test_wrong_configurations(self) -> None:
        with pytest.raises(ValueError, match=r"no task 'translat'.*did you mean translate\?"):
            make_run_config("translat")
        with pytest.raises(ValueError, match=r"no model 'lstn'.*did you mean lstm\?"):
            make_run_config("translate", model="lstn")
        with pytest.raises(ValueError, match="the model lstm can only be trained to translate"):
            make_run_config("language", model="lstm")
        with pytest.raises(ValueError, match="translate takes one data set"):
            make_run_config("translate", ("dates", "phrases"))
        assert make_run_config("translate", settings={"minutes": 2.0}).settings.steps is None
