from .lazy_weights import LazyWeights as LazyWeights
from .registration import NAME as NAME
from .registration import register as register
