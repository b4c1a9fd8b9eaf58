"""The front of a public module: which names it shows, and where they are loaded from.

A public name is written once. A package has it in the stub beside its `__init__.py`:

    from tokenctx.context.window import ContextWindow as ContextWindow

Type checkers read the stub, and so does `front` here, at the first name that is asked for. A
module that defines its public names itself shows those: `own_names`.
"""

from __future__ import annotations

from functools import cache, wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

P = ParamSpec("P")
T = TypeVar("T")

_FRONTS: Final[set[str]] = set()
_ELSEWHERE: Final = {
    "HybridTokenEstimator().estimate(body)": (
        "token_counter num_tokens_from_messages num_tokens_from_string get_num_tokens "
        "get_num_tokens_from_messages count_messages estimate count_tokens_approximately "
        "estimate_tokens count_request messages_to_tokens"
    ),
    "HybridTokenEstimator().estimate(body).cost, or normalize_usage(usage).cost(model)": (
        "completion_cost cost_per_token cost_calculator response_cost cost model_cost "
        "estimate_cost calculate_cost calc_price get_cost"
    ),
    "ContextWindow(model).trim(body, budget_tokens)": "trim_messages trim",
    "model_limits(model) of the module context": (
        "get_max_tokens get_model_info max_tokens get_context_window context_window max_context "
        "context_length get_context_length window_tokens"
    ),
    "count_tokens(text, model=model)": "count count_text num_tokens n_tokens len_tokens",
    "Prices of the module money": "prices price price_of",
    "Budgets([Budget(...)]) of tokenctx.money.budgets": "Budget budget RateLimiter rate_limit",
    "choices and cheapest of tokenctx.money.routing": "route router Router",
    "list_encodings() of the module encodings": "list_encoding_names list_models",
    "get_encoding(name).encode(text)": "encode decode encode_ordinary Tokenizer tokenize",
    "Gateway of the module gateway": "Proxy Middleware middleware proxy",
    "HybridTokenEstimator": "Estimator TokenEstimator TokenCounter",
}
"""What is called here what other packages call so: tiktoken, litellm, LangChain."""
_OF_KINDS: Final[Mapping[str, Mapping[str, str]]] = {
    "HybridTokenEstimator": {
        "estimate(body), or count_request(body) with nothing known": "count count_messages",
        "count_tokens(text) of the module": "count_tokens count_text encode",
        "record(body, usage)": "update observe add learn track",
    },
    "Estimate": {
        "tokens": "total total_tokens input_tokens prompt_tokens token_count count value",
        "cost": "price total_cost cost_usd usd",
        "window_tokens": "context_window_tokens context_window window max_tokens",
        "low and high": "lower upper bounds min max range",
    },
    "ContextWindow": {
        "limits.window_tokens": "window window_tokens context_window size max_tokens",
        "usage(body)": "estimate count count_tokens",
    },
    "Cost": {"total": "amount usd total_cost cost value"},
    "Usage": {
        "total_tokens": "total tokens count",
        "input_tokens": "prompt_tokens input prompt",
        "output_tokens": "completion_tokens output completion",
        "cost(model)": "price total_cost cost_usd usd",
    },
}
"""The same of methods and fields."""


def front(module: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of the package `module`, whose `__init__.py` is `file`.

    The first also has `__all__`. What is imported from another front keeps the name of that one as
    its `__module__`; all else gets the name of this.
    """
    _FRONTS.add(module)

    @cache
    def homes() -> dict[str, str]:
        # Not by pathlib, whose import takes longer than all of this.
        with open(f"{file.removesuffix('.py')}.pyi", encoding="utf-8") as stub:  # noqa: PTH123
            lines = [line.split() for line in stub]
        found: dict[str, str] = {}
        home = ""
        for words in lines:
            if words[:1] == ["from"]:
                home = words[1]
            if "as" in words:  # in the same line, or in one of its own between parentheses
                found[words[-1].rstrip(",")] = home
        found.pop("__version__", None)
        return found

    def topics() -> list[Any]:
        return [import_module(f"{module}.{it}") for it, home in homes().items() if home == module]

    def load(name: str) -> Any:
        if name == "__all__":
            return list(homes())
        # Python itself asks for many names with underscores, which no stub has.
        home = None if name.startswith("_") else homes().get(name)
        if home is None:
            # A name of a topic answers here too: who reads `Prices` somewhere need not look it up.
            for topic in () if name.startswith("_") else topics():
                if name in getattr(topic, "__all__", ()):
                    return getattr(topic, name)
            raise AttributeError(f"module {module!r} has no attribute {name!r}{hint(name)}")
        if home == module:
            return import_module(f"{module}.{name}")
        value = getattr(import_module(home), name)
        if home not in _FRONTS and hasattr(value, "__module__"):
            value.__module__ = module
        vars(import_module(module))[name] = value
        return value

    def names() -> list[str]:
        shown = {name for name in vars(import_module(module)) if name.startswith("__")}
        return sorted({*shown, "__all__", *homes()})

    return load, names


def hint(name: str, kind: str = "") -> str:
    """What to call instead, for a name that other packages have: of a module, or of a `kind`."""
    for here, names in (*_OF_KINDS.get(kind, {}).items(), *_ELSEWHERE.items()):
        if name in names.split():
            return f"; here it is {here}: see docs/migration.md"
    return ""


def advised(advice: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A decorator: the TypeError of a call whose arguments do not fit ends with `advice`."""

    def around(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return function(*args, **kwargs)
            except TypeError as error:
                trace = error.__traceback__
                if trace is None or trace.tb_next is not None:
                    raise  # from inside of the function: its arguments did fit
                raise TypeError(f"{error}; {advice}") from None

        return call

    return around


def own_names(scope: Mapping[str, Any]) -> tuple[list[str], Callable[[], list[str]]]:
    """`__all__` and `__dir__` of a module with these names: what it defines and does not hide."""
    module = scope["__name__"]
    own = [
        name
        for name, value in scope.items()
        if name[0] != "_"
        and hasattr(value, "__name__")
        and getattr(value, "__module__", "") == module
    ]
    return own, lambda: sorted({*own, *(name for name in scope if name.startswith("__"))})
