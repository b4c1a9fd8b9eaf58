"""One use of each extra, in an environment that has nothing else: `python extras.py cli`."""

import json
import subprocess
import sys
import time
import urllib.request
from importlib import metadata
from pathlib import Path

from tokenctx import HybridTokenEstimator, Metrics

BODY = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Why is the sky blue?"}]}
COMMAND = Path(sys.executable).with_name("tokenctx")
SECONDS = 30


def expect(found: object, wanted: object = None) -> None:
    """Leave unless something was found, and what was wanted if that is given."""
    if not found or wanted not in (None, found):
        sys.exit(f"{sys.argv[1]}: {found!r} in place of {wanted!r}")


def answer(*words: str) -> str:
    return subprocess.run([COMMAND, *words], check=True, capture_output=True, text=True).stdout


def cli() -> None:
    """The command counts, shows tables and replays."""
    text = answer("count", "--json", "--text", "Why is the sky blue?", "--model", "gpt-4o")
    expect(json.loads(text)["tokens"], 6)
    expect("gpt-4o" in answer("profiles", "gpt-4o"))
    expect(answer("demo"))
    expect("limits" in answer("data"))
    expect("Usage" in answer("--help"))


def serve() -> None:
    """The server answers a count with its cost."""
    words = (COMMAND, "serve", "--port", "0")
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = (server.stdout or sys.stdin).readline().split()[-1]
            data = json.dumps(BODY).encode()
            headers = {"content-type": "application/json"}
            request = urllib.request.Request(f"{address}/v1/estimate", data, headers)
            with urllib.request.urlopen(request, timeout=SECONDS) as told:
                expect(json.load(told)["tokens"], 13)
            with urllib.request.urlopen(f"{address}/metrics", timeout=SECONDS) as told:
                expect(b"tokenctx_estimates_total" in told.read())
        finally:
            server.terminate()


def metrics() -> None:
    """Both exporters tell what was estimated."""
    from prometheus_client import CollectorRegistry, generate_latest

    from tokenctx.integrations.metrics import opentelemetry, prometheus

    estimator = HybridTokenEstimator(metrics=Metrics())
    registry = CollectorRegistry()
    prometheus(estimator, registry)
    expect(opentelemetry(estimator))
    estimator.estimate(BODY)
    expect(b"tokenctx_estimates_total" in generate_latest(registry))


def redis() -> None:
    """A store whose server is away costs nothing but what it knows."""
    from redis import Redis

    from tokenctx import RedisPrefixStore

    store = RedisPrefixStore(Redis(port=1, socket_timeout=0.1))
    estimator = HybridTokenEstimator(shared=store, secret=b"a secret of 16 bytes or more")
    expect(estimator.estimate(BODY).tokens, 13)


def batch() -> None:
    """DuckDB counts a column of texts, and Arrow gives one."""
    import duckdb
    import pyarrow as pa

    from tokenctx import batch as batches
    from tokenctx.batch.duckdb import register

    connection = duckdb.connect()
    register(connection)
    rows = connection.sql("SELECT count_tokens('Why is the sky blue?', 'gpt-4o')").fetchall()
    expect(rows, [(6,)])
    expect(list(batches.count(pa.array(["Why is the sky blue?"]), model="gpt-4o").tokens), [6])


def tokenizers() -> None:
    """A tokenizer.json that the core does not count by itself counts."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    from tokenctx.encodings import Encoding

    words = Tokenizer(models.WordLevel({"sky": 0, "blue": 1, "[UNK]": 2}, unk_token="[UNK]"))  # noqa: S106
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.save("words.json")
    encoding = Encoding.from_tokenizer_json("words.json")
    expect(encoding.count("sky blue sky"), 3)


def main() -> None:
    extra = sys.argv[1]
    began = time.monotonic()
    uses = {it.__name__: it for it in (cli, serve, metrics, redis, batch, tokenizers)}
    uses[extra]()
    there = sorted(f"{it.name} {it.version}" for it in metadata.distributions())
    print(f"{extra}: {time.monotonic() - began:.1f} s with {', '.join(there)}")


if __name__ == "__main__":
    main()
