"""Durations as text."""


def format_duration(seconds: float) -> str:
    """Return seconds as minutes:seconds or hours:minutes:seconds; "?" for NaN.

    >>> format_duration(245.2), format_duration(3600), format_duration(float("nan"))
    ('4:05', '1:00:00', '?')
    """
    if seconds != seconds:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
