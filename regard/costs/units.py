"""Numbers as text: operations in powers of 1000, bytes in powers of 1024, seconds."""


def operations_text(count: int | float) -> str:
    """Return a count with three digits and a unit.

    >>> operations_text(8716288), operations_text(0), operations_text(137438953472)
    ('8.72 M', '0', '137 G')
    """
    return _scaled(count, 1000, ("", "k", "M", "G", "T", "P", "E"))


def bytes_text(count: int | float) -> str:
    """Return a number of bytes with three digits and a unit; 1 MiB is 1024² bytes.

    >>> bytes_text(5 * 2**20), bytes_text(512), bytes_text(0)
    ('5 MiB', '512 B', '0')
    """
    return _scaled(count, 1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB"))


def seconds_text(seconds: float) -> str:
    """Return a time in seconds or milliseconds.

    >>> seconds_text(0.0123), seconds_text(2.5)
    ('12.3 ms', '2.5 s')
    """
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def _scaled(count: int | float, base: int, units: tuple[str, ...]) -> str:
    if not count:
        return "0"
    value, power = float(count), 0
    while value >= 999.5 and power < len(units) - 1:
        value, power = value / base, power + 1
    decimals = 2 if value < 9.995 else 1 if value < 99.95 else 0
    digits = f"{value:.{decimals}f}"
    digits = digits.rstrip("0").rstrip(".") if decimals else digits
    return f"{digits} {units[power]}".rstrip()
