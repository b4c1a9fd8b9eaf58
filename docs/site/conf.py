"""How Sphinx makes the site; `make_site.py` stages its pages and runs it."""

import __future__

import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import tokenctx
from tokenctx import _core

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "tokenctx"
version = release = tokenctx.__version__
author = "the authors of tokenctx"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 4
default_role = "code"  # one backtick in a docstring means code
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": False}
autodoc_mock_imports = [  # frameworks of others, whose modules are documented without them
    *("agents", "haystack", "langchain", "langchain_core", "litellm", "llama_index"),
    *("pydantic_ai", "strands"),
]
napoleon_use_ivar = True  # fields in one list, and no entry for each
maximum_signature_line_length = 88
toc_object_entries = False  # the names are headings already
add_module_names = False
html_theme = "furo"
pygments_dark_style = "monokai"
html_title = "tokenctx"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False  # make_site.py puts the pages beside the site as Markdown
html_show_copyright = False
html_show_sphinx = False
templates_path: list[str] = []


def stub() -> ModuleType:
    """The types and the docstrings of the compiled module; annotations stay text."""
    path = Path(tokenctx.__file__).with_name("_core.pyi")
    code = compile(path.read_text("utf-8"), path, "exec", __future__.annotations.compiler_flag)
    module = ModuleType("core_stub")
    exec(code, vars(module))  # noqa: S102  # our own stub
    return module


STUB = stub()


def in_stub(name: str) -> Any:
    """What the stub says of `tokenctx.a.b`; None if that is not compiled."""
    _, *parts = name.split(".")
    if not parts or not hasattr(_core, parts[0]):
        return None
    found: Any = STUB
    for part in parts:
        found = getattr(found, part, None)
    return found


def signature(
    _: Any, kind: str, name: str, __: Any, ___: Any, arguments: str | None, returns: str | None
) -> tuple[str, str | None] | None:
    """The signature with its types, which a compiled function does not tell."""
    if arguments and "<" in arguments:  # a default that is no expression, which Sphinx cannot split
        return re.sub(r"<(?:built-in function )?(\w+)>", r"\1", arguments), returns
    found = in_stub(name)
    if found is None or kind not in {"class", "function", "method"}:
        return None
    whole = inspect.signature(found.__new__ if kind == "class" else found)
    parameters = [it for it in whole.parameters.values() if it.name not in {"self", "cls"}]
    plain = whole.replace(parameters=parameters, return_annotation=whole.empty)
    shown = re.sub(r"(?<=: )'([^']*)'", r"\1", str(plain))  # annotations are text
    return shown, None if kind == "class" else whole.return_annotation


def docstring(_: Any, __: str, name: str, ___: Any, ____: Any, lines: list[str]) -> None:
    """The docstring of the stub, which says more than that of the compiled code."""
    found = in_stub(name)
    if found is not None and found.__doc__ and not isinstance(found, str):
        lines[:] = [*inspect.cleandoc(found.__doc__).splitlines(), ""]


def setup(app: "Sphinx") -> None:
    """Called by Sphinx; napoleon's own hook comes after these."""
    app.connect("autodoc-process-signature", signature)
    app.connect("autodoc-process-docstring", docstring, priority=400)
