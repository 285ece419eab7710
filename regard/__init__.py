"""A workbench for attention in PyTorch: exact, fast and inspectable.

Exported names are loaded on first use: `import regard` alone does not import torch.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
