"""Run each file of a folder as its reader does, and compare outputs with the comments beside them.

Each file has a namespace and a process of its own, forked from this one where that can be, so that
what is imported by many is imported once.
"""

import ast
import os
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any

FRAMEWORKS = ("agents", "haystack", "langchain", "litellm", "llama_index", "pydantic_ai", "strands")
CLIENTS = ("coredis", "opentelemetry", "prometheus_client", "redis", "tiktoken", "valkey")
ENGINES = (
    *("daft", "datafusion", "datasets", "duckdb", "pandas"),
    *("polars", "pyarrow", "pyspark", "ray"),
)
OTHERS = (*FRAMEWORKS, *CLIENTS, *ENGINES)
"""What a reader of a page about it has, and this environment has not."""


def mistakes(source: str, name: str) -> list[str]:
    """What an expression with a comment is, where its comment says otherwise; or the error."""
    names: dict[str, Any] = {"__name__": "__main__"}
    lines = source.splitlines()
    wrong: list[str] = []
    for node in ast.parse(source).body:
        comment = lines[(node.end_lineno or 1) - 1][node.end_col_offset :].strip()
        try:
            if not (isinstance(node, ast.Expr) and comment.startswith("# ")):
                exec(compile(ast.Module([node], []), name, "exec"), names)  # noqa: S102
                continue
            output = repr(eval(compile(ast.Expression(node.value), name, "eval"), names))  # noqa: S307
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] in OTHERS:
                return wrong
            return [*wrong, str(error)]
        except Exception as error:
            return [*wrong, "".join(traceback.format_exception_only(error)).strip()]
        if output != comment.removeprefix("# "):
            wrong.append(f"{ast.unparse(node)} is {output}, and the page says {comment[2:]}")
    return wrong


def main() -> None:
    warnings.simplefilter("ignore")
    import tokenctx  # noqa: F401  # once for all

    paths = sorted(Path(sys.argv[1]).glob("*.py"))
    has_failed = False
    for path in paths:
        with tempfile.TemporaryDirectory() as folder:
            sys.stderr.flush()
            if process := os.fork():
                has_failed |= bool(os.waitpid(process, 0)[1])
                continue
            os.chdir(folder)
            sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
            wrong = mistakes(path.read_text("utf-8"), path.name)
            for one in wrong:
                print(f"{path.stem}: {one}", file=sys.stderr, flush=True)
            os._exit(bool(wrong))
    print(f"pasted: {len(paths)} blocks, each in a file of its own")
    sys.exit(has_failed)


if __name__ == "__main__":
    main()
