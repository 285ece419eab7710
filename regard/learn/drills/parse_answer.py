"""Answers as a learner types them: 2/3, 0.67, ln 2, 2 ln 3, e^2, −∞, 50%.

A row is typed with commas, rows are divided by semicolons or new lines:

    1/3, 2/3; 1/2, 1/2

Chinese punctuation and the typographic minus are read as well. Fractions and logarithms are kept exact; a number
with a decimal point is taken as rounded.
"""

import math
import re
from collections.abc import Sequence
from fractions import Fraction

from regard.languages import Bilingual, bilingual
from regard.learn.drills.exact_numbers import Exact, exact, exp, ln
from regard.learn.drills.matrices import Matrix

TOKEN = re.compile(r"\s*(?:(\d+\.\d*|\.\d+)|(\d+)|(ln|log|exp|e\^|inf(?:inity)?|∞)|([-+*/()%^×·]))", re.IGNORECASE)
PLAIN = str.maketrans("，；（）−–：∕％", ",;()--:/%")
MOST_CHARACTERS = 100  # of one number; a million digits would keep the machine busy


HOW = bilingual("write 2/3, 0.67, ln 2, 2 ln 3 or -inf", "可以写 2/3、0.67、ln 2、2 ln 3 或 -inf")


class Unread(ValueError):
    """An answer that could not be read; `says` tells why and how to write it."""

    def __init__(self, en: str, zh: str) -> None:
        super().__init__(en)
        self.message: Bilingual = bilingual(en, zh)


def read_matrix(answer: object, rows: int, columns: int) -> Matrix:
    """The matrix that was typed, or given cell by cell as from a page; a ValueError says how to write it.

    >>> from regard.learn.drills.exact_numbers import format_number
    >>> [[format_number(x) for x in row] for row in read_matrix("1/3, ln 2; 0, -inf", 2, 2)]
    [['1/3', 'ln 2'], ['0', '−∞']]
    """
    if isinstance(answer, Sequence) and not isinstance(answer, str):
        lines = _cells(answer, rows)
    else:
        lines = _lines(str(answer), rows, columns)
    found = [len(line) for line in lines]
    if found != [columns] * rows:
        en, zh = _size(rows, columns)
        got = " + ".join(map(str, found)) or "0"
        raise Unread(
            f"{en} expected, got {got}; put commas between numbers and semicolons between rows",
            f"应填{zh}，得到 {got} 个；数与数之间用逗号，行与行之间用分号",
        )
    return [[read_number(cell) for cell in line] for line in lines]


def read_number(text: str) -> Exact | float:
    """One number, exact unless it has a decimal point.

    >>> read_number("0.67"), read_number("ln(4)/2") == ln(2)
    (0.67, True)
    """
    reader = _Reader(text)
    try:
        number = reader.sum()
        undefined = math.isnan(float(number))
    except Unread:
        raise
    except (ArithmeticError, ValueError) as error:
        raise Unread(f"{text.strip()!r} has no value ({error})", f"{text.strip()!r} 没有值（{error}）") from None
    if reader.rest() or undefined:
        raise _unclear(text)
    return number


def _lines(text: str, rows: int, columns: int) -> list[list[str]]:
    plain = text.translate(PLAIN).strip().strip("[]")
    if rows == columns == 1:
        return [[re.sub(r"(?<=\d),(?=\d{3}\b)", "", plain)]]  # 2,097,152 is one number
    plain = re.sub(r"^\(([^()]*)\)$", r"\1", plain)  # a shape typed as (2, 8, 5, 64)
    lines = [line.strip().strip("[]") for line in re.split(r"[;\n]", plain) if line.strip()]
    if rows == 1 and len(lines) == columns and columns > 1:
        return [lines]
    return [line.rstrip(",").split(",") if "," in line else _spaced(line, columns) for line in lines]


def _spaced(line: str, columns: int) -> list[str]:
    parts = line.split()
    return parts if columns > 1 and len(parts) == columns else [line]


def _cells(answer: Sequence[object], rows: int) -> list[list[str]]:
    nested = any(isinstance(row, Sequence) and not isinstance(row, str) for row in answer)
    given = answer if nested else [answer] if rows == 1 else [[cell] for cell in answer]
    return [
        [str(cell) for cell in row] if isinstance(row, Sequence) and not isinstance(row, str) else [str(row)]
        for row in given
    ]


def _size(rows: int, columns: int) -> tuple[str, str]:
    if rows == 1:
        return ("one number" if columns == 1 else f"{columns} numbers"), f" {columns} 个数"
    return f"{rows} rows of {columns}", f" {rows} 行、每行 {columns} 个数"


def _unclear(text: str) -> Unread:
    shown = text.strip() if len(text) <= MOST_CHARACTERS else f"{text[:20]}…"
    return Unread(f"cannot read {shown!r}; {HOW['en']}", f"读不懂 {shown!r}；{HOW['zh']}")


class _Reader:
    """Sums of products, by recursive descent; a number before ln or a bracket multiplies it."""

    def __init__(self, text: str) -> None:
        self.text = text.translate(PLAIN).strip()
        self.at = 0
        if not self.text or len(self.text) > MOST_CHARACTERS:
            raise _unclear(text)

    def rest(self) -> str:
        return self.text[self.at :].strip()

    def peek(self) -> str:
        found = TOKEN.match(self.text, self.at)
        return found.group().strip().lower() if found else ""

    def take(self) -> str:
        found = TOKEN.match(self.text, self.at)
        if found is None:
            raise _unclear(self.text)
        self.at = found.end()
        return found.group().strip().lower()

    def sum(self) -> Exact | float:
        total = self.product()
        while self.peek() in ("+", "-"):
            total = total + self.product() if self.take() == "+" else total - self.product()
        return total

    def product(self) -> Exact | float:
        total = self.signed()
        while (sign := self.peek()) in ("*", "×", "·", "/", "(", "ln", "log"):
            if sign in ("(", "ln", "log"):
                total = total * self.factor()
            else:
                total = total / self.signed() if self.take() == "/" else total * self.signed()
        return total

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
        bracketed = self.peek() == "("
        inside = self.factor()
        if not bracketed and self.peek() == "/":
            raise Unread(
                f"{self.text!r} can be read in two ways; write ln(3/2) or (ln 3)/2",
                f"{self.text!r} 有两种读法；请写成 ln(3/2) 或 (ln 3)/2",
            )
        if float(inside) <= 0:
            raise Unread(f"ln is for numbers above 0, got {self.text!r}", f"ln 只对正数有意义，得到 {self.text!r}")
        small = isinstance(inside, Exact) and max(inside.rational.numerator, inside.rational.denominator) <= 10**6
        if isinstance(inside, Exact) and small and not inside.logs:
            return ln(inside.rational)
        return math.log(float(inside))

    def power(self, base: Exact | float, exponent: Exact | float) -> Exact | float:
        whole = isinstance(exponent, Exact) and not exponent.logs and exponent.rational.denominator == 1
        if isinstance(base, Exact) and isinstance(exponent, Exact) and whole and abs(exponent.rational) <= 64:
            return exact(Fraction(base.rational) ** int(exponent.rational))
        return math.pow(float(base), float(exponent))
