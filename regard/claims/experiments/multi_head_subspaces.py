"""Do the heads of a translator attend to different relations? The grammar of the phrases knows which word is which.

Every sentence is made by the grammar, so that it is known from which English word each Chinese word comes. The weight
that each head of the cross-attention puts on that word is measured for nouns, verbs, adjectives, prepositions, and
measure words, which depend on the noun after them (两只猫).
"""

from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import bars
from regard.claims.charts.labels import label
from regard.claims.claim import Conclusion, Row, Settings
from regard.claims.definition import Definition
from regard.claims.statistics.rows import differences, figures, per_seed, where
from regard.claims.statistics.statements import Reference, Statement, conclude
from regard.claims.tasks.fit import fit
from regard.models import Seq2Seq, Seq2SeqConfig
from regard.training import Tokenizer, phrase_pairs
from regard.training.data.batches import BatchOrder
from regard.training.data.examples import PairExamples
from regard.training.data.phrase_grammar import GRAMMAR, NOUNS, VERBS
from regard.watching import intervene, watch
from regard.watching.interventions.kinds import ablate

RELATIONS = ("noun", "verb", "adjective", "preposition", "measure word")
HEADS = 4
LEAST = 0.1  # smallest differences of weight and of distance that count
ERRORS = 0.05  # smallest difference of the share of errors that counts
LEARNT = 0.9  # share of held-out sentences that must be translated without an error
DEFINITION = Definition("multi-head-subspaces")
text = DEFINITION.text


class Words(NamedTuple):
    """Chinese words of the held-out sentences whose English word is known; one element for each."""

    sentence: Tensor
    written: Tensor  # position in the Chinese sentence
    source: Tensor  # position of the English word
    relation: Tensor  # index in RELATIONS


class Material(NamedTuple):
    """Sentences with their tokens, the same for all seeds."""

    train: PairExamples
    test: tuple[Tensor | None, ...]
    words: Words
    vocabulary: int


def dictionary() -> dict[str, dict[str, set[str]]]:
    """Return for each relation the Chinese words and the English words from which they come.

    >>> sorted(dictionary()["noun"]["猫"]), sorted(dictionary()["verb"]["坐"])
    (['cat', 'cats'], ['sat', 'sit', 'sitting'])
    """
    words: dict[str, dict[str, set[str]]] = {relation: {} for relation in RELATIONS}

    def add(relation: str, zh: str, *en: str) -> None:
        words[relation].setdefault(zh.removesuffix("的"), set()).update(en)

    for noun in (noun for kind in NOUNS.values() for noun in kind):
        add("noun", noun.zh, noun.en, noun.plural)
        add("measure word", noun.measure, noun.en, noun.plural)
    for verb in (verb for kind in VERBS.values() for verb in kind):
        add("verb", verb.zh, verb.en, verb.past, verb.ing)
    for name in ("adjectives", "colours"):
        for en, zh in (item for table in GRAMMAR[name].values() for item in table.items()):
            add("adjective", zh, en)
    for en, zh in (item for table in GRAMMAR["prepositions"].values() for item in table.items()):
        if " " not in en:
            add("preposition", zh, en)
    return words


def known_words(source: list[str], target: list[str]) -> list[tuple[int, int, str]]:
    """Return position in the target, position in the source and relation of each word with exactly one possible origin.

    >>> known_words("the cat sat on the mat".split(), ["猫", "坐", "在", "垫子", "上"])
    [(0, 1, 'noun'), (1, 2, 'verb'), (3, 5, 'noun'), (4, 3, 'preposition')]
    """
    known = []
    for at, zh in enumerate(target):
        origins = [
            (place, relation)
            for relation, words in dictionary().items()
            for place, en in enumerate(source)
            if en.lower() in words.get(zh, ())
        ]
        if len(origins) == 1 and target.count(zh) == 1:
            known.append((at, *origins[0]))
    return known


