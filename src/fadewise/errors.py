"""What fadewise says when something given to it cannot be used: one sentence, one class."""

from __future__ import annotations


class FadewiseError(ValueError):
    """Something given by the user cannot be used. Its text is one sentence for a person."""


class SettingError(FadewiseError):
    """A setting that cannot be used: its name, and the rest of the sentence.

    They are kept apart so that whoever knows the file and the table can put them in front.
    """

    def __init__(self, name: str, complaint: str) -> None:
        self.name = name
        self.complaint = complaint
        super().__init__(f"{name} {complaint}")


class NotAllowed(SettingError):
    """A setting's value that cannot be used: what was given and what is allowed."""

    def __init__(self, name: str, given: object, allowed: str) -> None:
        super().__init__(name, f"is {shown(given)}; it must be {allowed}")


def shown(value: object) -> str:
    """A value as a person would write it, cut short where it is long."""
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        value = value.item()
    if isinstance(value, bool):  # as in TOML
        return str(value).lower()
    try:
        text = repr(value)
    except ValueError:  # Python writes no whole number of more than 4,300 digits
        return "a number of thousands of digits"
    text = " ".join(text.split())  # an array's lines
    return text if len(text) <= 60 else text[:57] + "..."
