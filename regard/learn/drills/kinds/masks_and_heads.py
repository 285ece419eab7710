"""Drills on whole matrices: causal, self-attention from its projections, several heads, grouped heads."""

from random import Random

from regard.languages import bilingual
from regard.learn.drills.attention_steps import masked, output, scores, softmax_scaled_by_d_model, weights
from regard.learn.drills.drill import Mistake, Step, Values
from regard.learn.drills.exact_numbers import exact, ln, times
from regard.learn.drills.matrices import Matrix, beside, columns, matrix, product, softmax, transposed
from regard.learn.drills.task import Task

ONE_HEAD = bilingual(
    "It looks as if both columns went into one score: a head uses only its own columns of Q and K.",
    "看起来两列一起算进了同一个分数：每个头只用 Q 和 K 中属于自己的那几列。",
)
OTHER_HEAD = bilingual("These are the weights of the other head.", "这是另一个头的权重。")
HEADS_SWAPPED = bilingual(
    "The heads are side by side in the wrong order: head 0 comes first.", "头的拼接顺序反了：第 0 个头在前。"
)
W_O_TURNED = bilingual(
    "It looks as if W_o was transposed: merged · W_o. (nn.Linear stores the transpose of this W_o.)",
    "看起来把 W_o 转置了：应当是 merged · W_o。（nn.Linear 保存的正是这个 W_o 的转置。）",
)
NO_W_O = bilingual("It looks as if W_o was forgotten.", "看起来忘了乘 W_o。")
W_TURNED = bilingual(
    "It looks as if the matrix was transposed: a row of X times a column of W. nn.Linear.weight is the transpose of W.",
    "看起来把矩阵转置了：应当是 X 的行乘 W 的列。nn.Linear.weight 是 W 的转置。",
)
EMPTY_AS_MEAN = bilingual(
    "A query that sees nothing takes nothing: its weights are 0, not 1/n each.",
    "什么都看不到的查询什么也取不到：它的权重全为 0，而不是各占 1/n。",
)


def causal(random: Random) -> Task:
    """Three tokens, each of which sees itself and what comes before."""
    given = {**_narrow(random, 3), "M": matrix([[1, 0, 0], [1, 1, 0], [1, 1, 1]])}
    return Task(
        bilingual("Causal attention", "因果注意力"),
        "Three tokens, width d_k = 1 (√d_k = 1). In the causal mask M, 1 means visible.",
        "三个词元，宽度 d_k = 1（√d_k = 1）。因果掩码 M 中 1 表示可见。",
        given,
        (scores(), masked("scores"), weights("masked", unmasked="scores"), output()),
    )


def causal_padded(random: Random) -> Task:
    """The same with the first token being padding: the first query sees nothing at all."""
    given = {
        **_narrow(random, 3),
        "Q": matrix([[times(random.randint(1, 2), ln(2))] for _ in range(3)]),
        "M": matrix([[0, 0, 0], [0, 1, 0], [0, 1, 1]]),
    }
    mean = [[exact(1) / exact(3)] * 3]
    as_mean = Mistake("empty-row-as-mean", EMPTY_AS_MEAN, lambda x: mean + softmax(x["masked"])[1:])
    return Task(
        bilingual("Causal, with padding in front", "因果掩码加左填充"),
        "Three tokens, d_k = 1; the first is padding. M is causal and hides the padding (1 means visible). "
        "A query that sees nothing has zero weights.",
        "三个词元，d_k = 1，第一个是填充。M 既是因果掩码，又遮住填充（1 表示可见）。什么都看不到的查询，权重全为 0。",
        given,
        (scores(), masked("scores"), weights("masked", more=(as_mean,), unmasked="scores"), output()),
    )


def self_attention(random: Random) -> Task:
    """From X and three weight matrices to the output."""
    given = {
        "X": matrix([[random.randint(0, 2) for _ in range(2)] for _ in range(2)]),
        "W_q": matrix([[times(random.randint(0, 2), ln(random.choice((2, 3))))] for _ in range(2)]),
        "W_k": matrix([[random.randint(-1, 2)] for _ in range(2)]),
        "W_v": matrix([[random.randint(-2, 4) for _ in range(2)] for _ in range(2)]),
    }
    value = _projected(
        "V", "W_v", (Mistake("w-transposed", W_TURNED, lambda x: product(x["X"], transposed(x["W_v"]))),)
    )
    by_d_model = softmax_scaled_by_d_model("scores", 2)
    return Task(
        bilingual("Self-attention from the projections", "从投影开始的自注意力"),
        "Two tokens X of width 2, one head with d_k = 1 (so √d_k = 1). Weights multiply from the right: Q = X·W_q.",
        "两个词元 X，宽度 2，一个头，d_k = 1（所以 √d_k = 1）。权重矩阵右乘：Q = X·W_q。",
        given,
        (
            _projected("Q", "W_q"),
            _projected("K", "W_k"),
            value,
            scores(v=None),
            weights("scores", more=(by_d_model,)),
            output(k=None),
        ),
    )


