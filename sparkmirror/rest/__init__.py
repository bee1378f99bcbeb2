"""What a running mirror answers over HTTP: whether it copies, why not, and its figures. It changes nothing."""

from sparkmirror.rest.address import ListenAddress, address_of
from sparkmirror.rest.door import HttpDoor

__all__ = ["HttpDoor", "ListenAddress", "address_of"]
