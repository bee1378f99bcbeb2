"""Moves of positions, and the requests to an owner that lead to them."""
