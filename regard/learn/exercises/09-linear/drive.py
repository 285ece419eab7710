import torch.nn.functional as F


class ForbiddenStep(Exception):
    """The code calls a function that the statement forbids."""


def drive(code, x, weight, bias):
    original = F.linear

    def refuse(*arguments, **options):
        raise ForbiddenStep("F.linear")

    F.linear = refuse
    try:
        return code.linear_loop(x, weight, bias), code.linear_reshape(x, weight, bias)
    finally:
        F.linear = original
