"""What a running mirror answers over HTTP: whether it copies, why not, and its figures. It changes nothing."""

from sparkmirror.rest.address import Address, address_of
from sparkmirror.rest.door import HttpDoor

__all__ = ["Address", "HttpDoor", "address_of"]
