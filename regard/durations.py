"""Time, as it is said in the terminal."""


def clock(seconds: float) -> str:
    """Seconds as 4:05, or 1:00:00.

    >>> clock(245.2), clock(3600), clock(float("nan"))
    ('4:05', '1:00:00', '?')
    """
    if seconds != seconds:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