@lru_cache(maxsize=1)
def material(train: int, test: int) -> Material:
    """Return the sentences of the grammar as tokens."""
    pairs = phrase_pairs(train=train, valid=1, test=test)
    tokenizer = Tokenizer.train((text for pair in pairs.train for text in pair), "words", lexicon=pairs.lexicon)

    def examples(own: tuple[tuple[str, str], ...]) -> PairExamples:
        sources, targets = zip(*own, strict=True)
        return PairExamples(tokenizer.encode_all(sources), tokenizer.encode_all(targets))

    words = [
        (n, *word[:2], RELATIONS.index(word[2]))
        for n, (source, target) in enumerate(pairs.test)
        for word in known_words(tokenizer.tokens(source), tokenizer.tokens(target))
    ]
    indices = range(len(pairs.test))
    batch = examples(pairs.test).batch(indices, slice(None), ())
    return Material(examples(pairs.train), batch.tensors, Words(*torch.tensor(words).unbind(1)), tokenizer.size)


def parts(settings: Settings) -> list[Settings]:
    return [{"net": net} for net in ("trained", "untrained")]


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    own = material(settings["train"], settings["test"])
    width, layers = settings["width"], settings["layers"]
    sizes: dict[str, Any] = {"d_model": width, "d_ff": 4 * width, "layers": layers, "heads": HEADS, "norm": "pre"}
    model = Seq2Seq(Seq2SeqConfig(own.vocabulary, own.vocabulary, dropout=0.0, **sizes))
    if part["net"] == "trained":
        order, step = BatchOrder(own.train.lengths, settings["batch"], seed), iter(range(settings["steps"]))

        def loss() -> Tensor:
            value: Tensor = model.loss(*own.train.batch(order(next(step)), slice(None), ()).tensors)  # type: ignore[arg-type]
            return value

        fit(model, loss, settings["steps"], learning_rate=settings["rate"])
    model.eval()
    with torch.no_grad():
        return _measure_heads(model, own, ablations=part["net"] == "trained")


def _measure_heads(model: Seq2Seq, own: Material, *, ablations: bool) -> list[Row]:
    words = own.words
    source, inputs, targets, *lengths = own.test
    assert source is not None
    assert inputs is not None
    assert targets is not None

    def right() -> Tensor:
        return (model(source, inputs, *lengths).argmax(-1) == targets) | (targets == -100)

    with watch(model, only="*.cross") as seen:
        before = right()
    heads = [(call.name, head) for call in seen.calls for head in range(HEADS)]
    # (words, heads): weight on the English word in the step that writes the Chinese word
    weight = torch.cat([call.weights()[words.sentence, :, words.written, words.source] for call in seen.calls], 1)
    maps = torch.cat([call.weights()[words.sentence, :, words.written] for call in seen.calls], 1)
    rows: list[Row] = [
        {"what": "weight", "head": f"{name}/{head}", "relation": relation,
         "weight": float(weight[words.relation == r, n].mean())}
        for n, (name, head) in enumerate(heads) for r, relation in enumerate(RELATIONS)
    ]  # fmt: skip
    best = _best_heads(weight, words)
    rows.append({
        "what": "summary", "translated": float(before.all(-1).float().mean()), "distance": _map_distance(maps),
        "gain": _gain_of_best(weight, words), "best": len(set(best)), "overlap": _subspace_overlap(model),
    })  # fmt: skip
    for relation, n in enumerate(best if ablations else []):
        name, head = heads[n]
        with intervene(model, {name: ablate([head])}):
            worse = (before.float() - right().float())[words.sentence, words.written]
        same = words.relation == relation
        lost, others = float(worse[same].mean()), float(worse[~same].mean())
        rows.append({"what": "ablation", "relation": RELATIONS[relation], "own": lost, "others": others,
                     "extra": lost - others})  # fmt: skip
    return rows


def _best_heads(weight: Tensor, words: Words) -> list[int]:
    """Return for each relation the head with the largest mean weight."""
    return [int(weight[words.relation == relation].mean(0).argmax()) for relation in range(len(RELATIONS))]


