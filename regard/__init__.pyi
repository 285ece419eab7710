from . import attention as attention
from .attention import trace as trace

__version__: str
