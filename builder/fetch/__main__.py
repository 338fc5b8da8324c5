"""`python -m builder.fetch REF…`."""

from __future__ import annotations

import sys

from builder.errors import FetchError
from builder.fetch.files import command, digest


def main(refs: list[str]) -> int:
    """Print each reference as a recipe wants it."""
    try:
        for ref in refs:
            sys.stdout.write(f'{{ ref = "{ref}", sha256 = "{digest(ref)}" }}\n')
    except FetchError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    if not refs:
        sys.stderr.write(f"usage: {command('REF')}\n")
    return 0 if refs else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
