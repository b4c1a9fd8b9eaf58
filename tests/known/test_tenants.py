"""Tenants: what one has recorded is unknown to every other, whatever they send."""

from __future__ import annotations

import json
from typing import Any

import pytest

import tokenctx
from reference import digest

LONG = "A line of a file, to be kept in mind.\n" * 60
NAMES: list[Any] = [None, "", "a", "A", b"a\0", "\udc80", "a" * 300]


def conversation(turns: int) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    for turn in range(turns):
        messages.append({"role": "user", "content": f"{turn} {LONG}"})
        messages.append({"role": "assistant", "content": f"said {turn}"})
    return {"model": "gpt-4o", "messages": messages[:-1]}


@pytest.mark.parametrize("encode", [lambda body: body, lambda body: json.dumps(body).encode()])
def test_each_tenant_knows_its_own_totals_only(encode: Any) -> None:
    estimator = tokenctx.HybridTokenEstimator()
    body, longer = encode(conversation(12)), encode(conversation(13))
    unknown = estimator.estimate(body)
    for nth, name in enumerate(NAMES):
        assert estimator.estimate(body, tenant=name) == unknown
        assert estimator.estimate(longer, tenant=name).source == "estimated"
        assert estimator.record(body, 9000 + nth, tenant=name)
    for nth, name in enumerate(NAMES):
        assert estimator.estimate(body, tenant=name).tokens == 9000 + nth
        delta = estimator.estimate(longer, tenant=name)
        assert (delta.source, delta.known_tokens) == ("delta", 9000 + nth)


def test_a_name_is_text_or_its_utf_8() -> None:
    estimator = tokenctx.HybridTokenEstimator()
    estimator.record(conversation(2), 500, tenant="é")
    assert estimator.estimate(conversation(2), tenant="é".encode()).source == "exact"


def test_a_reply_is_known_to_its_tenant() -> None:
    estimator = tokenctx.HybridTokenEstimator()
    body, usage = conversation(3), {"prompt_tokens": 2200, "completion_tokens": 30}
    reply = {"role": "assistant", "content": "said 2"}
    estimator.record(body, usage, reply=reply, tenant="one")
    known = {
        name: estimator.estimate(conversation(4), tenant=name).known_tokens
        for name in ("one", "other", None)
    }
    assert known["one"] > 2230
    assert (known["other"], known[None]) == (0, 0)


def test_what_is_learned_is_learned_for_one_tenant() -> None:
    estimator = tokenctx.HybridTokenEstimator(secret=b"secret")
    bodies = [
        {"model": "own-model", "messages": [{"role": "user", "content": "word " * nth}]}
        for nth in range(1, 60)
    ]
    plain = [estimator.count_request(body).tokens for body in bodies]
    for body, tokens in zip(bodies[:50], plain, strict=False):
        estimator.record(body, 100 + 2 * tokens, tenant="one")
    for body, tokens in zip(bodies[50:], plain[50:], strict=True):
        assert estimator.estimate(body, tenant="other").tokens == tokens
        assert estimator.estimate(body).tokens == tokens
        corrected = estimator.estimate(body, tenant="one")
        assert "learned_correction" in corrected.assumptions
    (name,) = estimator.learned()["models"]
    assert name.partition("@")[0].endswith("/own-model")
    assert "one" not in name.partition("@")[2]


def test_learned_names_hold_the_digest_of_a_tenant_and_not_its_name() -> None:
    estimator = tokenctx.HybridTokenEstimator(secret=b"secret")
    estimator.record(conversation(1), 500, tenant="one")
    (name,) = estimator.learned()["models"]
    tenant = digest.public_name(digest.tenant_key(digest.derive_key(b"secret"), b"one"))
    assert name == f"gpt-4o/gpt-4o@{tenant.hex()}"
