"""Fails on words that read like a translation, in comments, texts and documents.

Only patterns that are hardly ever right are listed. A line that needs one of them says `words: fine` in a comment.
"""

import io
import re
import tokenize

from tree import ROOT, files, finish

UNIT = (
    "batch|byte|chunk|column|core|epoch|field|file|line|loader|machine|message|node|piece|process|rank|row|sample|step"
)
WORDS = {
    r"anew": "again",
    r"can ?(?:not )?be had|could (?:not )?be had|to be had": "is available, can be fetched",
    r"for want of": "because there is no",
    r"goes? with neither": "cannot be combined with",
    rf"(?:a|one) (?:byte|draw|file|line|message|number|request|round trip|row|sample|thread|word) an? (?:{UNIT})": (
        "one X per Y"
    ),
    rf"\w+ (?:batches|bytes|chunks|requests|samples) an? (?:{UNIT})(?=[,.;:)\"]|\s*\*/|$)": "X per Y, in each Y",
    r"(?:is|are) no (?:multiple|number|command|option|setting|part) of": "is not a …",
    r"so (?:many|much|long)(?! (?:\w+ )?(?:as|that|more|less|faster|slower)\b)": "this many, that much, this long",
    r"(?:all|anything|begins?|bits|bytes?|comes?|everything|goes|lies?|NUL|one|puts?|something|stands?|those) behind"
    r" (?:an?|each|it|its|the|them)": "after",
    r"unless told(?! otherwise)": "by default",
    r"whoever": "the caller, the thread that …, anyone who …",
}
ALLOWED = "words: fine"
FOLDERS = ("src", "include", "python", "tests", "bench", "tools", "examples")
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
BREAK = r"(?:\s+(?:[*#]\s+)?)"  # words of a comment may stand on two lines
PATTERN = {re.compile(rf"\b(?:{p.replace(' ', BREAK)})\b", re.I): (p, say) for p, say in WORDS.items()}


def of_c(text):
    """Comments and strings of C with their places; parts of a string that follow each other are one."""
    tokens = re.finditer(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", text, re.S)
    found = []
    for m in tokens:
        if m.group()[0] == "'":
            continue
        if found and m.group()[0] == found[-1][1][0] == '"' and not text[found[-1][2] : m.start()].strip():
            start, before, _ = found.pop()
            found.append((start, before[:-1] + m.group()[1:], m.end()))
        else:
            found.append((m.start(), m.group(), m.end()))
    return [(start, part) for start, part, _ in found]


def of_python(text):
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    wanted = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [(starts[t.start[0] - 1] + t.start[1], t.string) for t in tokens if t.type in wanted]


def problems_of(path):
    text = path.read_text(errors="replace")
    lines = text.split("\n")
    parts = of_python(text) if path.suffix == ".py" else [(0, text)] if path.suffix == ".md" else of_c(text)
    for start, part in parts:
        for pattern, (_, say) in PATTERN.items():
            for m in pattern.finditer(part):
                line = text.count("\n", 0, start + m.start()) + 1
                if ALLOWED not in lines[line - 1]:
                    yield path, line, f"'{' '.join(m.group().split())}' is not plain English here: {say}"


def main():
    problems = []
    documents = [*files({".md"}, "docs"), *(ROOT / name for name in DOCUMENTS)]
    for path in [*files({".c", ".h", ".py"}, *FOLDERS), *documents]:
        if path != ROOT / "tools" / "check_words.py":  # which has to name them
            problems += problems_of(path)
    finish(problems)


if __name__ == "__main__":
    main()
