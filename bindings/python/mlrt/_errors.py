"""What goes wrong: one exception class for each code of the library, all of them `Error`."""
from __future__ import annotations


class Error(Exception):
    """An error of the library.

    code:    the class of the failure, which is the exit code of the tools (`mlrun help exit-codes`)
    number:  "E4001", or None
    message: the sentence alone
    facts:   what was found, what was expected, item by item
    help:    what to do about it, or ""
    """

    code: int = 70

    def __init__(self, message: str, *, code: int | None = None, number: str | None = None,
                 facts: tuple[str, ...] = (), help: str = "", text: str = "") -> None:
        super().__init__(text or message)
        if code is not None:
            self.code = code
        self.number = number
        self.message = message
        self.facts = tuple(facts)
        self.help = help

    def __str__(self) -> str:
        return str(self.args[0])


class UsageError(Error, ValueError):
    code = 2


class NotFound(Error, LookupError, FileNotFoundError):
    """A file or a name that is not there."""
    code = 3


class Malformed(Error, ValueError):
    code = 4


class NoVariant(Error):
    """No variant in the file fits this machine, or what `require` asks for; the facts list the reasons."""
    code = 5


class InputMismatch(Error, ValueError):
    code = 6


class ResourceError(Error, MemoryError):
    code = 7


class Cancelled(Error):
    """Cancelled by its token, or beyond its time limit (E6004)."""
    code = 8


class TrustError(Error, PermissionError):
    """The file's signature is not what the policy asks for."""
    code = 11


class Unsigned(TrustError):
    code = 10


class Untrusted(TrustError):
    code = 11


class BadSignature(TrustError):
    code = 12


class Expired(TrustError):
    code = 13


class Unsupported(Error):
    code = 20


class SelftestFailed(Error):
    code = 21


class InternalError(Error):
    code = 70


_classes: dict[int, type[Error]] = {
    c.code: c for c in (UsageError, NotFound, Malformed, NoVariant, InputMismatch, ResourceError, Cancelled, Unsigned,
                        Untrusted, BadSignature, Expired, Unsupported, SelftestFailed, InternalError)}


def make(code: int, number: int, message: str, facts: tuple[str, ...], help: str, text: str) -> Error:
    kind = _classes.get(code, Error)
    return kind(message, code=code, number=f"E{number:04}" if number else None, facts=facts, help=help, text=text)
