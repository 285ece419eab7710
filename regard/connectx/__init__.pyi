from .board import Board as Board
