"""The page for people: the flows as they are now, what needs attention, and what can be done about it."""

from sparkmirror.rest.page.routes import OperatorPage, wants_html

__all__ = ["OperatorPage", "wants_html"]
