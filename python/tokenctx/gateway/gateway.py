"""The one object that a gateway needs: settings, and a call made of each request."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, get_args

from tokenctx._estimate.arguments import require_names
from tokenctx._results.defaults import DEFAULTS, checked_aliases, checked_fallbacks
from tokenctx._results.front import advised
from tokenctx.gateway.call import Call
from tokenctx.gateway.edits import BodyFields
from tokenctx.gateway.journal import Journal
from tokenctx.gateway.paths import endpoint_of, is_unbounded, looks_like_chat, may_be_chat
from tokenctx.gateway.settings import Names, RefuseBy, Settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tokenctx._estimate.estimator import HybridTokenEstimator
    from tokenctx._results.estimates import Dialect, Estimate, ModelLimits
    from tokenctx.context.limits import Overrides
    from tokenctx.gateway.settings import Body
    from tokenctx.money.budgets import Budgets
    from tokenctx.usage.scaler import ContextWindowScaler


class Gateway:
    """The work of a gateway on each request, around one estimator: `call` or `acall`.

    `refuse_by` is the number of an estimate that has to fit the model's window, `tokens` or the
    upper bound `high`; None refuses nothing. `clamp_output` cuts the output that a body asks for to
    what there is room for, so that less is refused. `include_usage` asks OpenAI's Chat streams for
    usage where the client did not, and takes that event out again. `assumed_window_tokens` is
    the window that the agents behind it assume: usage is rescaled to it. `limits` are yours,
    as `model_limits` takes them: by the beginning of a model's name, in place of the table's.
    `aliases` say which model a name of yours stands for, as `{"fast": "gpt-4o-mini"}`: it is
    counted, priced and budgeted as that one, and sent as it came. `fallbacks` are models that stand
    in for one, in their order, as `{"gpt-4": ["gpt-4.1"]}`: a request that is too long for it goes
    to the first that holds it, which `Call.fallback` names, and is refused if none does. Without
    these two, those of `tokenctx.configure` hold.
    `budgets` are what calls are reserved in and settled with; a call for which one has no room is
    refused with status 429.

    One serves all threads and loops of a process. Raises TypeError or ValueError for settings that
    cannot be meant, OSError for a file of limits that cannot be read.
    """

    @advised("Gateway(HybridTokenEstimator())")
    def __init__(
        self,
        estimator: HybridTokenEstimator,
        *,
        refuse_by: RefuseBy | None = "tokens",
        clamp_output: bool = False,
        include_usage: bool = True,
        assumed_window_tokens: int | None = None,
        limits: Overrides | None = None,
        budgets: Budgets | None = None,
        aliases: Mapping[str, str] | None = None,
        fallbacks: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        if not hasattr(estimator, "record_event"):
            raise TypeError(
                f"estimator is of type {type(estimator).__name__}; it must be a "
                "HybridTokenEstimator"
            )
        if refuse_by not in (None, *get_args(RefuseBy)):
            raise ValueError(f"refuse_by is {refuse_by!r}; it must be 'tokens', 'high' or None")
        self._scalers: dict[int, ContextWindowScaler] = {}
        self._assumed_window_tokens = assumed_window_tokens
        if assumed_window_tokens is not None:
            self._scaler(assumed_window_tokens)  # which checks it
        self._limits = _LimitsByModel(limits) if limits is not None else None
        self._aliases = DEFAULTS.aliases if aliases is None else checked_aliases(aliases)
        self._fallbacks = DEFAULTS.fallbacks if fallbacks is None else checked_fallbacks(fallbacks)
        self._journal = Journal(estimator.metrics)
        self._settings = Settings(
            estimator,
            self._journal,
            refuse_by,
            clamp_output,
            include_usage,
            self._limits_of,
            self._scaler_of,
            budgets,
        )

    def __repr__(self) -> str:
        return f"<Gateway {self._settings.estimator!r}>"

    @property
    def estimator(self) -> HybridTokenEstimator:
        """The estimator that it was made with."""
        return self._settings.estimator

    def call(
        self,
        body: Body | str,
        *,
        path: str = "",
        dialect: Dialect | None = None,
        tenant: str | bytes | None = None,
        model: str | None = None,
        provider: str | None = None,
        keys: Mapping[str, str | None] | None = None,
    ) -> Call:
        """The call that `body` is: estimated, and with all that is to be sent and answered.

        `path` is the one that the client asked for; it tells the dialect, and of Gemini and Bedrock
        the model. Paths that are none of a chat (embeddings, models, files) are not counted, unless
        a `dialect` is given; what looks like a chat at a path that nobody knows is. Without a
        path the body tells. Under budgets a call that no body bounds is refused, as of batches.
        `keys` say whose call it is, beside the tenant and the model, where
        budgets are kept by more than these. Raises TypeError for names that are no text, and
        nothing else.
        """
        if not dialect and self.is_unbounded(path):
            require_names(model=model, dialect=dialect, provider=provider, tenant=tenant)
            return self.uncounted("unbounded", path=path, tenant=tenant, keys=keys)
        call = self._begun(body, path, Names(model, dialect, provider, tenant, keys))
        if call.is_counted:
            call.estimate_now()
        return call

    async def acall(
        self,
        body: Body | str,
        *,
        path: str = "",
        dialect: Dialect | None = None,
        tenant: str | bytes | None = None,
        model: str | None = None,
        provider: str | None = None,
        keys: Mapping[str, str | None] | None = None,
    ) -> Call:
        """As `call`, without holding the loop: what is large is counted in a thread."""
        if not dialect and self.is_unbounded(path):
            require_names(model=model, dialect=dialect, provider=provider, tenant=tenant)
            return await self.auncounted("unbounded", path=path, tenant=tenant, keys=keys)
        call = self._begun(body, path, Names(model, dialect, provider, tenant, keys))
        if call.is_counted:
            await call.aestimate_now()
        return call

    def uncounted(
        self,
        why: str,
        *,
        byte_count: int | None = None,
        path: str = "",
        tenant: str | bytes | None = None,
        keys: Mapping[str, str | None] | None = None,
    ) -> Call:
        """A call whose body is not looked at; it and the statistics say why.

        Under budgets it is reserved by its length, or refused where that is not known.
        """
        call, length = self._unread(why, b"", byte_count, path, tenant, keys)
        call.reserve(length)
        return call

    async def auncounted(
        self,
        why: str,
        *,
        byte_count: int | None = None,
        path: str = "",
        tenant: str | bytes | None = None,
        keys: Mapping[str, str | None] | None = None,
    ) -> Call:
        """As `uncounted`, without holding the loop."""
        call, length = self._unread(why, b"", byte_count, path, tenant, keys)
        await call.areserve(length)
        return call

    def failed(self, stage: str, error: Exception, body: bytes = b"", path: str = "") -> Call:
        """A call that cannot be counted for a failure of the caller's own function.

        Under budgets it is one of nobody, reserved by the length of its body.
        """
        self._journal.failed(stage, error)
        call, length = self._unread(f"{stage}_failed", body, len(body), path, None, None)
        call.reserve(length)
        return call

    async def afailed(
        self, stage: str, error: Exception, body: bytes = b"", path: str = ""
    ) -> Call:
        """As `failed`, without holding the loop."""
        self._journal.failed(stage, error)
        call, length = self._unread(f"{stage}_failed", body, len(body), path, None, None)
        await call.areserve(length)
        return call

    def is_unbounded(self, path: str, *, is_socket: bool = False) -> bool:
        """True if budgets would take a call at `path` for one that nobody can bound."""
        return self._settings.budgets is not None and is_unbounded(path, is_socket=is_socket)

    def count_failure(self, stage: str, error: Exception) -> None:
        """Count a failure of the caller's own function."""
        self._journal.failed(stage, error)

    def stats(self) -> dict[str, int]:
        """Numbers of calls by their outcome; docs/gateway.md has all names. None is text."""
        return self._journal.counts()

    def _unread(
        self,
        why: str,
        body: bytes,
        byte_count: int | None,
        path: str,
        tenant: str | bytes | None,
        keys: Mapping[str, str | None] | None,
    ) -> tuple[Call, int | None]:
        endpoint = endpoint_of(path) if path else None
        model = endpoint.model or None if endpoint is not None else None
        dialect = endpoint.dialect if endpoint is not None else None
        names = Names(model, dialect, None, tenant, keys)
        call = Call(self._settings, body, names, is_counted=True)
        call.not_counted(why)
        return call, byte_count

    def _begun(self, body: Body | str, path: str, names: Names) -> Call:
        require_names(**names.as_arguments())
        given: Any = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
        if isinstance(given, (bytearray, memoryview)):
            given = bytes(given)
        endpoint = endpoint_of(path) if path else None
        is_counted = bool(given) and not (path and endpoint is None and names.dialect is None)
        if given and not is_counted and may_be_chat(path) and looks_like_chat(given):
            is_counted = True
            self._journal.count("unrecognised_paths")
        if endpoint is not None:
            model = names.model or endpoint.model or None
            if endpoint.is_deployment and names.model is None:
                model = None if BodyFields(given).value("model") else endpoint.model
            dialect = names.dialect or endpoint.dialect
            names = Names(model, dialect, names.provider, names.tenant, names.keys)
        if not is_counted:
            self._journal.count("other_paths")
        elif self._aliases or self._fallbacks:
            names = self._meant(given, names)
        return Call(self._settings, given, names, is_counted=is_counted)

    def _meant(self, body: Body, names: Names) -> Names:
        """The names of a call, with the model that an alias stands for, and those after it."""
        try:
            model = names.model or BodyFields(body).value("model")
        except Exception as error:  # the estimate says so, too
            self._journal.failed("alias", error)
            return names
        if not isinstance(model, str):
            return names
        meant = self._aliases.get(model, model)
        others = self._fallbacks.get(model) or self._fallbacks.get(meant, ())
        names = replace(names, fallbacks=[(it, self._aliases.get(it, it)) for it in others])
        return names if meant == model else replace(names, model=meant, alias=model)

    def _limits_of(self, estimate: Estimate) -> ModelLimits:
        own = self._limits.own(estimate.model) if self._limits is not None else None
        return own or estimate.limits

    def _scaler_of(self, limits: ModelLimits) -> ContextWindowScaler | None:
        if self._assumed_window_tokens is None or not limits.window_tokens:
            return None
        return self._scaler(limits.window_tokens)

    def _scaler(self, window_tokens: int) -> ContextWindowScaler:
        """One for each window, of which there are few."""
        from tokenctx.usage.scaler import ContextWindowScaler

        assumed = self._assumed_window_tokens or window_tokens
        if window_tokens not in self._scalers:
            made = ContextWindowScaler(window_tokens, assumed, exempt_models=())
            self._scalers[window_tokens] = made
        return self._scalers[window_tokens]


class _LimitsByModel:
    """Limits of the user, looked up once for each model."""

    def __init__(self, overrides: Overrides) -> None:
        from tokenctx.context.limits import own_limits, read_overrides

        rows = read_overrides(overrides)
        self.own = lru_cache(maxsize=1024)(lambda model: own_limits(model, rows))
