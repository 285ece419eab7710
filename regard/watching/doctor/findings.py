"""What the doctor reports: findings, what was checked, and what could not be checked."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Finding:
    """One thing that looks wrong: what, in which call and head, with an example pair of query and key.

    what                    what is wrong, as in the table of `regard.watching.doctor`
    call, head, query, key  where: path of the module, and an example; None where it concerns the whole call
    message                 a sentence with the numbers and what to do

    >>> import regard, torch
    >>> layer = regard.nn.MultiHeadAttention(16, 1)
    >>> with regard.watch(layer) as seen:
    ...     _ = layer(torch.randn(1, 5, 16))
    >>> [finding.what for finding in seen.check(causal=True)]
    ['sees the future']
    """

    what: str
    call: str
    head: int | None
    query: int | None
    key: int | None
    message: str

    def __str__(self) -> str:
        head = f", head {self.head}" if self.head is not None else ""
        return f"{self.what}: {self.call or 'the model'}{head}: {self.message}"


ALL_CHECKS = "all checks"  # the check of a module without a recorded call


class NotChecked(NamedTuple):
    """A check that could not be made for a call, and the reason."""

    call: str
    check: str
    reason: str


class Findings(list[Finding]):
    """The findings as a list, with the checks that were made (`checked`) and those that were not (`not_checked`).

    >>> import regard, torch
    >>> layer = regard.nn.MultiHeadAttention(16, 1, causal=True)
    >>> with regard.watch(layer) as seen:
    ...     _ = layer(torch.randn(1, 5, 16))
    >>> seen.check(causal=True) == []
    True
    >>> print(seen.check(causal=True))                         # doctest: +ELLIPSIS
    no findings
    checked in 1 module: numbers, empty rows, future, ...
    """

    def __init__(self, findings: Iterable[Finding] = ()) -> None:
        super().__init__(findings)
        self._checked: dict[tuple[str, str], None] = {}
        self._not_checked: dict[NotChecked, None] = {}

    @property
    def checked(self) -> list[tuple[str, str]]:
        """Pairs (call, check) of the checks that were made."""
        return list(self._checked)

    @property
    def not_checked(self) -> list[NotChecked]:
        """Triples (call, check, reason) of the checks that could not be made."""
        return list(self._not_checked)

    def add_checked(self, call: str, check: str) -> None:
        """Note that a check was made for a call."""
        self._checked[call, check] = None

    def add_not_checked(self, call: str, check: str, reason: str) -> None:
        """Note that a check could not be made for a call."""
        self._not_checked[NotChecked(call, check, reason)] = None

    def __str__(self) -> str:
        count = len(self)
        lines = [f"{count} finding{'s' * (count != 1)}:", *(f"  {x}" for x in self)] if self else ["no findings"]
        modules = {call for call, _ in self._checked}
        if modules:
            checks = ", ".join(dict.fromkeys(check for _, check in self._checked))
            lines.append(f"checked in {len(modules)} module{'s' * (len(modules) != 1)}: {checks}")
        return "\n".join([*lines, *self.not_checked_lines()])

    def not_checked_lines(self, *, unseen: bool = True) -> list[str]:
        """Return one line for each check that could not be made, for all calls with the same reason.

        unseen      whether to list modules without a recorded call, for which no check could be made
        """
        calls: dict[tuple[str, str], list[str]] = {}
        for call, check, reason in self._not_checked:
            if check == ALL_CHECKS and not unseen:
                continue
            calls.setdefault((check, reason), []).append(call or "the model")
        lines = []
        for (check, reason), names in calls.items():
            names = list(dict.fromkeys(names))
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            lines.append(f"not checked: {check} in {names[0]}{more}: {reason}")
        return lines
