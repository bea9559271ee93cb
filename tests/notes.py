"""A reporter that keeps what is reported, for tests to read."""

from xpsql.platform.progress import SilentReporter


class Notes(SilentReporter):
    """Keeps the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, message: str) -> None:
        self.notes.append(message)
