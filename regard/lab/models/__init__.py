"""Models behind the lab: watched models, the board network's heads, and the search process."""
