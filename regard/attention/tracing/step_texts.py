"""The words of each step of a trace: a title, a sentence or two for a learner, the formula, also in LaTeX.

A `$name` is filled in with the numbers of the trace at hand. Some steps have two wordings, for the case that
a learner would otherwise stumble over: no mask, a scale of one's own, a query that sees nothing.
"""

from dataclasses import dataclass
from string import Template


@dataclass(frozen=True)
class Words:
    """What is said of one step."""

    title: str
    explanation: str
    formula: str
    latex: str

    def fill(self, **facts: object) -> "Words":
        """The same with every `$name` replaced.

        >>> EXPLAINED["scale"].fill(d_k=4, scale=0.5).formula
        'scaled = scores / √d_k = scores × 0.5'
        """
        texts = (self.title, self.explanation, self.formula, self.latex)
        return Words(*(Template(text).substitute(facts) for text in texts))


EXPLAINED = {
    "project": Words(
        "Three views of every token",
        "Three learned matrices turn each token's vector into a query (what it looks for), a key (what it "
        "can be found by) and a value (what it has to say).",
        "Q = $q,  K = $k,  V = $v",
        r"Q = $q_latex,\quad K = $k_latex,\quad V = $v_latex",
    ),
    "split": Words(
        "Cut into heads",
        "The $width columns of Q are cut into $heads strips of $d_k, one for each head. From here to the "
        "merge every head works alone.",
        "Q_h = columns h·d_k to (h+1)·d_k − 1 of Q;  K and V likewise",
        r"Q_h = Q_{:,\; h d_k : (h+1) d_k}",
    ),
    "scores": Words(
        "Compare every query with every key",
        "The score of a pair is the dot product of query and key: large when the two point the same way, "
        "negative when they point apart.",
        "scores = Q · Kᵀ",
        r"\text{scores} = Q K^\top",
    ),
    "scale": Words(
        "Shrink the scores",
        "A dot product over $d_k numbers grows like √$d_k. Dividing by that keeps the scores of wide heads "
        "small, so that softmax does not jump to a single key.",
        "scaled = scores / √d_k = scores × $scale",
        r"\text{scaled} = \frac{\text{scores}}{\sqrt{d_k}}",
    ),
    "scale, given": Words(
        "Scale the scores",
        "The scores are multiplied by $scale, as asked, in place of the usual 1/√d_k = 1/√$d_k.",
        "scaled = scores × $scale",
        r"\text{scaled} = $scale \cdot \text{scores}",
    ),
    "mask": Words(
        "Hide what may not be seen",
        "The score of a hidden pair becomes −∞. exp(−∞) is 0, so its weight will be exactly 0.",
        "masked[i, j] = scaled[i, j] if query i may see key j, else −∞",
        r"\text{masked}_{ij} = \begin{cases} \text{scaled}_{ij} & j \text{ visible to } i \\ -\infty & "
        r"\text{otherwise} \end{cases}",
    ),
    "mask, none": Words(
        "Hide what may not be seen",
        "No mask was given: every query sees every key, and the scores stay as they are.",
        "masked = scaled",
        r"\text{masked} = \text{scaled}",
    ),
    "maximum": Words(
        "Find each query's largest score",
        "It will be subtracted from the whole row. Softmax does not notice, and exp() cannot overflow: "
        "without this, a score above 709 gives infinity, and infinity / infinity is NaN.",
        "maximum[i] = max over j of masked[i, j]",
        r"m_i = \max_j \text{masked}_{ij}",
    ),
    "exponentials": Words(
        "Make every score positive",
        "exp() keeps the order and stretches the distances. The largest score of a row gives exactly 1, all "
        "others less.",
        "e[i, j] = exp(masked[i, j] − maximum[i])",
        r"e_{ij} = \exp(\text{masked}_{ij} - m_i)",
    ),
    "sum": Words(
        "Add up each row",
        "The share of every key will be measured against this.",
        "sum[i] = Σ_j e[i, j]",
        r"s_i = \sum_j e_{ij}",
    ),
    "weights": Words(
        "Divide by the sum",
        "These are the attention weights: for each query, how much of its attention goes to each key. Every "
        "row adds up to 1.",
        "weights[i, j] = e[i, j] / sum[i]",
        r"w_{ij} = \frac{e_{ij}}{s_i}",
    ),
    "weights, empty row": Words(
        "Divide by the sum",
        "These are the attention weights: for each query, how much of its attention goes to each key. Every "
        "row adds up to 1, except where a query sees nothing: there all weights are 0, and so is the output.",
        "weights[i, j] = e[i, j] / sum[i],  0 where sum[i] = 0",
        r"w_{ij} = \begin{cases} e_{ij} / s_i & s_i > 0 \\ 0 & \text{otherwise} \end{cases}",
    ),
    "context": Words(
        "Average the values",
        "Each query takes the values of all keys, each as much as its weight says.",
        "context[i] = Σ_j weights[i, j] · V[j]",
        r"\text{context}_i = \sum_j w_{ij} V_j",
    ),
    "merge": Words(
        "Put the heads side by side",
        "The strips go back next to each other, head 0 first: a row is as wide again as before the split.",
        "merged[i] = (context of head 0 | … | context of head H−1)",
        r"\text{merged} = [\text{context}_0 \mid \dots \mid \text{context}_{H-1}]",
    ),
    "output": Words(
        "Mix what the heads found",
        "Until here no head knew of the others. One last learned matrix brings their findings together: the "
        "output of the layer.",
        "output = $o",
        r"\text{output} = $o_latex",
    ),
}
