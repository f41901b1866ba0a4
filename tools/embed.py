"""tools/embed.py OUT.c FILE…: text files as the C array of src/profile/observer.h."""

import sys
from pathlib import Path


def literal(text):
    lines = []
    for line in text.splitlines(keepends=True):
        quoted = "".join(
            c if c.isascii() and c.isprintable() and c not in '"\\?' else "".join(f"\\{b:03o}" for b in c.encode())
            for c in line
        )
        lines.append(f'    "{quoted}"')
    return "\n".join(lines)


def main():
    out, *sources = map(Path, sys.argv[1:])
    rows = []
    for source in sources:
        text = source.read_text(encoding="utf-8")
        rows.append(f'    {{"{source.name}",\n{literal(text)}\n    , {len(text.encode())}}},')
    body = "\n".join(rows)
    out.write_text(
        '#include "profile/observer.h"\n\n'
        f"const struct leat_observer_file leat_observer_files[] = {{\n{body}\n    {{0}},\n}};\n"
    )


main()
