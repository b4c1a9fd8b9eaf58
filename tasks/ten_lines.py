"""Run README's ten lines of use: `python ten_lines.py README.md`; needs nothing but the package."""

import ast
import sys
from pathlib import Path
from typing import Any


def differences(source: str) -> tuple[int, list[str]]:
    """How many expressions have their output beside them, and which have another one."""
    names: dict[str, Any] = {}
    lines, stated, wrong = source.splitlines(), 0, []
    for node in ast.parse(source).body:
        comment = lines[(node.end_lineno or 1) - 1][node.end_col_offset :].strip()
        if not (isinstance(node, ast.Expr) and comment.startswith("# ")):
            exec(compile(ast.Module([node], []), "README.md", "exec"), names)  # noqa: S102
            continue
        stated += 1
        output = repr(eval(compile(ast.Expression(node.value), "README.md", "eval"), names))  # noqa: S307
        if output != comment.removeprefix("# "):
            wrong.append(f"{ast.unparse(node)} is {output}, and README.md says {comment[2:]}")
    return stated, wrong


def main() -> None:
    page = Path(sys.argv[1]).read_text("utf-8")
    stated, wrong = differences(page.partition("```python\n")[2].partition("```")[0])
    if wrong or not stated:
        sys.exit("; ".join(wrong) or "README.md has no line with an output")
    import tokenctx

    system = f"Python {sys.version.split()[0]}, {sys.platform}"
    print(f"README's ten lines: {stated} outputs as stated; {tokenctx.__version__}, {system}")


if __name__ == "__main__":
    main()
