"""Models behind the lab: watched language models, the board network and its heads, and the search process."""
