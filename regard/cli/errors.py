"""How the commands report errors: one line for a user's mistake, the traceback for a defect in regard.

A mistake is an exception that regard raises on purpose (a `raise` statement in regard's own code, which checks its
input), an OSError, a MemoryError, a missing extra, or a version of torch that regard does not support. It gives one
line on stderr and exit code 2. Any other exception is a defect: it passes through, and `regard.cli.main` prints its
traceback and asks for a report. With the global option `--debug` mistakes show their traceback as well.
"""

import dis
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

import regard
from regard.extras import MissingExtraError
from regard.torch_version import TorchVersionError

if TYPE_CHECKING:
    from regard.masks import Mask

PACKAGE = str(Path(regard.__file__).parent)
DEFECT = """
regard: this is a defect in regard, not a mistake of yours. Please report it with the lines above, the command and the
output of `regard --version` (CONTRIBUTING.md, "Report a defect")."""

debug = False  # set by the global option --debug


@contextmanager
def report_user_errors(command: str) -> Iterator[None]:
    """Report a user's mistake inside this context as one line on stderr, and exit with code 2."""
    try:
        yield
    except (ValueError, TypeError, KeyError, OSError, MemoryError, MissingExtraError, TorchVersionError) as error:
        if not is_user_error(error):
            raise
        if debug:
            traceback.print_exception(error)
        message = error.args[0] if isinstance(error, KeyError) else error
        print(f"regard {command}: {' '.join(str(message).split())}", file=sys.stderr)  # noqa: T201
        raise typer.Exit(2) from error


def is_user_error(error: BaseException) -> bool:
    """Return whether the user's input caused an exception: a `raise` in regard's code, an OSError or a MemoryError."""
    if isinstance(error, (OSError, MemoryError, MissingExtraError, TorchVersionError)):
        return True
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    if place is None:
        return False
    code = place.tb_frame.f_code
    return code.co_filename.startswith(PACKAGE) and code.co_code[place.tb_lasti] == dis.opmap["RAISE_VARARGS"]


def report_defect(error: BaseException) -> int:
    """Print the traceback of a defect and where to report it; return the exit code."""
    traceback.print_exception(error)
    print(DEFECT, file=sys.stderr)  # noqa: T201
    return 1


def read_mask(text: str) -> "Mask | None":
    """Return the mask that the option `--mask` describes, None for "none"."""
    if text.strip() == "none":
        return None
    from regard import masks

    return masks.parse(re.sub(r"\b(\w+):(\d+)", r"\1(\2)", text))  # window:3 needs no quotes in a shell
