"""Questions of an interview, one file a topic; `card.py` says what a card holds and reads them."""
