"""What can go wrong, as one tree. Every message names what (file, node, URL), why, and what to do.

OnnxsiteError
├── UsageError              the command line or a recipe asks for something that isn't there
├── SourceError             the source can't become a model
│   ├── NotAModelError          not a protobuf, truncated, no graph
│   ├── ExternalDataError       a weight file is missing, short, or outside the model's folder
│   ├── UnsupportedError        operator, domain, dtype, IR, opset or shape that can't be run
│   ├── MissingExtraError       a framework that isn't installed
│   └── ImportMismatchError     the imported graph disagrees with its framework
├── FetchError              a pinned file can't be fetched, or isn't the pinned one
├── ConversionError         a pass or a conversion produced an invalid graph
├── GateError               no variant is left that is right
├── HostError               a file breaks a limit of the chosen host
└── OutputError             the output can't be written: not ours, no space, no permission
"""

from __future__ import annotations


class OnnxsiteError(Exception):
    """Base of everything that the builder raises on purpose.

    Args:
        what: The thing that failed: a file, a node, an option, a URL.
        why: The cause, in a clause.
        remedy: What the user can do about it, as an imperative sentence.
    """

    exit_code = 1

    def __init__(self, what: str, why: str, remedy: str = "") -> None:
        self.what, self.why, self.remedy = what, why, remedy
        super().__init__(f"{what}: {why}." + (f" {remedy}" if remedy else ""))

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        """Survive a trip through a process pool: the default would pass the joined message only."""
        return type(self), (self.what, self.why, self.remedy)


class UsageError(OnnxsiteError):
    """The command line or a recipe asks for something that isn't there."""

    exit_code = 2


class SourceError(OnnxsiteError):
    """The source can't become a model."""


class NotAModelError(SourceError):
    """Not a protobuf, truncated, or without a graph."""


class ExternalDataError(SourceError):
    """A weight file is missing, short, or outside the model's folder."""


class UnsupportedError(SourceError):
    """Operator, domain, dtype, IR version, opset or shape that the web runtime can't run."""


class MissingExtraError(SourceError):
    """A framework that isn't installed; the remedy names the extra."""


class ImportMismatchError(SourceError):
    """The imported graph disagrees with the framework it came from."""


class FetchError(OnnxsiteError):
    """A pinned file can't be fetched, or what came isn't the pinned file."""


class ConversionError(OnnxsiteError):
    """A pass or a conversion produced an invalid graph."""


class GateError(OnnxsiteError):
    """No variant is left that is right."""


class HostError(OnnxsiteError):
    """A file of the site breaks a limit of the chosen host."""


class OutputError(OnnxsiteError):
    """The output folder can't be written: not ours, no space, no permission."""
