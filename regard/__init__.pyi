from . import attention as attention
from . import claims as claims
from . import compat as compat
from . import connectx as connectx
from . import huggingface as huggingface
from . import interventions as interventions
from . import learn as learn
from . import masks as masks
from . import models as models
from . import nn as nn
from . import pictures as pictures
from . import training as training
from .attention import Mask as Mask
from .attention import attend as attend
from .attention import attend_with_lse as attend_with_lse
from .attention import trace as trace
from .costs import cost as cost
from .watching import agree as agree
from .watching import atlas as atlas
from .watching import intervene as intervene
from .watching import patching as patching
from .watching import telemetry as telemetry
from .watching import watch as watch

__version__: str