def two_heads(random: Random) -> Task:
    """Two heads of width 1, merged and projected."""
    primes = random.sample((2, 3), 2)
    given = {
        "Q": matrix([[times(random.randint(0, 2), ln(p)) for p in primes] for _ in range(2)]),
        "K": matrix([[random.randint(-1, 2) for _ in range(2)] for _ in range(2)]),
        "V": matrix([[random.randint(0, 12) for _ in range(2)] for _ in range(2)]),
        "W_o": _mixing(random),
    }
    return Task(
        bilingual("Two heads", "两个头"),
        "Two tokens, d_model = 2, two heads of width d_k = 1: column 0 is head 0, column 1 is head 1.",
        "两个词元，d_model = 2，两个宽度 d_k = 1 的头：第 0 列是第 0 个头，第 1 列是第 1 个头。",
        given,
        _of_heads(shared=False),
    )


def shared_keys(random: Random) -> Task:
    """Two query heads that share one head of keys and values."""
    given = {
        "Q": matrix([[times(random.randint(0, 2), ln(2)) for _ in range(2)] for _ in range(2)]),
        "K": matrix([[random.randint(-1, 2)] for _ in range(2)]),
        "V": matrix([[random.randint(0, 12)] for _ in range(2)]),
        "W_o": _mixing(random),
    }
    return Task(
        bilingual("Two query heads, one key/value head", "两个查询头共用一组键值"),
        "Two tokens. Two query heads of width 1 (a column of Q each) share the only head of K and V.",
        "两个词元。两个宽度为 1 的查询头（Q 的每列一个）共用唯一的一组 K 和 V。",
        given,
        _of_heads(shared=True),
    )


def _of_heads(shared: bool) -> tuple[Step, ...]:
    def head(x: Values, h: int) -> Matrix:
        column = 0 if shared else h
        return softmax(product(columns(x["Q"], h, h + 1), transposed(columns(x["K"], column, column + 1))))

    def merged(x: Values, order: tuple[int, int] = (0, 1)) -> Matrix:
        a, b = (product(x[f"weights {h}"], columns(x["V"], *((0, 1) if shared else (h, h + 1)))) for h in order)
        return beside(a, b)

    def of(h: int) -> Step:
        mistakes = [Mistake("other-head", OTHER_HEAD, lambda x: head(x, 1 - h))]
        if not shared:
            mistakes.insert(0, Mistake("one-head", ONE_HEAD, lambda x: softmax(product(x["Q"], transposed(x["K"])))))
        ask = bilingual(f"the weights of head {h}, for both queries", f"第 {h} 个头的权重（两个查询）")
        return Step(f"weights {h}", ask, lambda x: head(x, h), tuple(mistakes))

    ask = bilingual("the heads' outputs side by side, head 0 first", "把两个头的输出并排拼接，第 0 个头在前")
    swapped = Mistake("heads-swapped", HEADS_SWAPPED, lambda x: merged(x, (1, 0)))
    turned = Mistake("w_o-transposed", W_O_TURNED, lambda x: product(x["merged"], transposed(x["W_o"])))
    forgotten = Mistake("w_o-forgotten", NO_W_O, lambda x: x["merged"])
    return (
        of(0),
        of(1),
        Step("merged", ask, merged, (swapped,)),
        Step(
            "output",
            bilingual("the output: merged · W_o", "输出：merged · W_o"),
            lambda x: product(x["merged"], x["W_o"]),
            (turned, forgotten),
        ),
    )


def _projected(name: str, by: str, mistakes: tuple[Mistake, ...] = ()) -> Step:
    return Step(name, bilingual(f"{name} = X·{by}", f"{name} = X·{by}"), lambda x: product(x["X"], x[by]), mistakes)


def _narrow(random: Random, tokens: int) -> dict[str, Matrix]:
    return {
        "Q": matrix([[times(random.choice((0, 1, 1, 2)), ln(2))] for _ in range(tokens)]),
        "K": matrix([[random.randint(-1, 2)] for _ in range(tokens)]),
        "V": matrix([[random.randint(0, 12)] for _ in range(tokens)]),
    }


def _mixing(random: Random) -> Matrix:
    rows = [(1, 0), (0, 1), (1, 1), (2, 1), (1, 2), (1, -1)]
    return matrix(random.sample(rows, 2))  # no two of them parallel
