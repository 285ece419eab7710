"""Generate drills: a level and a seed give one drill, always the same.

Numbers are drawn again until the results have small denominators, and until the correct calculation and all common
mistakes give different results, so that the mistake in a wrong answer can be named.
"""

from collections.abc import Callable
from itertools import combinations
from random import Random

from regard.languages import Bilingual, fill_in, read_texts
from regard.learn.drills.drill import Drill, Step, Task, Values
from regard.learn.drills.exact_numbers import Exact
from regard.learn.drills.kinds import layer_norm, masks_and_heads, one_query, shapes_and_costs
from regard.learn.drills.kinds import online_softmax_drill as online_softmax
from regard.learn.drills.matrices import close, format_matrix, shape
from regard.learn.drills.texts import FILE

LEVELS = (1, 2, 3, 4, 5)

DRILL_KINDS: dict[str, tuple[int, Callable[[Random], Task]]] = {  # level and generator
    "softmax": (1, one_query.softmax_alone),
    "weighted-sum": (1, one_query.weighted_sum),
    "scores": (1, one_query.score_matrix),
    "scaling": (2, one_query.scaling),
    "one-query": (2, one_query.one_query),
    "shapes": (2, shapes_and_costs.shapes),
    "parameters": (2, shapes_and_costs.parameters),
    "hidden-key": (3, one_query.one_scaled_query),
    "causal": (3, masks_and_heads.causal),
    "cross": (3, one_query.cross),
    "cost": (3, shapes_and_costs.operations),
    "cache": (3, shapes_and_costs.cache),
    "self-attention": (4, masks_and_heads.self_attention),
    "two-heads": (4, masks_and_heads.two_heads),
    "layer-norm": (4, layer_norm.layer_norm),
    "causal-padded": (5, masks_and_heads.causal_padded),
    "shared-keys": (5, masks_and_heads.shared_keys),
    "online": (5, online_softmax.online),
}

LARGEST_DENOMINATOR = {1: 12, 2: 12, 3: 12, 4: 20, 5: 30}  # by level
MAX_DRAWS = 3000


def drill(level: int, seed: int, kind: str | None = None) -> Drill:
    """Return the drill of a level and a seed; `kind` determines the level and overrides `level`.

    >>> drill(1, seed=0, kind="softmax").answers().keys()
    dict_keys(['exponentials', 'sums', 'weights'])
    """
    if kind is None:
        if level not in LEVELS:
            raise ValueError(f"levels are {LEVELS[0]} to {LEVELS[-1]}, got {level}")
        kinds = [name for name, (kind_level, _) in DRILL_KINDS.items() if kind_level == level]
        kind = Random(f"{level}:{seed}").choice(kinds)
    elif kind not in DRILL_KINDS:
        raise ValueError(f"the kinds of drills are {', '.join(DRILL_KINDS)}, got {kind!r}")
    level, draw_task = DRILL_KINDS[kind]
    random = Random(f"{kind}:{seed}")
    for _ in range(MAX_DRAWS):
        task = draw_task(random)
        if _is_suitable(task, level):
            texts = read_texts(FILE)["drill"][kind]
            statement = _with_matrices(fill_in(texts["statement"], **task.values), task.inputs)
            return Drill(kind, level, seed, texts["title"], statement, task.inputs, task.steps)
    raise RuntimeError(f"no suitable numbers for {kind} with seed {seed} in {MAX_DRAWS} draws")


def find_drill(name: str) -> Drill:
    """Return the drill with this `Drill.name`.

    >>> find_drill("causal:3:7").name
    'causal:3:7'
    """
    kind, _, rest = name.partition(":")
    level, _, seed = rest.partition(":")
    if kind not in DRILL_KINDS or level != str(DRILL_KINDS[kind][0]) or not seed.isdecimal():
        raise ValueError(f"a drill is named KIND:LEVEL:SEED, such as causal:3:7, got {name!r}")
    return drill(int(level), int(seed), kind)


def _with_matrices(statement: Bilingual, inputs: Values) -> Bilingual:
    """Return the statement followed by the given matrices, each written as "name = matrix"."""
    blocks = []
    for name, value in inputs.items():
        margin = "\n" + " " * (len(name) + 3)
        blocks.append(f"{name} = {format_matrix(value).replace(chr(10), margin)}")
    return {language: "\n\n".join([text, *blocks]) for language, text in statement.items()}


def _is_suitable(task: Task, level: int) -> bool:
    values = dict(task.inputs)
    for step in task.steps:
        values[step.name] = step.compute(values)
        fractions = [x.rational for row in values[step.name] for x in row if isinstance(x, Exact)]
        small = all(fraction.denominator <= LARGEST_DENOMINATOR[level] for fraction in fractions)
        if not small or not _mistakes_differ(step, values):
            return False
    return True


def _mistakes_differ(step: Step, values: Values) -> bool:
    results = [values[step.name]]
    for mistake in step.mistakes:
        try:
            results.append(mistake.compute(values))
        except (ArithmeticError, ValueError):
            continue  # the shapes do not fit: this mistake is impossible here
    return not any(shape(a) == shape(b) and close(a, b) for a, b in combinations(results, 2))
