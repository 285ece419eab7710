from . import attention as attention
from . import compat as compat
from . import masks as masks
from . import nn as nn
from . import pictures as pictures
from .attention import attend as attend
from .attention import trace as trace

__version__: str
