from .book import Book as Book
from .book import load_book as load_book
from .bookmaking import kept as kept
from .bookmaking import make_layer as make_layer
from .solver import Solver as Solver
from .solver import Stones as Stones
from .solver import position_of as position_of
