"""The page as a browser shows it."""
