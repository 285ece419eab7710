from contextlib import contextmanager

import numpy as np

PRODUCTS = (np.dot, np.einsum, np.inner, np.vdot, np.tensordot, np.linalg.multi_dot, np.apply_along_axis)
CONVERSIONS = ("array", "asarray", "ascontiguousarray")


class ForbiddenStep(Exception):
    """The code uses more keys at once than a tile has."""


class Watched(np.ndarray):
    """Keys, values or what is computed from them; refuses a calculation with more than a tile at once.

    Keys and values may have `limit` numbers. What is computed from them, for example scores, has the limit 0 and may
    not have an entry for each of the `keys`.
    """

    limit = keys = 0

    def __array_finalize__(self, source):
        self.limit, self.keys = getattr(source, "limit", 0), getattr(source, "keys", 0)

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        options = {name: plain(value) for name, value in options.items()}
        return computed(getattr(ufunc, method)(*(plain(check(value)) for value in inputs), **options), inputs)

    def __array_function__(self, function, types, arguments, options):
        if function not in PRODUCTS:  # functions that split, join or copy, and those that use ufuncs
            return computed(super().__array_function__(function, types, arguments, options), arguments)
        check(arguments)
        return computed(function(*plain(arguments), **plain(options)), arguments)

    def dot(self, other):
        return computed(plain(check(self)).dot(plain(check(other))), [self])


def check(value):
    if isinstance(value, Watched) and (
        value.size > value.limit if value.limit else max(value.shape, default=0) >= value.keys
    ):
        raise ForbiddenStep("tile")
    for item in value if isinstance(value, tuple | list) else ():
        check(item)
    return value


def computed(result, sources):
    """Return the result of a calculation with the sources as a watched array, if it is an array."""
    source = first_watched(sources)
    if source is None or type(result) is not np.ndarray or not result.ndim:
        return result
    result = result.view(Watched)
    result.limit, result.keys = 0, source.keys
    return result


def first_watched(values):
    for value in values:
        inner = first_watched(value) if isinstance(value, tuple | list) else value
        if isinstance(inner, Watched):
            return inner
    return None


def plain(value):
    if isinstance(value, Watched):
        return value.view(np.ndarray)
    if isinstance(value, tuple | list):
        return type(value)(plain(item) for item in value)
    return {name: plain(item) for name, item in value.items()} if isinstance(value, dict) else value


@contextmanager
def watched_conversions():
    """Let np.asarray and its like keep a watched array watched."""
    originals = {name: getattr(np, name) for name in CONVERSIONS}

    def keeping(convert):
        def function(value, *arguments, **options):
            result = convert(value, *arguments, **options)
            source = first_watched([value])
            if source is None or not isinstance(result, np.ndarray) or not result.ndim:
                return result
            result = result.view(Watched)
            result.limit, result.keys = source.limit, source.keys
            return result

        return function

    for name, convert in originals.items():
        setattr(np, name, keeping(convert))
    try:
        yield
    finally:
        for name, convert in originals.items():
            setattr(np, name, convert)


def drive(code, query, keys, values, tile):
    result = code.online_attention(query, keys, values, tile)
    limit = tile * max(keys.shape[1], values.shape[1])
    if min(keys.size, values.size) > limit:
        # An axis of the output may have as many entries as there are keys: then scores cannot be told apart from it.
        count = len(keys) if len(keys) > max(keys.shape[1], values.shape[1]) else float("inf")
        watched = [array.copy().view(Watched) for array in (keys, values)]
        for array in watched:
            array.limit, array.keys = limit, count
        try:
            with watched_conversions():
                code.online_attention(query.copy(), *watched, tile)
        except ForbiddenStep:
            raise
        except Exception:  # a program that works with plain arrays only is not refused
            return result
    return result
