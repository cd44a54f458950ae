"""What fadewise says when something given to it cannot be used: one sentence, one class."""

from __future__ import annotations


class FadewiseError(ValueError):
    """Something given by the user cannot be used. Its text is one sentence for a person."""


class SettingError(FadewiseError):
    """A setting that cannot be used: which one, what was given and what is allowed.

    The parts are kept apart so that whoever knows the file and the section can put them in front.
    """

    def __init__(self, name: str, given: object, allowed: str) -> None:
        self.name = name
        self.given = given
        self.allowed = allowed
        super().__init__(f"{name} is {shown(given)}; it must be {allowed}")


def shown(value: object) -> str:
    """A value as a person would write it, cut short where it is long."""
    text = repr(value.item()) if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
