"""Parse answers as a learner types them: 2/3, 0.67, ln 2, 2 ln 3, e^2, −∞, 50%.

Numbers of a row are separated by commas, rows by semicolons or new lines:

    1/3, 2/3; 1/2, 1/2

Chinese punctuation and the typographic minus sign are accepted. Fractions and logarithms stay exact; a number with a
decimal point counts as rounded.
"""

import math
import re
from collections.abc import Sequence
from fractions import Fraction

from regard.languages import Bilingual, bilingual
from regard.learn.drills.exact_numbers import Exact, exact, exp, ln
from regard.learn.drills.matrices import Matrix
from regard.learn.drills.texts import drill_text

TOKEN = re.compile(r"\s*(?:(\d+\.\d*|\.\d+)|(\d+)|(ln|log|exp|e\^|inf(?:inity)?|∞)|([-+*/()%^×·]))", re.IGNORECASE)
ASCII_PUNCTUATION = str.maketrans("，；（）−–：∕％", ",;()--:/%")
MAX_CHARACTERS = 100  # longest text of one number; evaluating a million digits would take too long


class UnreadableAnswer(ValueError):
    """An answer that cannot be parsed; `message` says why and how to write it."""

    def __init__(self, reason: str, **values: object) -> None:
        self.message: Bilingual = drill_text("unread", reason, **values)
        super().__init__(self.message["en"])


def read_matrix(answer: object, rows: int, columns: int) -> Matrix:
    """Return the matrix in a typed text, or in lists of cells as the page sends them.

    >>> from regard.learn.drills.exact_numbers import format_number
    >>> [[format_number(x) for x in row] for row in read_matrix("1/3, ln 2; 0, -inf", 2, 2)]
    [['1/3', 'ln 2'], ['0', '−∞']]
    """
    if isinstance(answer, Sequence) and not isinstance(answer, str):
        lines = _split_cells(answer, rows)
    else:
        lines = _split_text(str(answer), rows, columns)
    lengths = [len(line) for line in lines]
    if lengths != [columns] * rows:
        count = " + ".join(map(str, lengths)) or "0"
        raise UnreadableAnswer("size", expected=_describe_size(rows, columns), count=count)
    return [[read_number(cell) for cell in line] for line in lines]


def read_number(text: str) -> Exact | float:
    """Return one number, exact unless it has a decimal point.

    >>> read_number("0.67"), read_number("ln(4)/2") == ln(2)
    (0.67, True)
    """
    parser = _Parser(text)
    try:
        number = parser.sum()
        is_nan = math.isnan(float(number))
    except UnreadableAnswer:
        raise
    except (ArithmeticError, ValueError) as error:
        raise UnreadableAnswer("no-value", text=repr(text.strip()), error=error) from None
    if parser.rest() or is_nan:
        raise _unclear(text)
    return number


def _split_text(text: str, rows: int, columns: int) -> list[list[str]]:
    plain = text.translate(ASCII_PUNCTUATION).strip().strip("[]")
    if rows == columns == 1:
        return [[re.sub(r"(?<=\d),(?=\d{3}\b)", "", plain)]]  # 2,097,152 is one number
    plain = re.sub(r"^\(([^()]*)\)$", r"\1", plain)  # a shape typed as (2, 8, 5, 64)
    lines = [line.strip().strip("[]") for line in re.split(r"[;\n]", plain) if line.strip()]
    if rows == 1 and len(lines) == columns and columns > 1:
        return [lines]
    parts = [line.rstrip(",").split(",") if "," in line else line.split() for line in lines]
    return [p if "," in line or len(p) == columns > 1 else [line] for line, p in zip(lines, parts, strict=True)]


def _split_cells(answer: Sequence[object], rows: int) -> list[list[str]]:
    def is_row(cell: object) -> bool:
        return isinstance(cell, Sequence) and not isinstance(cell, str)

    nested = answer if any(map(is_row, answer)) else [answer] if rows == 1 else [[cell] for cell in answer]
    return [[str(cell) for cell in row] if isinstance(row, Sequence) and is_row(row) else [str(row)] for row in nested]


def _describe_size(rows: int, columns: int) -> Bilingual:
    if rows > 1:
        return bilingual(f"{rows} rows of {columns}", f"{rows} 行、每行 {columns} 个数")
    return bilingual("one number" if columns == 1 else f"{columns} numbers", f"{columns} 个数")


def _unclear(text: str) -> UnreadableAnswer:
    excerpt = text.strip() if len(text) <= MAX_CHARACTERS else f"{text[:20]}…"
    return UnreadableAnswer("unclear", text=repr(excerpt))


class _Parser:
    """Recursive descent over sums of products; a number before ln or a bracket multiplies it."""

    def __init__(self, text: str) -> None:
        self.text = text.translate(ASCII_PUNCTUATION).strip()
        self.position = 0
        if not self.text or len(self.text) > MAX_CHARACTERS:
            raise _unclear(text)

    def rest(self) -> str:
        return self.text[self.position :].strip()

    def peek(self) -> str:
        token = TOKEN.match(self.text, self.position)
        return token.group().strip().lower() if token else ""

    def take(self) -> str:
        token = TOKEN.match(self.text, self.position)
        if token is None:
            raise _unclear(self.text)
        self.position = token.end()
        return token.group().strip().lower()

    def sum(self) -> Exact | float:
        total = self.product()
        while self.peek() in ("+", "-"):
            total = total + self.product() if self.take() == "+" else total - self.product()
        return total

    def product(self) -> Exact | float:
        result = self.signed()
        while (operator := self.peek()) in ("*", "×", "·", "/", "(", "ln", "log"):
            if operator in ("(", "ln", "log"):
                result = result * self.factor()
            else:
                result = result / self.signed() if self.take() == "/" else result * self.signed()
        return result

    def signed(self) -> Exact | float:
        if self.peek() in ("-", "+"):
            return -self.signed() if self.take() == "-" else self.signed()
        return self.factor()

    def factor(self) -> Exact | float:
        token = self.take()
        if token == "(":
            inner = self.sum()
            if self.take() != ")":
                raise _unclear(self.text)
            return inner
        if token in ("ln", "log"):
            return self.logarithm()
        if token in ("exp", "e^"):
            return exp(self.signed())
        if token in ("inf", "infinity", "∞"):
            return math.inf
        if not token[0].isdigit() and token[0] != ".":
            raise _unclear(self.text)
        number: Exact | float = float(token) if "." in token else exact(int(token))
        if self.peek() == "%":
            self.take()
            return number / exact(100)
        if self.peek() == "^":
            self.take()
            return self.power(number, self.signed())
        return number

    def logarithm(self) -> Exact | float:
        has_bracket = self.peek() == "("
        inside = self.factor()
        if not has_bracket and self.peek() == "/":
            raise UnreadableAnswer("ambiguous", text=repr(self.text))
        if float(inside) <= 0:
            raise UnreadableAnswer("logarithm", text=repr(self.text))
        is_small = isinstance(inside, Exact) and max(inside.rational.numerator, inside.rational.denominator) <= 10**6
        if isinstance(inside, Exact) and is_small and not inside.logs:
            return ln(inside.rational)
        return math.log(float(inside))

    def power(self, base: Exact | float, exponent: Exact | float) -> Exact | float:
        is_integer = isinstance(exponent, Exact) and not exponent.logs and exponent.rational.denominator == 1
        if isinstance(base, Exact) and isinstance(exponent, Exact) and is_integer and abs(exponent.rational) <= 64:
            return exact(Fraction(base.rational) ** int(exponent.rational))
        return math.pow(float(base), float(exponent))
