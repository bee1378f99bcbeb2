"""sparkmirror beside MirrorMaker 2 and beside bare sockets, on the same brokers and data: `python -m bench`."""

__all__: list[str] = []
