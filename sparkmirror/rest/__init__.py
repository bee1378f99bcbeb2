"""What a running mirror answers over HTTP: whether it copies, why not, its figures, and Connect's REST."""

from sparkmirror.rest.address import AccessFiles, ListenAddress, address_of
from sparkmirror.rest.door import HttpDoor

__all__ = ["AccessFiles", "HttpDoor", "ListenAddress", "address_of"]
