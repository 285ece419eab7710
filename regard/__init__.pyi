from . import attention as attention

__version__: str
