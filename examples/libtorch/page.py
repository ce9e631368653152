# SPDX-License-Identifier: MIT
"""Programs of the page of hosts, and its lines that build them."""
import os
import pathlib
import subprocess


def block(page, language, *words):
    """The first block of a language that has these words."""
    blocks = (part.split("```")[0] for part in page.split(f"```{language}\n")[1:])
    return next(b for b in blocks if all(word in b for word in words))


def build(lines, folder, changes, **variables):
    """Runs the lines of a page, some words replaced, which must occur."""
    for word, here in changes.items():
        assert word in lines, word
        lines = lines.replace(word, here)
    subprocess.run(["sh", "-ec", lines], cwd=folder, env={**os.environ, **variables}, check=True)


def page_of(headmix):
    return pathlib.Path(headmix, "interop", "README.md").read_text()