def _gain_of_best(weight: Tensor, words: Words) -> float:
    """Return how much weight the best head of each relation gains over the head that is best for all relations.

    The heads are chosen on every second sentence and measured on the others, so that chance gives no gain.
    """
    chosen = words.sentence % 2 == 0
    halves = [(weight[half], Words(*(column[half] for column in words))) for half in (chosen, ~chosen)]
    means = [
        torch.stack([own[known.relation == relation].mean(0) for relation in range(len(RELATIONS))])
        for own, known in halves
    ]
    best, overall = means[0].argmax(1, keepdim=True), means[0].mean(0).argmax()
    return float((means[1].gather(1, best)[:, 0] - means[1][:, overall]).mean())


def _map_distance(maps: Tensor) -> float:
    """Return the mean total variation distance between the rows of two heads: 0 if equal, 1 if disjoint."""
    pairs = torch.combinations(torch.arange(maps.shape[1]))
    return float((maps[:, pairs[:, 0]] - maps[:, pairs[:, 1]]).abs().sum(-1).mean() / 2)


def _subspace_overlap(model: Seq2Seq) -> float:
    """Return the mean overlap of the subspaces that two heads of a layer read keys from: 1 if equal, 0 if orthogonal.

    Random subspaces of d_k of d_model dimensions overlap by d_k / d_model.
    """
    overlaps = []
    for layer in model.decoder.layers:
        attention: Any = layer.cross
        keys = attention.qkv.weight.chunk(3)[1].unflatten(0, (HEADS, -1))
        bases = torch.linalg.qr(keys.mT).Q  # (heads, d_model, d_k)
        for a, b in torch.combinations(torch.arange(HEADS)).tolist():
            overlaps.append(float((bases[a].T @ bases[b]).square().sum()) / bases.shape[-1])
    return sum(overlaps) / len(overlaps)


def judge(rows: list[Row]) -> Conclusion:
    summary, ablations = where(rows, what="summary"), where(rows, what="ablation")
    trained = {"net": "trained"}
    statements = [
        Statement(text("statements.gain"), per_seed(summary, "gain", **trained), LEAST, "difference", required=True),
        Statement(text("statements.distance"), differences(summary, "distance", trained, {"net": "untrained"}), LEAST,
                  "difference"),
        *(Statement(text("statements.ablation", relation=label(relation)),
                    per_seed(ablations, "extra", relation=relation), ERRORS, "difference") for relation in RELATIONS),
        Statement(text("statements.overlap"), per_seed(summary, "overlap", **trained), 0.5, "share", below=True),
    ]  # fmt: skip
    weights = _best_weights(rows)
    shown = (
        *figures(weights, "best", text("figures.weight"), "%", net=("trained", "untrained"), relation=RELATIONS),
        *figures(summary, "best", text("figures.best"), net=("trained", "untrained")),
        *figures(summary, "overlap", text("figures.overlap"), "%", net=("trained", "untrained")),
    )
    reference = Reference(text("references.translated"), per_seed(summary, "translated", **trained), LEARNT)
    return conclude(
        statements, shown, references=[reference], holds=text("sentences.holds"), fails=text("sentences.same")
    )


def _best_weights(rows: list[Row]) -> list[Row]:
    """Return the largest weight among the heads for each seed, network and relation."""
    best: dict[tuple[int, str, str], float] = {}
    for row in where(rows, what="weight"):
        key = row["seed"], row["net"], row["relation"]
        best[key] = max(best.get(key, 0.0), row["weight"])
    return [
        {"seed": seed, "net": net, "relation": relation, "best": weight}
        for (seed, net, relation), weight in best.items()
    ]


def draw(rows: list[Row]) -> Chart:
    return Chart(text("chart.title"), (
        bars(_best_weights(rows), "relation", "best", "net", title=text("chart.weight"), percent=True),
        bars(where(rows, what="ablation"), "relation", "extra", title=text("chart.ablation"), percent=True),
    ))  # fmt: skip


CLAIM = DEFINITION.claim(parts, measure, judge, draw)
