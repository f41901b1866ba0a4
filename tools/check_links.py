"""Fails on a link in a document, or a document named in a source, that leads nowhere."""

import re

from tree import ROOT, files, finish


def anchors(path):
    """The names that headings of a Markdown file can be linked by."""
    names = set()
    for heading in re.findall(r"^#+ +(.*)$", path.read_text(), flags=re.M):
        plain = re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower())
        names.add(plain.strip().replace(" ", "-"))
    return names


def links_of(path):
    text = re.sub(r"```.*?```", lambda m: "\n" * m.group().count("\n"), path.read_text(), flags=re.S)
    for match in re.finditer(r"\[[^\]]*\]\(([^)\s]+)\)", text):
        yield text.count("\n", 0, match.start()) + 1, match.group(1)


def main():
    problems = []
    for path in files({".md"}):
        for line, link in links_of(path):
            if re.match(r"[a-z]+:", link):
                continue
            name, _, anchor = link.partition("#")
            target = (path.parent / name).resolve() if name else path
            if not target.exists():
                problems.append((path, line, f"'{link}': there is no such file"))
            elif anchor and target.suffix == ".md" and anchor not in anchors(target):
                problems.append((path, line, f"'{link}': there is no such heading"))
    for path in files({".c", ".h", ".py", ".build", ".md"}):
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            for name in re.findall(r"\bdocs/[\w-]+\.md", line):
                if not (ROOT / name).exists():
                    problems.append((path, number, f"{name}: there is no such document"))
    finish(problems)


if __name__ == "__main__":
    main()
