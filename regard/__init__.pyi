from . import attention as attention
from . import compat as compat
from . import learn as learn
from . import masks as masks
from . import nn as nn
from . import pictures as pictures
from .attention import attend as attend
from .attention import trace as trace
from .cost import cost as cost
from .watch import watch as watch

__version__: str
