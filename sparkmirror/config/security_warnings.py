"""What is odd about a security setting that can be used."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from sparkmirror.config.keys import Key
from sparkmirror.config.parsing import shown, split_list

SPOKEN = ("TLSv1.2", "TLSv1.3")


def security_warnings(key: Key, text: str) -> Iterator[str]:
    """Sentences about a key file that others may read, and about versions of TLS that are not spoken."""
    if key.name == "ssl.keystore.location":
        yield from _readable_by_others(text.strip())
    elif key.name == "ssl.enabled.protocols":
        others = [version for version in split_list(text) if version not in SPOKEN]
        if others:
            yield f"{', '.join(map(shown, others))} is not spoken; only {' and '.join(SPOKEN)} are"


def _readable_by_others(path: str) -> Iterator[str]:
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return  # reported when the file is read, and it may be another machine's
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        yield f"others on this machine may read the private key in {shown(path)}; chmod 600 keeps it to its owner"
